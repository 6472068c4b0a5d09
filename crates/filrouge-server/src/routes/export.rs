//! `/api/v1/sessions/{session_id}/export`.

use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::openapi::Bundle;
use filrouge_http::access::may;
use filrouge_http::export::{ExportFormat, export};
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    /// The format of the document.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

/// Exports a conversation as a document.
///
/// JSON is a signed bundle, which anybody can verify offline; Markdown and HTML are for people.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/export",
    params(ExportQuery),
    responses((
        status = 200,
        description = "The document.",
        content((Bundle = "application/json"), (String = "text/markdown"), (String = "text/html")),
        headers(
            ("Content-Disposition" = String, description = "An attachment."),
            ("Content-Security-Policy" = String, description = "A sandbox: foreign content is not treated as a page of this origin."),
            ("X-Content-Type-Options" = String, description = "`nosniff`."),
        ),
    ))
)]
pub(super) async fn export_session(
    app: App,
    access: SessionAccess<may::Read, ExportQuery>,
) -> RouteResult {
    let format = access.query.format;
    export(&app, &access.caller, &access.session, format).await
}
