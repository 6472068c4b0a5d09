//! Erases a session, and shows the receipt.

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use filrouge_types::ErrorCode;
use maud::html;
use serde::Deserialize;

use super::frame::{buttons, show};
use super::receipt::stores;
use crate::Pages;
use crate::form::Form;
use crate::format::time;
use crate::layout::page;
use crate::links::{see_other, session_path};
use crate::visit::Visit;
use crate::words::ActionWords;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirmed {}

/// Asks whether to erase the session.
pub(crate) async fn ask(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Erase>,
) -> RouteResult {
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    let words = ActionWords::of(visit.language);
    let content = html! {
        p { (words.erase_hint) }
        dl.facts {
            div { dt { (words.turns) } dd { (session.turn_count) } }
            div { dt { (words.items) } dd { (session.last_seq) } }
        }
        form.stacked method="post" { (buttons(words, &session.session_id, words.erase_now, true)) }
    };
    Ok(show(&visit, words.erase, &session, &content))
}

/// Erases the session.
pub(crate) async fn erase(
    State(pages): State<Pages>,
    access: SessionAccess<may::Erase>,
    Form(Confirmed {}): Form<Confirmed>,
) -> RouteResult {
    let path = session_path(&access.session);
    pages.erasure.erase(&access.caller, access.session).await?;
    Ok(see_other(&format!("{path}/receipt")))
}

/// Shows the receipt of an erased session, with the state of its stores now.
pub(crate) async fn receipt(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Erase>,
) -> RouteResult {
    match pages.sessions.get(&access.caller, &access.session).await {
        // Only then does an erasure change nothing more than it has: it returns the first receipt.
        Err(failure) if failure.code == ErrorCode::SessionErased => {}
        Err(failure) => return Err(failure.into()),
        Ok(_) => {
            return Ok(see_other(&format!(
                "{}/erase",
                session_path(&access.session)
            )));
        }
    }
    let receipt = pages.erasure.erase(&access.caller, access.session).await?;
    let words = ActionWords::of(visit.language);
    let content = html! {
        h1 { (words.erased_session) }
        dl.facts {
            div { dt { "ID" } dd { bdi { (receipt.session_id) } } }
            div { dt { (words.when) } dd { (time(receipt.erased_at)) } }
            div { dt { (words.turns) } dd { (receipt.turns) } }
            div { dt { (words.items) } dd { (receipt.items) } }
        }
        (stores(words, &receipt.stores))
        p.steps { a href="/" { (words.to_sessions) } }
    };
    Ok(page(&visit, words.erased_session, &content))
}
