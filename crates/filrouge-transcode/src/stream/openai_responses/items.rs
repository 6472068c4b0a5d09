//! Growing output items.

use std::collections::BTreeMap;

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_types::{Channel, Role};
use serde_json::value::RawValue;

use super::message::{Message, Open};
use super::{Event, Waiting, tools};
use crate::stream::json::{self, Raw};

/// The maximum number of output items of a response: a turn holds fewer.
const MAX_ITEMS: usize = 50_000;

json::members! {
    /// The members read from an output item of any type.
    Item {
        kind = "type", id, call_id, name, arguments, input, status, phase, content, summary,
        encrypted_content, action, operation, pending_safety_checks, code, container_id, queries, outputs,
        output, results, result, tools, error, server_label, revised_prompt, output_format, execution,
    }

    Words { text }
}

/// An output item.
struct Slot {
    /// The item's id in its first event.
    id: String,
    state: State,
}

enum State {
    Message(Message),
    Reasoning(Thought),
    /// A call whose arguments arrive as text.
    Call(PieceNo),
    /// A call of the code interpreter, and whether any code has arrived.
    Code(PieceNo, bool),
    /// A call whose arguments arrive only with its end.
    Silent(PieceNo),
    /// An item whose content arrives only with its end.
    Later,
    /// The item is complete: nothing is added to it.
    Done,
}

struct Thought {
    piece: PieceNo,
    /// The part that received the newest text: whether it is the reasoning itself (and not a summary), and its index.
    last: Option<(bool, u64)>,
}

/// The output items of a response.
#[derive(Default)]
pub(super) struct Items {
    /// The items by their output index.
    slots: BTreeMap<u64, Slot>,
    open: Open,
    waiting: Waiting,
}

impl Items {
    /// Whether a call waits for the caller.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The output index of the item that an event belongs to.
    pub(super) fn at(&self, event: &Event<'_>) -> Option<u64> {
        event.output_index.or_else(|| {
            let id = json::inner(event.item_id)?;
            let found = self.slots.iter().rfind(|(_, slot)| slot.id == id);
            found.map(|(at, _)| *at)
        })
    }

    /// The output index of an item that arrives without one: after all others.
    fn next(&self) -> u64 {
        self.slots
            .last_key_value()
            .map_or(0, |(at, _)| at.saturating_add(1))
    }

    /// Whether an item at this output index would exceed the limit.
    fn is_full(&self, at: u64) -> bool {
        self.slots.len() >= MAX_ITEMS && !self.slots.contains_key(&at)
    }

    fn state(&mut self, at: Option<u64>) -> Option<&mut State> {
        self.slots.get_mut(&at?).map(|slot| &mut slot.state)
    }

    /// The message that an event belongs to; created if it is missing, because some servers begin with a delta. An
    /// event without an index and without an item's id belongs to the last item, if that is a message.
    pub(super) fn message(
        &mut self,
        at: Option<u64>,
        event: &Event<'_>,
    ) -> Option<(&mut Message, &mut Open, u64)> {
        let id = json::inner(event.item_id);
        let last = self.slots.last_key_value();
        let last = last.filter(|(_, slot)| matches!(slot.state, State::Message(_)) && id.is_none());
        let at = at.or(last.map(|(at, _)| *at));
        let at = at.unwrap_or_else(|| self.next());
        if self.is_full(at) {
            return None;
        }
        let slot = self.slots.entry(at).or_insert_with(|| Slot {
            id: id.unwrap_or_default().to_owned(),
            state: State::Message(Message::default()),
        });
        match &mut slot.state {
            State::Message(message) => Some((message, &mut self.open, at)),
            _ => None,
        }
    }

    /// Decodes `output_item.added`; `false` if its shape is wrong or the limit is reached.
    pub(super) fn added(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(item) = item(event.item) else {
            return false;
        };
        let at = event.output_index.unwrap_or_else(|| self.next());
        if self.is_full(at) {
            return false;
        }
        if !self.slots.contains_key(&at) {
            self.begin(at, &item, out);
        }
        true
    }

