//! Closes a session, and reopens it.

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_engine::{CloseSession, PatchSession};
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use filrouge_types::SessionStatus;
use maud::html;
use serde::Deserialize;

use super::frame::{buttons, change, show};
use crate::Pages;
use crate::form::Form;
use crate::links::{see_other, session_path};
use crate::visit::Visit;
use crate::words::ActionWords;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Close {
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reopen {}

/// Asks whether to close the session, or to reopen a closed one.
pub(crate) async fn ask(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Write>,
) -> RouteResult {
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    let words = ActionWords::of(visit.language);
    let id = &session.session_id;
    let path = session_path(id);
    let is_closed = session.status == SessionStatus::Closed;
    let action = if is_closed { words.reopen } else { words.close };
    let content = html! {
        @if is_closed {
            form.stacked method="post" action={ (path) "/reopen" } {
                p { (words.reopen_hint) }
                (buttons(words, id, action, false))
            }
        } @else {
            form.stacked method="post" action={ (path) "/close" } {
                p { (words.close_hint) }
                label { span { (words.close_reason) } input name="reason" autocomplete="off"; }
                (buttons(words, id, action, false))
            }
        }
    };
    Ok(show(&visit, action, &session, &content))
}

/// Closes the session.
pub(crate) async fn close(
    State(pages): State<Pages>,
    access: SessionAccess<may::Write>,
    Form(sent): Form<Close>,
) -> RouteResult {
    let reason = sent.reason.trim();
    let request = CloseSession {
        reason: (!reason.is_empty()).then(|| reason.into()),
        ..CloseSession::default()
    };
    let path = session_path(&access.session);
    let closed = pages
        .sessions
        .close(&access.caller, access.session, request);
    closed.await?;
    Ok(see_other(&path))
}

/// Makes the session active again.
pub(crate) async fn reopen(
    State(pages): State<Pages>,
    access: SessionAccess<may::Write>,
    Form(Reopen {}): Form<Reopen>,
) -> RouteResult {
    let patch = PatchSession {
        status: Some(SessionStatus::Active),
        ..PatchSession::default()
    };
    change(&pages, access, patch).await
}
