//! `/ui/statistics` and `/ui/sessions/{session_id}/statistics`: tokens, cost, sessions and failures by day, agent and
//! model.

mod breakdown;
mod counted;
mod gather;
mod view;

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_http::extract::{SessionAccess, TenantAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_types::{Clock, ErrorCode, ProjectId, SystemClock};
use maud::html;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Pages;
use crate::layout::page;
use crate::links::session_path;
use crate::prices::{DAY, day_of};
use crate::visit::Visit;
use crate::words::{FormWords, Language, StatisticsWords, refused};

use breakdown::{Breakdown, Counted};
pub(crate) use counted::CountedSessions;
pub(crate) use gather::count;
use gather::gather;
use view::{Shown, date};

/// The route of the statistics of all sessions that a caller sees.
pub(crate) const PATH: &str = "/ui/statistics";
/// The route of the statistics of one session.
pub(crate) const SESSION_PATH: &str = "/ui/sessions/{session_id}/statistics";

/// The number of days of a period by default, and at most.
const DAYS: i64 = 30;
const DAYS_MAX: i64 = 366;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatisticsQuery {
    /// The first day, such as 2026-11-01; by default 29 days before the last.
    #[serde(default)]
    since: String,
    /// The last day; by default today, in UTC.
    #[serde(default)]
    until: String,
    /// Only figures of this agent, or of those whose names fit a pattern such as `support-*`.
    #[serde(default)]
    agent: String,
    /// Only sessions of this project.
    #[serde(default)]
    project: String,
}

/// Shows the figures of all sessions that the caller sees.
pub(crate) async fn of_tenant(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Read, StatisticsQuery>,
) -> RouteResult {
    let (caller, query) = (access.caller, access.query);
    let (first, last) = period(visit.language, &query)?;
    let agent = Some(query.agent.trim()).filter(|agent| !agent.is_empty());
    let counted = Counted {
        days: Some((first, last)),
        agent: agent.map(Into::into),
    };
    // This may read many sessions completely, so the number of concurrent requests is limited.
    let permit = pages.work_permit(&caller, WorkSize::Small).await?;
    let gathered = gather(&pages, &caller, &counted, project(visit.language, &query)?).await?;
    drop(permit);
    let words = StatisticsWords::of(visit.language);
    let shown = Shown {
        words,
        prices: pages.prices(),
        sums: &gathered.sums,
        days: Some((first, last)),
    };
    let content = html! {
        h1 { (words.statistics) }
        form.filters action=(PATH) {
            label { (words.since) input type="date" name="since" value=(date(first)); }
            label { (words.until) input type="date" name="until" value=(date(last)); }
            label { (words.agent) input name="agent" value=(query.agent); }
            label { (words.project) input name="project" value=(query.project); }
            button type="submit" { (words.show) }
        }
        @if gathered.unread > 0 || gathered.has_more {
            p.note role="status" {
                @if gathered.unread > 0 { (words.unread) " " (gathered.unread) ". " (words.reload) " " }
                @if gathered.has_more { (words.has_more) }
            }
        }
        @if gathered.damaged > 0 { p.note { (words.damaged) " " (gathered.damaged) } }
        (shown.sums())
    };
    Ok(page(&visit, words.statistics, &content))
}

/// Shows the figures of one session.
pub(crate) async fn of_session(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    // This may read many sessions completely, so the number of concurrent requests is limited.
    let permit = pages.work_permit(&access.caller, WorkSize::Small).await?;
    let statistics = pages.stats.of(&access.caller, &access.session).await?;
    let days = pages.stats.by_day(&access.caller, &access.session).await?;
    drop(permit);
    let mut sums = Breakdown::default();
    sums.add(&days, &Counted::default(), pages.prices());
    let words = StatisticsWords::of(visit.language);
    let shown = Shown {
        words,
        prices: pages.prices(),
        sums: &sums,
        days: None,
    };
    let title = session.title.as_deref().unwrap_or(words.untitled);
    let content = html! {
        h1 { (words.statistics) }
        p { a href=(session_path(&session.session_id)) { bdi { (title) } } }
        (view::with_descendants(words, &statistics))
        (shown.sums())
    };
    Ok(page(&visit, words.statistics, &content))
}

/// The first and the last day of the period that a query names.
///
/// # Errors
/// `invalid` for a text that is no day, and for a period that is empty or too long.
fn period(language: Language, query: &StatisticsQuery) -> Result<(i64, i64), Problem> {
    let (labels, words) = (StatisticsWords::of(language), FormWords::of(language));
    let invalid = |detail: String| Problem::new(ErrorCode::Invalid, detail);
    let day = |label: &str, text: &str, default: i64| match text.trim() {
        "" => Ok(default),
        text => day_of(text).ok_or_else(|| refused(label, text, words.day)),
    };
    let today = SystemClock.now().as_micros().div_euclid(DAY);
    let last = day(labels.until, &query.until, today)?;
    let first = day(labels.since, &query.since, last - DAYS + 1)?;
    match last - first + 1 {
        1..=DAYS_MAX => Ok((first, last)),
        days if days < 1 => Err(invalid(words.reversed.to_owned())),
        _ => Err(invalid(format!("{} {DAYS_MAX}", words.too_long))),
    }
}

/// The project that a query names.
///
/// # Errors
/// `invalid` for a text that is no id.
fn project(language: Language, query: &StatisticsQuery) -> Result<Option<ProjectId>, Problem> {
    let label = StatisticsWords::of(language).project;
    let text = Some(query.project.trim()).filter(|text| !text.is_empty());
    let project = text.map(ProjectId::new).transpose();
    project.map_err(|_| refused(label, query.project.trim(), FormWords::of(language).id))
}
