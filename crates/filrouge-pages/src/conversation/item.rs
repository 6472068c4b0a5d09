//! The page of one complete item, however long it is.

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::Response;
use filrouge_engine::caller::may;
use filrouge_engine::{ConversationPart, PartBounds, PartPlace};
use filrouge_http::extract::{NoParameters, SessionAccess};
use filrouge_http::limits::LargeResponsePermit;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_types::ErrorCode;
use maud::html;
use serde::Deserialize;

use super::part::PartPage;
use crate::Pages;
use crate::layout::page;
use crate::links::session_path;
use crate::visit::Visit;
use crate::words::ConversationWords;

/// A part that has one complete item.
pub(super) const ONE_ITEM: PartBounds = PartBounds {
    items: 1,
    bytes: usize::MAX,
    item_bytes: usize::MAX,
};

/// The number of the item in a path.
#[derive(Deserialize)]
pub(crate) struct ItemSeq {
    seq: String,
}

impl ItemSeq {
    /// The seq; 0, which no item has, for a text that is no seq.
    pub(super) fn get(&self) -> u64 {
        self.seq.parse().unwrap_or(0)
    }
}

/// Shows one item of a session.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, NoParameters>,
    Path(path): Path<ItemSeq>,
) -> RouteResult {
    let (caller, id, seq) = (&access.caller, &access.session, path.get());
    let permit = pages.work_permit(caller, WorkSize::Large).await?;
    let place = PartPlace::After(seq.saturating_sub(1));
    let part = pages.turns.part(caller, id, place, ONE_ITEM).await?;
    let page = shown(&visit, session_path(id), &part, seq)?;
    hold(permit, page).await
}

/// The page of the only item of a part.
pub(super) fn shown(visit: &Visit, path: String, part: &ConversationPart, seq: u64) -> RouteResult {
    if part.items.first().is_none_or(|item| item.seq != seq) {
        let detail = format!("the session has no item {seq}");
        return Err(Problem::new(ErrorCode::RouteNotFound, detail));
    }
    let words = ConversationWords::of(visit.language);
    let title = format!("{} {seq}", words.item);
    let item = PartPage::complete(path.clone(), visit.language).items(part, Vec::new())?;
    let content = html! {
        h1 { (title) }
        p { a href={ (path) "?at=" (seq) "#seq-" (seq) } { (words.back) } }
        (item)
    };
    Ok(page(visit, &title, &content))
}

/// Releases the permit, and keeps the page until the client has read it.
pub(super) async fn hold(permit: LargeResponsePermit, page: Response<Body>) -> RouteResult {
    let (parts, body) = page.into_parts();
    let bytes = to_bytes(body, usize::MAX).await;
    let bytes = bytes.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
    Ok(Response::from_parts(
        parts,
        permit.hold(bytes).await?.into(),
    ))
}
