//! The frame of the pages that ask before a session is changed.

use axum::body::Body;
use axum::http::Response;
use filrouge_types::{Session, SessionId};
use maud::{Markup, html};

use crate::layout::page;
use crate::links::session_path;
use crate::visit::Visit;
use crate::words::ActionWords;

/// A page about a session: the action's name, the session, and the content.
pub(super) fn show(
    visit: &Visit,
    action: &str,
    session: &Session,
    content: &Markup,
) -> Response<Body> {
    let words = ActionWords::of(visit.language);
    let title = session.title.as_deref().unwrap_or(words.untitled);
    let content = html! {
        h1 { (action) }
        p.about { a href=(session_path(&session.session_id)) { bdi { (title) } } }
        (content)
    };
    page(visit, action, &content)
}

/// The buttons at the end of a form: the action, and the way back. `is_final`: it cannot be undone.
pub(super) fn buttons(
    words: &ActionWords,
    session: &SessionId,
    action: &str,
    is_final: bool,
) -> Markup {
    html! {
        p.steps {
            button.irreversible[is_final] type="submit" { (action) }
            a href=(session_path(session)) { (words.cancel) }
        }
    }
}