    fn begin(&mut self, at: u64, item: &Item<'_>, out: &mut Transcript) {
        let kind = json::inner(item.kind).unwrap_or_default();
        let state = match kind {
            "message" => State::Message(Message::of(item.phase)),
            "reasoning" => {
                let piece = out.think(0);
                out.set(piece, "provider", "\"openai\"");
                if let Some(id) = json::token(item.id) {
                    out.set(piece, "id", id);
                }
                State::Reasoning(Thought { piece, last: None })
            }
            _ => match tools::begin(kind, at, item, out) {
                Some(tools::StartedCall::Text(piece)) => State::Call(piece),
                Some(tools::StartedCall::Code(piece)) => State::Code(piece, false),
                Some(tools::StartedCall::Silent(piece)) => State::Silent(piece),
                None => State::Later,
            },
        };
        let id = json::inner(item.id).unwrap_or_default().to_owned();
        self.slots.insert(at, Slot { id, state });
    }

    /// Decodes `output_item.done`; `false` if its shape is wrong or the limit is reached.
    pub(super) fn done(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let (Some(raw), Some(item)) = (event.item, item(event.item)) else {
            return false;
        };
        let at = event.output_index.or_else(|| {
            let id = json::inner(item.id)?;
            let found = self.slots.iter().rfind(|(_, slot)| slot.id == id);
            found.map(|(at, _)| *at)
        });
        let at = at.unwrap_or_else(|| self.next());
        if self.is_full(at) {
            return false;
        }
        self.complete(at, &item, raw.get(), out);
        true
    }

    /// Records the items of a complete response that have not arrived yet.
    pub(super) fn all(&mut self, output: &str, out: &mut Transcript) {
        let Some(output) = json::read::<Vec<&RawValue>>(output) else {
            return out.unknown(output);
        };
        for (at, raw) in (0..).zip(output) {
            if matches!(self.state(Some(at)), Some(State::Done)) {
                continue;
            }
            match item(Some(raw)).filter(|_| !self.is_full(at)) {
                Some(item) => self.complete(at, &item, raw.get(), out),
                None => out.unknown(raw.get()),
            }
        }
    }

    /// Completes an item, whose events may have begun it, with its final form.
    fn complete(&mut self, at: u64, item: &Item<'_>, raw: &str, out: &mut Transcript) {
        if !self.slots.contains_key(&at) {
            self.begin(at, item, out);
        }
        let Some(slot) = self.slots.get_mut(&at) else {
            return;
        };
        match std::mem::replace(&mut slot.state, State::Done) {
            State::Message(mut message) => message.complete(at, item, &mut self.open, out),
            State::Reasoning(thought) => thought.complete(item, out),
            State::Call(piece) => {
                tools::texts(piece, item, out);
                tools::answer(piece, at, item, &mut self.waiting, out);
            }
            State::Code(piece, begun) => {
                tools::code_end(piece, begun, item, out);
                tools::answer(piece, at, item, &mut self.waiting, out);
            }
            State::Silent(piece) => {
                tools::arguments(piece, item, out);
                tools::answer(piece, at, item, &mut self.waiting, out);
            }
            State::Later => later(item, raw, &mut self.waiting, out),
            State::Done => {}
        }
    }

    /// Adds a piece of a call's arguments.
    pub(super) fn grow(&mut self, at: Option<u64>, delta: Raw<'_>, out: &mut Transcript) -> bool {
        match (self.state(at), json::inner(delta)) {
            (Some(State::Call(piece)), Some(delta)) => out.push(*piece, delta),
            _ => false,
        }
    }

    /// Records a call's complete arguments.
    pub(super) fn complete_arguments(
        &mut self,
        at: Option<u64>,
        complete: Raw<'_>,
        out: &mut Transcript,
    ) -> bool {
        match (self.state(at), json::inner(complete)) {
            (Some(State::Call(piece)), Some(complete)) => {
                set_complete_text(*piece, 0, complete, out);
            }
            (Some(State::Done), Some(_)) => {}
            _ => return false,
        }
        true
    }

