//! `/api/v1/sessions/{session_id}/checkpoints`: what the application knew at a seq (DESIGN §6).

use axum::extract::State;
use filrouge_engine::SaveCheckpoint;
use filrouge_types::{Checkpoint, RawJson, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{
    Called, Created, Listed, OfCheckpoint, OfSession, Problems, PuttingCheckpoint, SessionPath,
    Shown, Stored, UnderLease, WithBody, Writing,
};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, Page, created, json};
use filrouge_http::extract::{Body, Cursor, InSession, Limit, NoParameters, Query};

/// Puts a checkpoint, once for each seq; its label becomes the session's state.
///
/// The same one again changes nothing; another one at the same seq is a conflict. The newest ones are kept.
#[utoipa::path(
    put,
    path = "/api/v1/sessions/{session_id}/checkpoints",
    operation_id = "putCheckpoint",
    tag = "calls",
    params(SessionPath),
    request_body = SaveCheckpoint,
    responses(Created<Checkpoint>, Problems<(Called, Stored, WithBody, Writing, OfSession, PuttingCheckpoint, UnderLease)>)
)]
pub(super) async fn put(
    State(app): State<App>,
    at: InSession<may::Write>,
    _: Query<NoParameters>,
    Body(request): Body<SaveCheckpoint>,
) -> Answer {
    let saved = app
        .engine()
        .calls
        .put_checkpoint(&at.caller, &at.session, request)
        .await?;
    created(!saved.replayed, &saved)
}

/// A checkpoint in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedCheckpoint)]
pub(super) struct ListedCheckpoint {
    /// It covers all items with this seq or less.
    seq: u64,
    /// The application's label.
    label: Option<Box<str>>,
    /// The application's state; `null` when it cannot be read.
    #[schema(value_type = Option<Object>)]
    state: Option<RawJson>,
    /// When it was put; `null` when it cannot be read.
    created_at: Option<Timestamp>,
    /// Whether it is not what was put: then its seq is all that is shown.
    unreadable: bool,
}

impl From<Result<Checkpoint, u64>> for ListedCheckpoint {
    fn from(found: Result<Checkpoint, u64>) -> Self {
        match found {
            Ok(found) => Self {
                seq: found.seq,
                label: found.label,
                state: Some(found.state),
                created_at: Some(found.created_at),
                unreadable: false,
            },
            Err(seq) => Self {
                seq,
                label: None,
                state: None,
                created_at: None,
                unreadable: true,
            },
        }
    }
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

/// Lists a session's checkpoints, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/checkpoints",
    operation_id = "listCheckpoints",
    tag = "calls",
    params(SessionPath, ListQuery),
    responses(Listed<ListedCheckpoint>, Problems<(Called, Stored, OfSession)>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InSession<may::Read>,
    Query(query): Query<ListQuery>,
) -> Answer {
    let limit = usize::from(query.limit);
    let before = query.cursor.map(u64::from);
    let all = app
        .engine()
        .calls
        .checkpoints(&at.caller, &at.session)
        .await?;
    let mut data: Vec<ListedCheckpoint> = all
        .into_iter()
        .map(ListedCheckpoint::from)
        .filter(|one| before.is_none_or(|seq| one.seq < seq))
        .collect();
    let more = data.len() > limit;
    data.truncate(limit);
    let next_cursor = data.last().filter(|_| more).map(|one| one.seq.to_string());
    json(&Page { data, next_cursor })
}

/// Gives the newest checkpoint that can be read.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/checkpoints/latest",
    operation_id = "getLatestCheckpoint",
    tag = "calls",
    params(SessionPath),
    responses(Shown<Checkpoint>, Problems<(Called, Stored, OfSession, OfCheckpoint)>)
)]
pub(super) async fn latest(
    State(app): State<App>,
    at: InSession<may::Read>,
    _: Query<NoParameters>,
) -> Answer {
    let engine = app.engine();
    let checkpoint = engine
        .calls
        .latest_checkpoint(&at.caller, &at.session)
        .await?;
    json(&checkpoint)
}
