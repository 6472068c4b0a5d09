//! The facts of a conversation, and the links to its other pages.

use filrouge_types::{Lease, Session};
use maud::{Markup, html};

use crate::format::time;
use crate::links::{history_path, session_path};
use crate::words::{ConversationWords, Language, StatusWords};

/// The head of the page of a session.
pub(super) fn of_session(language: Language, session: &Session, lease: &Lease) -> Markup {
    let words = ConversationWords::of(language);
    let path = session_path(&session.session_id);
    html! {
        header.conversation-head {
            h1 { bdi { (session.title.as_deref().unwrap_or(words.untitled)) } }
            dl.facts {
                (fact(words.owner, &html! {
                    @match &session.identity_id { Some(owner) => { bdi { (owner) } } None => { (words.anonymous) } }
                }))
                (common_facts(language, session))
                @if let Some(team) = &session.team_id { (fact(words.team, &html! { bdi { (team) } })) }
                @if let Some(parent) = &session.parent_session_id {
                    (fact(words.parent, &html! { a href=(session_path(parent)) { bdi { (parent) } } }))
                }
                @if let Some(holder) = &lease.holder {
                    (fact(words.lease, &html! {
                        (words.held_by) " " bdi { (holder) }
                        @if let Some(at) = lease.expires_at { " " (words.until) " " (time(at)) }
                    }))
                }
            }
            nav.conversation-links aria-label=(words.pages) {
                a href={ (path) "/context" } { (words.context) }
                a href={ (path) "/lineage" } { (words.lineage) }
                a href={ (path) "/statistics" } { (words.statistics) }
                a href={ (path) "/shares" } { (words.shares) }
                details.export {
                    summary { (words.export) }
                    ul {
                        @for (format, name) in [("html", words.export_html), ("md", words.export_markdown), ("json", words.export_bundle)] {
                            li { a href={ (path) "/export?format=" (format) } download { (name) } }
                        }
                    }
                }
            }
        }
    }
}

/// The head of the page of a conversation in the history of another program.
pub(super) fn of_history(
    language: Language,
    session: &Session,
    program: &str,
    parent: Option<&str>,
) -> Markup {
    let words = ConversationWords::of(language);
    html! {
        header.conversation-head {
            h1 { bdi { (session.title.as_deref().unwrap_or(words.untitled)) } }
            dl.facts {
                (fact(words.program, &html! { bdi { (program) } }))
                (common_facts(language, session))
                @if let Some(parent) = parent {
                    (fact(words.parent, &html! { a href=(history_path(program, parent)) { bdi { (parent) } } }))
                }
            }
        }
    }
}

fn common_facts(language: Language, session: &Session) -> Markup {
    let words = ConversationWords::of(language);
    html! {
        @if !session.agents.is_empty() {
            (fact(words.agents, &html! { bdi { (session.agents.join(", ")) } }))
        }
        @if let Some(project) = &session.project_id { (fact(words.project, &html! { bdi { (project) } })) }
        (fact(words.status, &html! { (StatusWords::name(language, session.status)) }))
        @if let Some(state) = &session.state { (fact(words.state, &html! { bdi { (state) } })) }
        (fact(words.turns, &html! { (session.turn_count) }))
        (fact(words.items, &html! { (session.last_seq) }))
        (fact(words.created, &time(session.created_at)))
        (fact(words.last_activity, &time(session.updated_at)))
        (fact(words.session, &html! { bdi { (session.session_id) } }))
    }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}
