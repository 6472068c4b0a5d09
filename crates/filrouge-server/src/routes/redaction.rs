//! `/api/v1/sessions/{session_id}/redact`.

use filrouge_engine::{RedactItems, RedactionReceipt};

use crate::app::App;
use crate::openapi::WriteResponse;
use filrouge_http::access::may;
use filrouge_http::extract::{Body, SessionAccess};
use filrouge_http::response::{RouteResult, written};

/// Erases the contents of items, of any turns; the record that they existed, and who redacted them, stays.
///
/// This cannot be undone. Repeating it changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/redact",
    request_body = RedactItems,
    responses(WriteResponse<RedactionReceipt>)
)]
pub(super) async fn redact_items(
    app: App,
    access: SessionAccess<may::Redact>,
    Body(request): Body<RedactItems>,
) -> RouteResult {
    let erasure = &app.erasure;
    written(erasure.redact_items(&access.caller, access.session, request)).await
}
