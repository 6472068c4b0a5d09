//! `/api/v1/sessions/{session_id}/events`: what happened in a session, for key figures.

use axum::extract::State;
use filrouge_engine::RecordEvent;
use filrouge_types::SessionEvent;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::openapi::{Created, Listed, SessionPath};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, Page, created, json};
use filrouge_http::extract::{Body, Cursor, InSession, Limit};

/// Records an event of a session, once for each key.
///
/// With the same key and body the first answer comes again; with another body it is a conflict.
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

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    cursor: Option<Cursor>,
}

/// Lists a session's events in the order they were recorded.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/events",
    operation_id = "listEvents",
    tag = "events",
    params(SessionPath, ListQuery),
    responses(Listed<SessionEvent>)
)]
pub(super) async fn list(State(app): State<App>, at: InSession<may::Read, ListQuery>) -> Answer {
    let limit = at.query.limit.into();
    let after = at.query.cursor.map_or(0, Into::into);
    let (data, next_cursor) = app
        .events
        .list(&at.caller, &at.session, after, limit)
        .await?;
    json(&Page { data, next_cursor })
}
