//! `/api/v1/changes`: what happened in sessions, in the order of commits (DESIGN §10).

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_store::read::{ChangeCursor, ChangeKind, ChangePage, SessionChange};
use filrouge_types::{ErrorCode, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{Called, Problems, Shown, Stored};
use filrouge_http::access::{Principal, may};
use filrouge_http::answer::json;
use filrouge_http::extract::{InTenant, Limit, Query, wait};
use filrouge_http::problem::Problem;

/// What happened to a session.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionChange)]
pub(crate) struct Change {
    /// The place behind this change; told apart from all others by it.
    #[schema(example = "42")]
    cursor: String,
    /// What happened.
    #[schema(value_type = Kind)]
    kind: ChangeKind,
    /// The session.
    session_id: SessionId,
    /// The first seq that was added, if any was.
    #[schema(required)]
    first_seq: Option<u64>,
    /// The last seq that was added, if any was.
    #[schema(required)]
    last_seq: Option<u64>,
    /// The store's time of the commit.
    at: Timestamp,
}

/// What happens to sessions.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case", as = ChangeKind)]
#[expect(dead_code, reason = "the words are read by the derive")]
enum Kind {
    Created,
    Items,
    Patched,
    Erased,
    Event,
    Checkpoint,
}

impl From<SessionChange> for Change {
    fn from(change: SessionChange) -> Self {
        Self {
            cursor: change.cursor,
            kind: change.kind,
            session_id: change.session_id,
            first_seq: change.first_seq,
            last_seq: change.last_seq,
            at: change.at,
        }
    }
}

/// A page of the feed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangePage)]
pub(crate) struct Changes {
    /// Changes in the order of commits.
    data: Vec<Change>,
    /// Where to go on, also on a page without changes. One that is what `after` was means: nothing new yet.
    #[schema(example = "42")]
    next_cursor: String,
}

impl From<ChangePage> for Changes {
    fn from(page: ChangePage) -> Self {
        Self {
            next_cursor: page.next.to_string(),
            data: page.data.into_iter().map(Into::into).collect(),
        }
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Those behind this `next_cursor` or `cursor` of a change; left out: from the beginning.
    #[param(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    after: Option<String>,
    /// Another word for `after`.
    #[param(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    cursor: Option<String>,
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// Wait so many milliseconds for a change when there is none yet: a long poll.
    #[param(minimum = 0, maximum = 60_000, default = 0)]
    wait: Option<u64>,
}

fn after(query: &ListQuery) -> Result<ChangeCursor, Problem> {
    match (&query.after, &query.cursor) {
        (Some(after), Some(cursor)) if after != cursor => Err(Problem::new(
            ErrorCode::Invalid,
            "after and cursor name two places",
        )),
        (Some(text), _) | (None, Some(text)) => Ok(text.parse()?),
        (None, None) => Ok(ChangeCursor::default()),
    }
}

/// Lists what happened in sessions, in the order of commits; none can be skipped.
///
/// On behalf of an end user it tells of that user's sessions, otherwise of the whole tenant. It tells that something
/// happened, not what was said.
#[utoipa::path(
    get,
    path = "/api/v1/changes",
    operation_id = "listChanges",
    tag = "changes",
    params(ListQuery),
    responses(Shown<Changes>, Problems<(Called, Stored)>)
)]
pub(super) async fn list(
    State(app): State<App>,
    at: InTenant<may::Read>,
    Query(query): Query<ListQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let (after, limit, wait) = (after(&query)?, query.limit.into(), wait(query.wait)?);
    let following = &app.engine().following;
    let now = || following.changes(&at.caller, after, limit);
    if wait.is_zero() {
        return json(StatusCode::OK, &Changes::from(now().await?));
    }
    let _slot = app.limits().stream(at.principal.name())?;
    let until = Instant::now() + wait;
    let page = tokio::select! {
        page = following.next_changes(&at.caller, after, limit, until) => page?,
        () = app.stopped() => now().await?,
        () = at.principal.ended() => return Err(Principal::no_longer_valid()),
    };
    json(StatusCode::OK, &Changes::from(page))
}
