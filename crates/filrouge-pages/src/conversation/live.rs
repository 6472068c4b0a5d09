//! A conversation as it grows: new items as HTML, and drafts as JSON, in server-sent events.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::HeaderMap;
use filrouge_document::Redactions;
use filrouge_engine::caller::may;
use filrouge_engine::following::TailEvent;
use filrouge_engine::{Caller, PartPlace};
use filrouge_http::HttpLayer;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use filrouge_http::tail::{TailFormat, open_tail, write_event};
use filrouge_types::{Channel, ErrorCode, Failure, Item, SessionId, Turn, TurnId, TurnStatus};
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::part::PartPage;
use super::place::BOUNDS;
use crate::Pages;
use crate::links::session_path;
use crate::visit::Visit;
use crate::words::ConversationWords;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct LiveQuery {
    /// Only items after this seq; without it, only new ones.
    after: Option<u64>,
}

/// Streams new items and drafts. The events are `item`, with the section of the item's turn that has only this item,
/// and with the items whose calls it answers, which then contain it, as on a page that is loaded now; `draft`, as on the native route; `reload` when items were redacted; and `erased`.
pub(crate) async fn live(
    State(pages): State<Pages>,
    visit: Visit,
    headers: HeaderMap,
    access: SessionAccess<may::Read, LiveQuery>,
) -> RouteResult {
    let path = session_path(&access.session);
    let format = HtmlEvents {
        pages: pages.clone(),
        caller: access.caller.clone(),
        session: access.session.clone(),
        page: PartPage::at(path, visit.language),
    };
    let start = (access.query.after, true);
    open_tail(HttpLayer::clone(&pages), access, &headers, start, format).await
}

/// The line that says whether the page follows the session. Scripts show it.
pub(super) fn state(words: &ConversationWords) -> Markup {
    html! {
        p.live-state role="status" hidden data-live=(words.live) data-connecting=(words.connecting)
            data-lost=(words.connection_lost) data-ended=(words.live_ended) data-new=(words.new_items) {}
    }
}

struct HtmlEvents {
    pages: Pages,
    caller: Caller,
    session: SessionId,
    page: PartPage,
}

impl TailFormat for HtmlEvents {
    async fn write(&mut self, events: Vec<TailEvent>, out: &mut Vec<u8>) -> Result<(), Failure> {
        // The turns as they are now: read once for all events.
        let mut turns: HashMap<TurnId, Turn> = HashMap::new();
        for event in events {
            match event {
                TailEvent::Item(item) => {
                    if let Some(id) = item.turn_id
                        && !turns.contains_key(&id)
                    {
                        let turn = self
                            .pages
                            .turns
                            .get(&self.caller, &self.session, id)
                            .await?;
                        turns.insert(id, turn);
                    }
                    let answered = self.answered(&item).await?;
                    self.write_item(*item, &turns, answered, out)?;
                }
                TailEvent::Draft(draft) => {
                    let json = serde_json::to_vec(&draft);
                    let json =
                        json.map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
                    write_event(out, "draft", None, &json);
                }
            }
        }
        Ok(())
    }
}

impl HtmlEvents {
    /// The items whose calls an item answers; empty if it answers none that a page shows beside it.
    async fn answered(&self, item: &Item) -> Result<String, Failure> {
        let may_answer = item.body.parts.as_str().contains("tool_result");
        if item.turn_id.is_none() || !may_answer {
            return Ok(String::new());
        }
        let place = PartPlace::Before(item.seq.saturating_add(1));
        let turns = &self.pages.turns;
        let part = turns
            .part(&self.caller, &self.session, place, BOUNDS)
            .await?;
        self.page.answered(&part).map_err(|problem| *problem.0)
    }

    fn write_item(
        &self,
        item: Item,
        turns: &HashMap<TurnId, Turn>,
        answered: String,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let (seq, turn) = (item.seq, item.turn_id);
        if item.body.channel == Channel::Redaction && turn.is_none() {
            write_event(out, "reload", Some(seq), b"redaction");
            return Ok(());
        }
        let key = item.body.item_id.as_ref().map(ToString::to_string);
        let redactions = Redactions::from_items(&[]);
        let (view, mut shown) = (self.page.view(turns), String::new());
        let written = self
            .page
            .run(&[item], turns, (&redactions, &view), &mut shown);
        written.map_err(|problem| *problem.0)?;
        let turn = turn.and_then(|id| turns.get(&id));
        let is_bad = turn.map(|turn| {
            use TurnStatus::{Cancelled, Failed, Interrupted};
            matches!(turn.status, Failed | Interrupted | Cancelled).to_string()
        });
        let fragment = html! {
            div data-seq=(seq) data-item=[key] data-turn=[turn.map(|turn| turn.turn_id.to_string())]
                data-status=[turn.map(|turn| self.page.status_name(turn.status))] data-bad=[is_bad] {
                (PreEscaped(shown))
                @if !answered.is_empty() { div.answered { (PreEscaped(answered)) } }
            }
        };
        write_event(out, "item", Some(seq), fragment.into_string().as_bytes());
        Ok(())
    }
}
