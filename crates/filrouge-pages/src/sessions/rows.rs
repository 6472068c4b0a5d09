//! The rows of the table of sessions.

use filrouge_sources::library::list;
use filrouge_types::{Session, SessionStatus, Timestamp};
use maud::{Markup, html};

use crate::format::{number, program_label, time};
use crate::links::{history_path, session_path};
use crate::words::{Language, SessionsWords, StatusWords};

/// A session as the table shows it.
pub(super) struct Row {
    /// The address of its page.
    path: String,
    title: Option<String>,
    /// The history that it is from; `None` for the ledger.
    source: Option<String>,
    agents: String,
    owner: Option<String>,
    project: Option<String>,
    turns: Option<u64>,
    status: Option<SessionStatus>,
    /// The time by which the list is ordered.
    pub(super) at: Timestamp,
    /// The id; absent outside the ledger. Figures are loaded by it.
    id: Option<String>,
    /// Whether its own record is damaged, in another program's history.
    is_damaged: bool,
}

impl Row {
    /// The row of a session of the ledger.
    pub(super) fn of_session(session: &Session, by_creation: bool) -> Self {
        let id = session.session_id.as_str();
        Self {
            path: session_path(id),
            title: session.title.as_deref().map(str::to_owned),
            source: None,
            agents: session.agents.join(", "),
            owner: session.identity_id.as_ref().map(ToString::to_string),
            project: session.project_id.as_ref().map(ToString::to_string),
            turns: Some(session.turn_count),
            status: Some(session.status),
            at: match by_creation {
                true => session.created_at,
                false => session.updated_at,
            },
            id: Some(id.to_owned()),
            is_damaged: false,
        }
    }

    /// The row of a session of another program's history.
    pub(super) fn of_history(row: list::Row, by_creation: bool) -> Self {
        let agents = match row.agents.is_empty() {
            true => row.agent.unwrap_or_default(),
            false => row.agents.join(", "),
        };
        let at = if by_creation {
            row.created
        } else {
            row.updated
        };
        Self {
            path: history_path(&row.source, &row.id),
            title: row.title,
            source: Some(row.source),
            agents,
            owner: None,
            project: row.project_name.or(row.project_id),
            turns: None,
            status: None,
            at: Timestamp::from_millis(at).unwrap_or_default(),
            id: None,
            is_damaged: row.damaged,
        }
    }

    /// Whether the session is in the ledger.
    pub(super) const fn is_in_ledger(&self) -> bool {
        self.source.is_none()
    }
}

/// The table. Its columns have fixed widths, so that nothing moves when figures are loaded. The style sheet hides the
/// columns of the class `more` on narrower screens, and those of the class `detail` on narrow ones.
pub(super) fn table(
    language: Language,
    rows: &[Row],
    shows_owner: bool,
    by_creation: bool,
) -> Markup {
    let words = SessionsWords::of(language);
    let at = match by_creation {
        true => words.created,
        false => words.last_activity,
    };
    html! {
        table.sessions {
            thead {
                tr {
                    th scope="col" { (words.title) }
                    th.agents.detail scope="col" { (words.agents) }
                    @if shows_owner { th.owner.more scope="col" { (words.owner) } }
                    th.project.more scope="col" { (words.project) }
                    th.number.turns.detail scope="col" { (words.turns) }
                    th.number.tokens.detail scope="col" { (words.tokens) }
                    th.number.cost.more scope="col" { (words.cost) }
                    th.status scope="col" { (words.status) }
                    th.at scope="col" { (at) }
                }
            }
            tbody #rows { @for row in rows { (table_row(language, row, shows_owner)) } }
        }
    }
}

fn table_row(language: Language, row: &Row, shows_owner: bool) -> Markup {
    let words = SessionsWords::of(language);
    let title = row.title.as_deref().unwrap_or(words.untitled);
    html! {
        tr.row {
            td.title {
                a.open href=(row.path) { bdi { (title) } }
                @if let Some(source) = &row.source { " " span.pill { (program_label(source)) } }
            }
            td.detail { bdi { (row.agents) } }
            @if shows_owner { td.more { @if let Some(owner) = &row.owner { bdi { (owner) } } } }
            td.more { @if let Some(project) = &row.project { bdi { (project) } } }
            td.number.detail { @if let Some(turns) = row.turns { (number(turns)) } }
            td.number.detail { @if let Some(id) = &row.id { span id={ "tokens-" (id) } {} } }
            td.number.more { @if let Some(id) = &row.id { span id={ "cost-" (id) } {} } }
            td.status {
                @if let Some(status) = row.status { (StatusWords::name(language, status)) " " }
                @if row.is_damaged { span.pill.bad { (words.damaged) } }
                @if row.id.is_some() {
                    span hx-get={ (row.path) "/figures" } hx-trigger="revealed" hx-swap="outerHTML" {}
                }
            }
            td.at { (time(row.at)) }
        }
    }
}
