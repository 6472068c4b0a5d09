//! `/ui/sessions/{session_id}`: one conversation, in parts, and live.

use axum::extract::State;
use filrouge_document::Redactions;
use filrouge_engine::Caller;
use filrouge_engine::caller::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_types::{ErrorCode, Item, SessionId};
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Pages;
use crate::layout::{fragment, page};
use crate::visit::Visit;
use crate::words::ConversationWords;

/// The route of a conversation.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}";
/// The route of a part of a conversation.
pub(crate) const PART_PATH: &str = "/ui/sessions/{session_id}/part";
/// The route of the stream of new items.
pub(crate) const LIVE_PATH: &str = "/ui/sessions/{session_id}/live";

/// The maximum number of items in one part.
const PART_ITEMS: usize = 100;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartQuery {
    /// Only items after this seq.
    #[serde(default)]
    after: u64,
}

/// Shows a conversation from its beginning.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, PartQuery>,
) -> RouteResult {
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    let part = render_part(&pages, &access.caller, &access.session, access.query.after).await?;
    let words = ConversationWords::of(visit.language);
    let title = session.title.as_deref().unwrap_or(words.untitled);
    let content = html! {
        h1 { bdi { (title) } }
        div #conversation { (part) }
    };
    Ok(page(&visit, title, &content))
}

/// Returns the next part of a conversation.
pub(crate) async fn part(
    State(pages): State<Pages>,
    access: SessionAccess<may::Read, PartQuery>,
) -> RouteResult {
    let part = render_part(&pages, &access.caller, &access.session, access.query.after).await?;
    Ok(fragment(&part))
}

/// Streams new items.
pub(crate) async fn live(_: SessionAccess<may::Read, PartQuery>) -> RouteResult {
    Err(Problem::new(
        ErrorCode::RouteNotFound,
        "there is no such route",
    ))
}

/// Renders at most [`PART_ITEMS`] items after a seq, turn by turn, and a link to the next part.
async fn render_part(
    pages: &Pages,
    caller: &Caller,
    session: &SessionId,
    after: u64,
) -> Result<Markup, Problem> {
    let (items, next) = pages
        .turns
        .items(caller, session, after, PART_ITEMS)
        .await?;
    let redactions = Redactions::from_items(&[]);
    let mut out = String::new();
    for run in items.chunk_by(|a: &Item, b: &Item| a.turn_id == b.turn_id) {
        let written = match run.first().and_then(|item| item.turn_id) {
            Some(id) => {
                let turn = pages.turns.get(caller, session, id).await?;
                filrouge_document::html_turn(&turn, run, &redactions, &mut out)
            }
            None => filrouge_document::html_items(None, run, &redactions, &mut out),
        };
        written.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
    }
    Ok(html! {
        (PreEscaped(out))
        @if next.is_some() {
            @let last = items.last().map_or(after, |item| item.seq);
            div hx-get={ "/ui/sessions/" (session) "/part?after=" (last) } hx-trigger="revealed" hx-swap="outerHTML" {}
        }
    })
}
