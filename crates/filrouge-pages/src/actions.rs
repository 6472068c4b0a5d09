//! What a visitor may change: rename, close, redact and erase a session. Each action asks on a page of its own, and is a
//! form that works without scripts.

mod close;
mod erase;
mod frame;
mod preview;
mod receipt;
mod redact;
mod rename;

use axum::Router;
use axum::routing::{get, post};
use filrouge_engine::Caller;
use filrouge_engine::caller::Permission;
use filrouge_types::{Session, SessionStatus};
use maud::{Markup, html};

use crate::Pages;
use crate::links::session_path;
use crate::words::{ActionWords, Language};

/// The routes of all actions.
pub(crate) fn routes() -> Router<Pages> {
    let path = |name: &str| format!("/ui/sessions/{{session_id}}/{name}");
    Router::new()
        .route(&path("rename"), get(rename::ask).post(rename::rename))
        .route(&path("close"), get(close::ask).post(close::close))
        .route(&path("reopen"), post(close::reopen))
        .route(&path("redact"), get(redact::ask).post(redact::redact))
        .route(&path("redacted"), get(redact::done))
        .route(&path("erase"), get(erase::ask).post(erase::erase))
        .route(&path("receipt"), get(erase::receipt))
}

/// The links to the actions that the caller may take; empty if there are none.
pub(crate) fn links(language: Language, caller: &Caller, session: &Session) -> Markup {
    let words = ActionWords::of(language);
    let close = match session.status {
        SessionStatus::Closed => words.reopen,
        SessionStatus::Active | SessionStatus::Paused => words.close,
    };
    let all = [
        (Permission::Write, "rename", words.rename),
        (Permission::Write, "close", close),
        (Permission::Redact, "redact", words.redact),
        (Permission::Erase, "erase", words.erase),
        (Permission::Audit, "audit", words.audit),
    ];
    let path = session_path(&session.session_id);
    let permitted = all
        .into_iter()
        .filter(|(needed, ..)| caller.has_permission(*needed));
    let permitted: Vec<_> = permitted.collect();
    html! {
        @if !permitted.is_empty() {
            nav.actions aria-label=(words.actions) {
                @for (_, name, text) in permitted { a href={ (path) "/" (name) } { (text) } }
            }
        }
    }
}
