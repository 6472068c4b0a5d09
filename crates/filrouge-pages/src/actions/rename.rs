//! Renames a session.

use axum::extract::State;
use filrouge_engine::PatchSession;
use filrouge_engine::caller::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use maud::html;
use serde::Deserialize;

use super::frame::{buttons, change, show};
use crate::Pages;
use crate::form::Form;
use crate::visit::Visit;
use crate::words::ActionWords;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rename {
    title: String,
}

/// Asks for the new title.
pub(crate) async fn ask(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Write>,
) -> RouteResult {
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    let words = ActionWords::of(visit.language);
    let content = html! {
        form.stacked method="post" {
            label { span { (words.title) }
                input name="title" value=[session.title.as_deref()] autocomplete="off" autofocus;
            }
            p.meta { (words.title_hint) }
            (buttons(words, &session.session_id, words.rename, false))
        }
    };
    Ok(show(&visit, words.rename, &session, &content))
}

/// Changes the title.
pub(crate) async fn rename(
    State(pages): State<Pages>,
    access: SessionAccess<may::Write>,
    Form(sent): Form<Rename>,
) -> RouteResult {
    let title = sent.title.trim();
    let patch = PatchSession {
        title: Some((!title.is_empty()).then(|| title.into())),
        ..PatchSession::default()
    };
    change(&pages, access, patch).await
}
