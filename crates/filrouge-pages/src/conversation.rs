//! `/ui/sessions/{session_id}`: one conversation, in parts, and live; and what the model was sent.

mod children;
mod context;
mod header;
mod history;
mod item;
mod live;
mod message;
mod part;
mod place;
mod thread;

use std::time::Instant;

use axum::extract::State;
use filrouge_engine::ConversationPart;
use filrouge_engine::caller::may;
use filrouge_http::export::{ExportFormat, export as export_session};
use filrouge_http::extract::{NoParameters, SessionAccess};
use filrouge_http::limits::LargeResponsePermit;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_http::{Load, log_load};
use filrouge_store::WorkSize;
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use self::children::Child;
use self::part::PartPage;
use self::place::{BOUNDS, PlaceQuery};
use crate::Pages;
use crate::layout::{fragment, page};
use crate::links::session_path;
use crate::visit::Visit;
use crate::words::ConversationWords;

pub(crate) use context::show as context;
pub(crate) use history::{item as history_item, part as history_part, show as history};
pub(crate) use item::show as item;
pub(crate) use live::live;

/// The route of a conversation.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}";
/// The route of a part of a conversation.
pub(crate) const PART_PATH: &str = "/ui/sessions/{session_id}/part";
/// The route of the navigation through a conversation.
pub(crate) const THREAD_PATH: &str = "/ui/sessions/{session_id}/thread";
/// The route of one complete item.
pub(crate) const ITEM_PATH: &str = "/ui/sessions/{session_id}/items/{seq}";
/// The route of the stream of new items.
pub(crate) const LIVE_PATH: &str = "/ui/sessions/{session_id}/live";
/// The route of the restored context.
pub(crate) const CONTEXT_PATH: &str = "/ui/sessions/{session_id}/context";
/// The route of the session as a file.
pub(crate) const EXPORT_PATH: &str = "/ui/sessions/{session_id}/export";
/// The route of a conversation in the history of another program.
pub(crate) const HISTORY_PATH: &str = "/ui/histories/{source}/{session_id}";
/// The route of a part of such a conversation.
pub(crate) const HISTORY_PART_PATH: &str = "/ui/histories/{source}/{session_id}/part";

/// The route of one complete item of such a conversation.
pub(crate) const HISTORY_ITEM_PATH: &str = "/ui/histories/{source}/{session_id}/items/{seq}";

/// The maximum number of turns with which the navigation is read together with the first part.
const TURNS_AT_ONCE: u64 = 500;

/// A part of a conversation, of the ledger or of another program, as its page shows it.
struct Shown {
    page: PartPage,
    part: ConversationPart,
    /// The sessions that were started within the part.
    children: Vec<Child>,
}

impl Shown {
    /// The page: the head, the navigation, and the part. If there is an address of new items, it follows them.
    fn page(
        self,
        visit: &Visit,
        head: &Markup,
        thread: &Markup,
        new_items: Option<&str>,
    ) -> RouteResult {
        let words = ConversationWords::of(visit.language);
        let shown = self.page.render(&self.part, self.children)?;
        let title = self.part.session.title.as_deref();
        let content = html! {
            (head)
            div.conversation {
                (thread)
                div #conversation data-live=[new_items] { (shown) }
            }
            @if new_items.is_some() { (live::state(words)) }
        };
        Ok(page(visit, title.unwrap_or(words.untitled), &content))
    }

    /// The part alone, which scripts insert beside another one.
    fn fragment(self, query: &PlaceQuery) -> RouteResult {
        let shown = self.page.render_beside(query, self.part, self.children);
        Ok(fragment(&shown?))
    }
}

/// Shows a conversation: its facts, its navigation, and one part.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, PlaceQuery>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    let (shown, _permit) = read(&pages, &visit, &access).await?;
    let session = &shown.part.session;
    let words = ConversationWords::of(visit.language);
    let lease = pages.calls.lease(caller, id).await?;
    let thread = if session.turn_count <= TURNS_AT_ONCE {
        let outline = pages.turns.outline(caller, id).await?;
        thread::with_marks(words, session, &outline, &lease)
    } else {
        thread::without_marks(words, session)
    };
    let head = html! {
        (header::of_session(visit.language, session, &lease))
        div.tools {
            (crate::integrity::badge(visit.language, session))
            (crate::actions::links(visit.language, caller, session))
        }
    };
    let new_items = format!("{}/live", session_path(id));
    shown.page(&visit, &head, &thread, Some(&new_items))
}

/// Returns another part of a conversation.
pub(crate) async fn part(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, PlaceQuery>,
) -> RouteResult {
    let (shown, _permit) = read(&pages, &visit, &access).await?;
    shown.fragment(&access.query)
}

/// Returns the navigation through a conversation, with the marks of its turns.
pub(crate) async fn thread(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, NoParameters>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    let session = pages.sessions.get(caller, id).await?;
    let lease = pages.calls.lease(caller, id).await?;
    // This reads the rows of all turns, so the number of concurrent requests is limited.
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    let outline = pages.turns.outline(caller, id).await?;
    let words = ConversationWords::of(visit.language);
    Ok(fragment(&thread::with_marks(
        words, &session, &outline, &lease,
    )))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportQuery {
    /// The format of the document.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

/// Returns a session as a file.
pub(crate) async fn export(
    State(pages): State<Pages>,
    access: SessionAccess<may::Read, ExportQuery>,
) -> RouteResult {
    export_session(&pages, &access.caller, &access.session, access.query.format).await
}

/// Reads a part, and logs it. An item may have very many small contents, all of which are shown, so the number of
/// concurrent requests is limited.
async fn read(
    pages: &Pages,
    visit: &Visit,
    access: &SessionAccess<may::Read, PlaceQuery>,
) -> Result<(Shown, LargeResponsePermit), Problem> {
    let (caller, id) = (&access.caller, &access.session);
    let permit = pages.work_permit(caller, WorkSize::Small).await?;
    let started_at = Instant::now();
    let place = access.query.place()?;
    let part = pages.turns.part(caller, id, place, BOUNDS).await?;
    let load = Load {
        items: Some(part.items.len()),
        ..Load::default()
    };
    log_load(caller, id, "page", load, started_at);
    let words = ConversationWords::of(visit.language);
    let children = children::of_part(pages, caller, &part, words).await?;
    let page = PartPage::of_session(&part.session, visit.language);
    let shown = Shown {
        page,
        part,
        children,
    };
    Ok((shown, permit))
}
