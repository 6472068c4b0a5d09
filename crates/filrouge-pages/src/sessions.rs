//! `/`: the sessions that the caller sees, the last active first.

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_http::extract::TenantAccess;
use filrouge_http::response::RouteResult;
use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_types::{Session, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Pages;
use crate::layout::page;
use crate::visit::Visit;
use crate::words::SessionsWords;

/// The number of sessions on a page.
const PAGE_SESSIONS: usize = 50;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// The search.
    q: Option<String>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// Lists sessions.
pub(crate) async fn list(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Read, ListQuery>,
) -> RouteResult {
    let q = access.query.q.unwrap_or_default();
    let filter = SessionFilter {
        title: (!q.trim().is_empty()).then(|| q.trim().into()),
        order: SessionSort::Updated,
        ..SessionFilter::default()
    };
    let cursor = access.query.cursor;
    let list = pages
        .sessions
        .list_with_findings(&access.caller, filter, cursor, PAGE_SESSIONS);
    let ((sessions, next), _findings) = list.await?;
    let words = SessionsWords::of(visit.language);
    let content = html! {
        h1 { (words.sessions) }
        form.search role="search" action="/" {
            input type="search" role="searchbox" name="q" value=(q) aria-label=(words.search)
                placeholder=(words.search_hint);
            button type="submit" { (words.search) }
        }
        @if sessions.is_empty() {
            section.empty { h2 { (words.no_sessions) } p { (words.no_sessions_hint) } }
        } @else {
            (table(words, &sessions))
        }
        @if let Some(next) = next {
            a.more href={ "/?" (query(&[("q", &q), ("cursor", &next)])) } { (words.older) }
        }
    };
    Ok(page(&visit, words.sessions, &content))
}

/// A query string of these parameters; empty ones are left out.
fn query(pairs: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    text.finish()
}

fn table(words: &SessionsWords, sessions: &[Session]) -> Markup {
    html! {
        div.wide {
            table.sessions {
                thead {
                    tr {
                        @for name in [words.title, words.agents, words.owner, words.project, words.turns, words.status, words.last_activity] {
                            th scope="col" { (name) }
                        }
                    }
                }
                tbody { @for session in sessions { (row(words, session)) } }
            }
        }
    }
}

fn row(words: &SessionsWords, session: &Session) -> Markup {
    let title = session.title.as_deref().unwrap_or(words.untitled);
    html! {
        tr {
            td { a href={ "/ui/sessions/" (session.session_id) } { bdi { (title) } } }
            td { bdi { (session.agents.join(", ")) } }
            td { @if let Some(owner) = &session.identity_id { bdi { (owner) } } }
            td { @if let Some(project) = &session.project_id { bdi { (project) } } }
            td.number { (session.turn_count) }
            td { (session.status.as_str()) }
            td { (time(session.updated_at)) }
        }
    }
}

/// A time to the second, in UTC.
pub(crate) fn time(at: Timestamp) -> Markup {
    let exact = at.to_string();
    let short = exact.get(..19).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) { (short) } }
}
