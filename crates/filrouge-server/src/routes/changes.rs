//! `/api/v1/changes`: what happened in sessions, in the order of commits (DESIGN §10).

use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use filrouge_engine::caller::Caller;
use filrouge_store::Scope;
use filrouge_store::read::{ChangeCursor, ChangeKind, ChangePage, SessionChange};
use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout_at};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{Called, Problems, Shown, Stored};
use filrouge_http::access::{Permission, Principal, may};
use filrouge_http::answer::json;
use filrouge_http::extract::{InTenant, Limit, Query, wait};
use filrouge_http::problem::Problem;

/// Commits that follow each other quicker than this cost a waiting reader one look.
const LOOK_GAP: Duration = Duration::from_millis(25);
/// The same for one that has looked in vain again and again: many who wait for what others do not write must not
/// keep the store from working.
const LOOK_GAP_MAX: Duration = Duration::from_millis(400);

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

/// On behalf of an end user what is theirs, otherwise the whole tenant.
fn visible(caller: &Caller) -> Result<Scope, Failure> {
    caller.scope(match caller.identity() {
        Some(_) => Permission::Read,
        None => Permission::ReadTenant,
    })
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
    caller: InTenant<may::Read>,
    Query(query): Query<ListQuery>,
) -> Result<Response<HttpBody>, Problem> {
    let scope = visible(&caller.caller)?;
    let (after, limit, wait) = (after(&query)?, query.limit.into(), wait(query.wait)?);
    let ledger = app.engine().ledger();
    let page = if wait.is_zero() {
        ledger.changes(&scope, after, limit).await?
    } else {
        let _slot = app.limits().stream(caller.principal.name())?;
        let poll = Poll {
            app: &app,
            scope: &scope,
            principal: &caller.principal,
            limit,
            until: Instant::now() + wait,
        };
        poll.run(after).await?
    };
    json(StatusCode::OK, &Changes::from(page))
}

/// A request that waits.
struct Poll<'a> {
    app: &'a App,
    scope: &'a Scope,
    principal: &'a Principal,
    limit: usize,
    until: Instant,
}

impl Poll<'_> {
    /// The next page with changes; the empty one when there were none in time.
    async fn run(&self, mut after: ChangeCursor) -> Result<ChangePage, Problem> {
        let ledger = self.app.engine().ledger();
        let mut commits = ledger.commits();
        let mut keys = self.app.authority().changes();
        let mut stopping = self.app.stopping();
        let mut gap = LOOK_GAP;
        loop {
            commits.borrow_and_update();
            let page = ledger.changes(self.scope, after, self.limit).await?;
            // What others write moves the place on, so that it is looked at once.
            after = page.next;
            if !page.data.is_empty() || Instant::now() >= self.until || *stopping.borrow() {
                return Ok(page);
            }
            if page.more {
                continue;
            }
            let news = async {
                tokio::select! {
                    committed = commits.changed() => match committed {
                        Ok(()) => sleep(gap).await,
                        Err(_) => std::future::pending().await,
                    },
                    changed = keys.changed() => if changed.is_err() {
                        std::future::pending::<()>().await;
                    },
                    _ = stopping.changed() => {}
                }
            };
            // When the time is over there is one more look.
            let _ = timeout_at(self.until, news).await;
            gap = (gap * 2).min(LOOK_GAP_MAX);
            if !self.principal.still_valid() {
                return Err(Principal::no_longer_valid());
            }
        }
    }
}