    /// Adds a piece of code, as part of a string inside the arguments' text.
    pub(super) fn code(&mut self, at: Option<u64>, delta: Raw<'_>, out: &mut Transcript) -> bool {
        match (self.state(at), json::inner(delta)) {
            (Some(State::Code(piece, begun)), Some(delta)) => {
                if !std::mem::replace(begun, true) {
                    out.push(*piece, tools::CODE_BEGINS);
                }
                out.push(*piece, &json::escaped(delta))
            }
            _ => false,
        }
    }

    /// Adds a piece of the reasoning itself (`own` is `true`) or of a summary of it. `part` is the index of the part
    /// that has the piece.
    pub(super) fn think(
        &mut self,
        at: Option<u64>,
        own: bool,
        part: Option<u64>,
        delta: Raw<'_>,
        out: &mut Transcript,
    ) -> bool {
        match (self.state(at), json::inner(delta)) {
            (Some(State::Reasoning(thought)), Some(delta)) => {
                thought.grow((own, part.unwrap_or_default()), delta, out);
                true
            }
            _ => false,
        }
    }
}

impl Thought {
    fn grow(&mut self, part: (bool, u64), delta: &str, out: &mut Transcript) {
        if self.last.replace(part).is_some_and(|last| last != part) {
            out.push(self.piece, r"\n\n");
        }
        out.push(self.piece, delta);
    }

    fn complete(mut self, item: &Item<'_>, out: &mut Transcript) {
        if out.text(self.piece).is_some_and(str::is_empty) {
            let lists = [(false, item.summary), (true, item.content)];
            for (own, list) in lists {
                self.fill(own, list, out);
            }
        }
        if let Some(summary) = json::value(item.summary) {
            out.set(self.piece, "summary", &json::kept(summary));
        }
        if let Some(encrypted) = json::token(item.encrypted_content) {
            out.set(self.piece, "encrypted_content", encrypted);
        }
        out.finish(self.piece);
    }

    fn fill(&mut self, own: bool, list: Raw<'_>, out: &mut Transcript) {
        let list = list.and_then(|list| json::read::<Vec<Words<'_>>>(list.get()));
        for (part, words) in (0..).zip(list.unwrap_or_default()) {
            if let Some(text) = json::some(words.text) {
                self.grow((own, part), text, out);
            }
        }
    }
}

fn item<'a>(raw: Option<&'a RawValue>) -> Option<Item<'a>> {
    json::read(raw?.get())
}

/// Records an item whose content arrives only with its end: the answer to a call, a question to the user, or an item of
/// any other type.
fn later(item: &Item<'_>, raw: &str, waiting: &mut Waiting, out: &mut Transcript) {
    if tools::output(item, waiting, out) {
        return;
    }
    let channel = if json::inner(item.kind) == Some("mcp_approval_request") {
        if let Some(id) = json::token(item.id) {
            waiting.insert(id.to_owned());
        }
        Channel::HitlRequest
    } else {
        Channel::from_word("provider_item")
    };
    match json::part(raw) {
        Some(part) => {
            out.whole(Role::Assistant, channel, format!("[{part}]"));
        }
        None => out.unknown(raw),
    }
}

/// Completes a text of which a beginning may have arrived. `from` is the byte at which the text begins in its piece. If
/// the beginning differs from the complete text, the complete text replaces it.
pub(super) fn set_complete_text(piece: PieceNo, from: usize, complete: &str, out: &mut Transcript) {
    let Some(text) = out.text(piece) else { return };
    let Some((before, have)) = text.split_at_checked(from) else {
        return;
    };
    match complete.strip_prefix(have) {
        Some("") => {}
        Some(rest) => {
            out.push(piece, rest);
        }
        None if complete.is_empty() || json::same(have, complete) => {}
        None => {
            let whole = format!("{before}{complete}");
            out.replace(piece, &whole);
        }
    }
}
