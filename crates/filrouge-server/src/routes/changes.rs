//! `/api/v1/changes`: what happened in sessions, in the order of commits (DESIGN §10).

use axum::extract::State;
use filrouge_store::read::{ChangeCursor, ChangePage, SessionChange};
use filrouge_types::ErrorCode;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::Shown;
use filrouge_http::access::{Principal, may};
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::{InTenant, Limit, wait};
use filrouge_http::problem::Problem;

/// A page of the feed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangePage)]
pub(crate) struct Changes {
    /// Changes in the order of commits.
    data: Vec<SessionChange>,
    /// Where to go on, also on a page without changes. One that is what `after` was means: nothing new yet.
    #[schema(example = "42")]
    next_cursor: String,
}

impl From<ChangePage> for Changes {
    fn from(page: ChangePage) -> Self {
        Self {
            next_cursor: page.next.to_string(),
            data: page.data,
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
    responses(Shown<Changes>)
)]
pub(super) async fn list(State(app): State<App>, at: InTenant<may::Read, ListQuery>) -> Answer {
    let (after, limit, wait) = (
        after(&at.query)?,
        at.query.limit.into(),
        wait(at.query.wait)?,
    );
    let following = &app.following;
    let now = || following.changes(&at.caller, after, limit);
    if wait.is_zero() {
        return json(&Changes::from(now().await?));
    }
    let _slot = app.limits().stream(at.principal.name())?;
    let until = Instant::now() + wait;
    let page = tokio::select! {
        page = following.next_changes(&at.caller, after, limit, until) => page?,
        () = app.stopped() => now().await?,
        () = at.principal.ended() => return Err(Principal::no_longer_valid()),
    };
    json(&Changes::from(page))
}
