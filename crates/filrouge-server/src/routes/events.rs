//! `/api/v1/sessions/{session_id}/events`: what happened in a session, for key figures.

use axum::extract::State;
use filrouge_engine::RecordEvent;
use filrouge_types::SessionEvent;

use super::page::PageQuery;
use crate::app::App;
use crate::openapi::{CreatedResponse, PageResponse, SessionPath};
use filrouge_http::access::may;
use filrouge_http::extract::{Body, SessionAccess};
use filrouge_http::response::{Page, RouteResult, create_response, json};

/// Records an event of a session, once for each key.
///
/// Repeating the key with an equal body returns the first response; with a different body it is a conflict.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/events",
    operation_id = "recordEvent",
    tag = "events",
    params(SessionPath),
    request_body = RecordEvent,
    responses(CreatedResponse<SessionEvent>)
)]
pub(super) async fn record(
    State(app): State<App>,
    access: SessionAccess<may::Write>,
    Body(request): Body<RecordEvent>,
) -> RouteResult {
    let event = app
        .events
        .record(&access.caller, access.session, request)
        .await?;
    create_response(!event.replayed, &event)
}

/// Lists a session's events in the order in which they were recorded.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/events",
    operation_id = "listEvents",
    tag = "events",
    params(SessionPath, PageQuery),
    responses(PageResponse<SessionEvent>)
)]
pub(super) async fn list(
    State(app): State<App>,
    access: SessionAccess<may::Read, PageQuery>,
) -> RouteResult {
    let limit = access.query.limit.into();
    let after = access.query.cursor.map_or(0, Into::into);
    let (data, next_cursor) = app
        .events
        .list(&access.caller, &access.session, after, limit)
        .await?;
    json(&Page { data, next_cursor })
}
