//! The frame of the pages that ask before a session is changed, and the way back afterwards.

use axum::body::Body;
use axum::http::Response;
use filrouge_engine::PatchSession;
use filrouge_engine::caller::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use filrouge_types::{Session, SessionId};
use maud::{Markup, html};

use crate::Pages;
use crate::layout::page;
use crate::links::{see_other, session_path};
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

/// Changes a session, and returns to its page.
pub(super) async fn change(
    pages: &Pages,
    access: SessionAccess<may::Write>,
    patch: PatchSession,
) -> RouteResult {
    let path = session_path(&access.session);
    let sessions = &pages.sessions;
    let changed = sessions.patch(&access.caller, access.session, patch, None);
    changed.await?;
    Ok(see_other(&path))
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
