//! `/ui/operations`: live calls, the store, and what a server sends, as they are now.

mod deliveries;
mod figures;
mod now;
mod status;

use axum::extract::State;
use filrouge_engine::Caller;
use filrouge_engine::caller::{Permission, may};
use filrouge_http::extract::TenantAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use maud::{Markup, html};

use crate::Pages;
use crate::layout::{fragment, page};
use crate::visit::Visit;
use crate::words::OperationsWords;

pub use status::{Deliveries, Observer, ProjectionState, Status, WebhookState};

/// The route of the page.
pub(crate) const PATH: &str = "/ui/operations";
/// The routes of its parts, which are loaded again every few seconds.
pub(crate) const NOW_PATH: &str = "/ui/operations/now";
pub(crate) const DELIVERIES_PATH: &str = "/ui/operations/deliveries";
pub(crate) const WEEKS_PATH: &str = "/ui/operations/figures";

/// Shows the page.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Observe>,
) -> RouteResult {
    let words = OperationsWords::of(visit.language);
    let now = render_now(&pages, &access.caller, words).await?;
    let deliveries = render_deliveries(&pages, &access.caller, words).await?;
    let figures = match access.caller.has_permission(Permission::Administer) {
        true => Some(render_figures(&pages, &access.caller, words).await?),
        false => None,
    };
    let content = html! {
        h1 { (words.operations) }
        p #operations-lost role="status" hidden { (words.connection_lost) }
        (refreshed(NOW_PATH, "every 5s", &now))
        (refreshed(DELIVERIES_PATH, "every 30s", &deliveries))
        @if let Some(figures) = figures { (refreshed(WEEKS_PATH, "every 60s", &figures)) }
    };
    Ok(page(&visit, words.operations, &content))
}

/// Returns the part with live calls and stores.
pub(crate) async fn now(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Observe>,
) -> RouteResult {
    let words = OperationsWords::of(visit.language);
    Ok(fragment(&render_now(&pages, &access.caller, words).await?))
}

/// Returns the part with webhooks and projections.
pub(crate) async fn deliveries(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Observe>,
) -> RouteResult {
    let words = OperationsWords::of(visit.language);
    Ok(fragment(
        &render_deliveries(&pages, &access.caller, words).await?,
    ))
}

/// Returns the part with key figures.
pub(crate) async fn figures(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Administer>,
) -> RouteResult {
    let words = OperationsWords::of(visit.language);
    Ok(fragment(
        &render_figures(&pages, &access.caller, words).await?,
    ))
}

/// A part that the browser loads again.
fn refreshed(path: &str, when: &str, part: &Markup) -> Markup {
    html! {
        div.refreshed hx-get=(path) hx-trigger=(when) hx-swap="innerHTML" { (part) }
    }
}

/// The caller as an observer. On a server without API keys, callers have no name, and are the operator.
fn observer(caller: &Caller) -> Observer<'_> {
    Observer {
        tenant: caller.tenant(),
        sees_all: caller.name().is_none(),
    }
}

async fn render_now(
    pages: &Pages,
    caller: &Caller,
    words: &OperationsWords,
) -> Result<Markup, Problem> {
    // Live calls are found among many sessions, so the number of concurrent requests is limited.
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    let calls = pages.calls.live(caller).await;
    let state = now::State::read(pages, observer(caller)).await;
    Ok(html! {
        (state.show(words))
        (now::calls(words, &calls))
    })
}

async fn render_deliveries(
    pages: &Pages,
    caller: &Caller,
    words: &OperationsWords,
) -> Result<Markup, Problem> {
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    let deliveries = pages.status().deliveries(observer(caller)).await;
    Ok(deliveries::show(words, &deliveries))
}

async fn render_figures(
    pages: &Pages,
    caller: &Caller,
    words: &OperationsWords,
) -> Result<Markup, Problem> {
    // The figures read all events of several weeks, so the number of concurrent requests is limited.
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    let figures = figures::Weeks::read(pages, caller).await;
    Ok(figures::show(words, &figures))
}
