//! `/api/v1/changes`: what happened in sessions, each session's changes in order (DESIGN §10).

use filrouge_store::read::{ChangeCursor, ChangePage, SessionChange};
use filrouge_store::verify::Finding;
use filrouge_types::ErrorCode;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::StateResponse;
use filrouge_http::access::{Principal, may};
use filrouge_http::extract::{Limit, TenantAccess, wait};
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, json};

/// A page of the feed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangePage)]
pub(crate) struct Changes {
    /// Changes, those of each session in order.
    data: Vec<SessionChange>,
    /// Where to continue, even on a page without changes. When it equals `after`, there is nothing new yet.
    #[schema(example = "42")]
    next_cursor: String,
    /// Damaged sessions that the page leaves out; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Finding>,
}

impl From<ChangePage> for Changes {
    fn from(page: ChangePage) -> Self {
        Self {
            next_cursor: page.next.to_string(),
            data: page.data,
            findings: page.findings,
        }
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangesQuery {
    /// Only changes after this `next_cursor`, or after this `cursor` of a change; by default from the beginning.
    #[param(pattern = r"^[0-9]+(\.[0-9]+)?(_[0-9]+(\.[0-9]+)?)*$")]
    after: Option<String>,
    /// A synonym of `after`.
    #[param(pattern = r"^[0-9]+(\.[0-9]+)?(_[0-9]+(\.[0-9]+)?)*$")]
    cursor: Option<String>,
    /// The maximum number of changes.
    #[serde(default)]
    #[param(inline)]
    limit: Limit,
    /// How many milliseconds to wait for a change when there is none yet: a long poll.
    #[param(minimum = 0, maximum = 60_000, default = 0)]
    wait: Option<u64>,
}

/// Returns the position after which the caller wants changes.
fn position(query: &ChangesQuery) -> Result<ChangeCursor, Problem> {
    match (&query.after, &query.cursor) {
        (Some(after), Some(cursor)) if after != cursor => Err(Problem::new(
            ErrorCode::Invalid,
            "after and cursor name different positions",
        )),
        (Some(text), _) | (None, Some(text)) => Ok(text.parse()?),
        (None, None) => Ok(ChangeCursor::default()),
    }
}

/// Lists what happened in sessions, without gaps, and each session's changes in order.
///
/// On behalf of an end user it lists that user's sessions, otherwise the whole tenant's. It reports that something
/// happened, not the content.
#[utoipa::path(
    get,
    path = "/api/v1/changes",
    params(ChangesQuery),
    responses(StateResponse<Changes>)
)]
pub(super) async fn list_changes(
    app: App,
    access: TenantAccess<may::Read, ChangesQuery>,
) -> RouteResult {
    let (after, limit, wait) = (
        position(&access.query)?,
        access.query.limit.into(),
        wait(access.query.wait)?,
    );
    let following = &app.following;
    let read_changes = || following.changes(&access.caller, after.clone(), limit);
    if wait.is_zero() {
        return json(&Changes::from(read_changes().await?));
    }
    let _slot = app.limits().open_stream(&access.caller)?;
    let deadline = Instant::now() + wait;
    let page = tokio::select! {
        page = following.next_changes(&access.caller, after.clone(), limit, deadline) => page?,
        () = app.wait_until_stopping() => read_changes().await?,
        () = access.principal.wait_until_ended() => return Err(Principal::credentials_ended()),
    };
    json(&Changes::from(page))
}
