//! `/api/v1/sessions/{session_id}/events`: what happened in a session, for key figures.

use axum::extract::State;
use filrouge_engine::RecordEvent;
use filrouge_types::SessionEvent;

use super::page::PageQuery;
use crate::app::App;
use crate::openapi::{Created, Listed, SessionPath};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, Page, created, json};
use filrouge_http::extract::{Body, InSession};

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
    responses(Created<SessionEvent>)
)]
pub(super) async fn record(
    State(app): State<App>,
    at: InSession<may::Write>,
    Body(request): Body<RecordEvent>,
) -> Answer {
    let event = app.events.record(&at.caller, at.session, request).await?;
    created(!event.replayed, &event)
}

/// Lists a session's events in the order in which they were recorded.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/events",
    operation_id = "listEvents",
    tag = "events",
    params(SessionPath, PageQuery),
    responses(Listed<SessionEvent>)
)]
pub(super) async fn list(State(app): State<App>, at: InSession<may::Read, PageQuery>) -> Answer {
    let limit = at.query.limit.into();
    let after = at.query.cursor.map_or(0, Into::into);
    let (data, next_cursor) = app
        .events
        .list(&at.caller, &at.session, after, limit)
        .await?;
    json(&Page { data, next_cursor })
}
