//! `/api/v1/sessions/{session_id}/events`: what happened in a session, for key figures.

use filrouge_engine::RecordEvent;
use filrouge_types::SessionEvent;

use super::page::PageQuery;
use crate::app::App;
use crate::openapi::{CreatedResponse, PageResponse};
use filrouge_http::access::may;
use filrouge_http::extract::{Body, SessionAccess};
use filrouge_http::response::{RouteResult, created, page};

/// Records an event of a session, once for each key.
///
/// Repeating the key with an equal body returns the first response; with a different body it is a conflict.
#[utoipa::path(
    post,
    path = "/api/v1/sessions/{session_id}/events",
    request_body = RecordEvent,
    responses(CreatedResponse<SessionEvent>)
)]
pub(super) async fn record_event(
    app: App,
    access: SessionAccess<may::Write>,
    Body(request): Body<RecordEvent>,
) -> RouteResult {
    created(app.events.record(&access.caller, access.session, request)).await
}

/// Lists a session's events in the order in which they were recorded.
///
/// Events are counted for key figures; they are not part of the conversation.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/events",
    params(PageQuery),
    responses(PageResponse<SessionEvent>)
)]
pub(super) async fn list_events(
    app: App,
    access: SessionAccess<may::Read, PageQuery>,
) -> RouteResult {
    let limit = access.query.limit.into();
    let after = access.query.cursor.map_or(0, Into::into);
    let events = &app.events;
    page(events.list(&access.caller, &access.session, after, limit)).await
}
