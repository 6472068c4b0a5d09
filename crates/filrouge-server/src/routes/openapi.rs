//! `/openapi.json`.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;

use crate::openapi::complete_document;
use filrouge_http::extract::{NoParameters, Query};
use filrouge_http::response::{RouteResult, text};

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let document = complete_document(super::api().into_openapi());
    format!("{document:#}\n").into()
});

/// Returns this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses(
        (
            status = 200,
            description = "The document.",
            content((crate::openapi::Document = "application/json")),
            headers(("Cache-Control" = String, description = "Clients may cache it for an hour.")),
        )
    )
)]
pub(super) async fn get_open_api(_: Query<NoParameters>) -> RouteResult {
    let cache_policy = [(header::CACHE_CONTROL, "public, max-age=3600")];
    let document = text("application/json", DOCUMENT.clone());
    Ok((cache_policy, document).into_response())
}
