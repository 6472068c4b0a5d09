//! The figures of one session that its row does not have: tokens, cost, and whether the newest turn failed. The page
//! loads them when the row becomes visible, because they are computed from all items of the session.

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_engine::{Caller, Statistics};
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_types::{Session, TurnStatus};
use maud::html;

use super::figures_cache::Figures;
use super::ledger::bad_end;
use crate::Pages;
use crate::format::number;
use crate::layout::fragment;
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
    let figures = match pages.figures().get(&session) {
        Some(figures) => figures,
        None => compute(&pages, caller, &session).await?,
    };
    let words = SessionsWords::of(visit.language);
    let bad_end = bad_end(&pages, caller, id).await?;
    Ok(fragment(&html! {
        @match bad_end {
            Some(TurnStatus::Interrupted) => span.pill.bad { (words.interrupted) },
            Some(_) => span.pill.bad { (words.failed) },
            None => {},
        }
        span id={ "tokens-" (id) } hx-swap-oob="true" {
            @if let Some(tokens) = figures.tokens { (number(tokens)) }
        }
        span id={ "cost-" (id) } hx-swap-oob="true" {
            @if let Some(cost) = figures.cost { "$" (format!("{cost:.2}")) }
        }
    }))
}

async fn compute(pages: &Pages, caller: &Caller, session: &Session) -> Result<Figures, Problem> {
    // This may read the session completely, so the number of concurrent requests is limited.
    let _permit = pages
        .limits()
        .large_response_permit(caller, WorkSize::Small)
        .await?;
    let own = pages.stats.of(caller, &session.session_id).await?.own;
    let total = own.tokens.total();
    let figures = Figures {
        tokens: (total > 0).then_some(total),
        cost: cost(&own),
    };
    pages.figures().keep(session, figures);
    Ok(figures)
}

/// The cost of a session in US dollars; `None` if one of its models has no price. No model has a price yet.
const fn cost(_own: &Statistics) -> Option<f64> {
    None
}
