//! The notice about sessions that were created since the page was loaded. The page asks for it every few seconds, and
//! stays as it is until the visitor follows the notice's link.

use axum::extract::State;
use filrouge_engine::Caller;
use filrouge_engine::caller::may;
use filrouge_http::extract::TenantAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_types::{Session, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::query::ListQuery;
use super::question::Question;
use crate::Pages;
use crate::layout::fragment;
use crate::links::with_query;
use crate::visit::Visit;
use crate::words::SessionsWords;

/// The route of the notice.
pub(crate) const PATH: &str = "/ui/new-sessions";

/// The maximum number of new sessions that are counted.
const COUNTED_MAX: usize = 50;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArrivalsQuery {
    /// The search.
    #[serde(default)]
    q: String,
    /// The history.
    source: Option<String>,
    /// When the newest session was created that existed when the page was loaded; absent if there was none.
    after: Option<Timestamp>,
}

/// The place of the notice on a page; `None` if the page's list cannot have new sessions.
pub(super) async fn place(
    pages: &Pages,
    caller: &Caller,
    query: &ListQuery,
    question: &Question,
) -> Result<Option<Markup>, Problem> {
    if !question.includes_ledger() || question.only_failed {
        return Ok(None);
    }
    let newest = newest(pages, caller, question, None, 1).await?;
    let after = newest.first().map(|session| session.created_at.to_string());
    let parameters = [
        ("q", query.q.trim()),
        ("source", query.source.as_deref().unwrap_or_default()),
        ("after", after.as_deref().unwrap_or_default()),
    ];
    let address = with_query(PATH, &parameters);
    Ok(Some(html! {
        div.arrivals role="status" hx-get=(address) hx-trigger="every 5s" hx-swap="innerHTML" {}
    }))
}

/// Returns the notice; it is empty while there are no new sessions.
pub(crate) async fn arrivals(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Read, ArrivalsQuery>,
) -> RouteResult {
    let words = SessionsWords::of(visit.language);
    let ArrivalsQuery { q, source, after } = access.query;
    let query = ListQuery {
        q,
        source,
        ..ListQuery::default()
    };
    let Ok(question) = Question::parse(&query, words) else {
        return Ok(fragment(&html! {}));
    };
    let limit = COUNTED_MAX + 1;
    let sessions = newest(&pages, &access.caller, &question, after, limit).await?;
    let is_new = |session: &&Session| after.is_none_or(|after| session.created_at > after);
    let count = sessions.iter().filter(is_new).count();
    Ok(fragment(&html! {
        @if count > 0 {
            a href=(query.address(query.source.as_deref(), None, None)) {
                (count.min(COUNTED_MAX)) @if count > COUNTED_MAX { "+" } " "
                @if count == 1 { (words.new_session) } @else { (words.new_sessions) }
            }
        }
    }))
}

/// The newest sessions of the question that were created at `since` or later.
async fn newest(
    pages: &Pages,
    caller: &Caller,
    question: &Question,
    since: Option<Timestamp>,
    limit: usize,
) -> Result<Vec<Session>, Problem> {
    let filter = SessionFilter {
        since: question.filter.since.max(since),
        order: SessionSort::Created,
        ..question.filter.clone()
    };
    let list = pages
        .sessions
        .list_with_findings(caller, filter, None, limit);
    let ((sessions, _), _) = list.await?;
    Ok(sessions)
}
