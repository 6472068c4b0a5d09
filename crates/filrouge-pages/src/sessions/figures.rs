//! The figures of one session that its row does not have: tokens, cost, and whether the newest turn failed. The page
//! loads them when the row becomes visible, because they are computed from all items of the session.

use std::sync::Arc;

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_engine::{Caller, SessionDays, Tokens};
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_types::{Session, TurnStatus};
use maud::html;

use super::ledger::bad_end;
use crate::Pages;
use crate::format::number;
use crate::layout::fragment;
use crate::statistics::count;
use crate::visit::Visit;
use crate::words::SessionsWords;

/// The route of a session's figures.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}/figures";

/// Returns the figures of a session, for its row.
pub(crate) async fn figures(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    // The session is read for each request, so that only those who may see it get its kept figures.
    let session = pages.sessions.get(caller, id).await?;
    let days = days(&pages, caller, &session).await?;
    let mut tokens = Tokens::default();
    for figures in days.values() {
        tokens.add(&figures.tokens);
    }
    let tokens = tokens.total();
    let uses = days
        .iter()
        .map(|(key, figures)| (key.model.as_deref(), key.day, &figures.tokens));
    let prices = pages.prices();
    let cost = prices.cost(uses).filter(|_| tokens > 0);
    let words = SessionsWords::of(visit.language);
    let bad_end = bad_end(&pages, caller, id).await?;
    Ok(fragment(&html! {
        @match bad_end {
            Some(TurnStatus::Interrupted) => span.pill.bad { (words.interrupted) },
            Some(_) => span.pill.bad { (words.failed) },
            None => {},
        }
        span id={ "tokens-" (id) } hx-swap-oob="true" {
            @if tokens > 0 { (number(tokens)) }
        }
        span id={ "cost-" (id) } hx-swap-oob="true" {
            @if let Some(cost) = cost { (cost.text()) " " (prices.currency()) }
        }
    }))
}

/// The figures of a session by day, agent and model, as they were kept or from all of its items.
async fn days(
    pages: &Pages,
    caller: &Caller,
    session: &Session,
) -> Result<Arc<SessionDays>, Problem> {
    if let Some(days) = pages.counted().get(session) {
        return Ok(days);
    }
    // This may read the session completely, so the number of concurrent requests is limited.
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    Ok(count(pages, caller, session).await?)
}
