//! Growing output items.

use std::collections::BTreeMap;

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_types::{Channel, Role};
use serde_json::value::RawValue;

use super::message::{Message, OpenPart};
use super::{Event, OpenCalls, tools};
use crate::stream::json::{self, Raw};

/// The maximum number of output items of a response: a turn holds fewer.
const ITEMS_MAX: usize = 50_000;

json::members! {
    /// The members read from an output item of any type.
    Item {
        kind = "type", id, call_id, name, arguments, input, status, phase, content, summary,
        encrypted_content, action, operation, pending_safety_checks, code, container_id, queries, outputs,
        output, results, result, tools, error, server_label, revised_prompt, output_format, execution,
    }

    SummaryText { text }
}

/// An output item.
struct Slot {
    /// The item's id in its first event.
    id: String,
    state: State,
}

pub(super) enum State {
    Message(Message),
    Reasoning(Thought),
    /// A call whose arguments arrive as text.
    Call(PieceId),
    /// A call of the code interpreter, and whether any code has arrived.
    Code(PieceId, bool),
    /// A call whose arguments arrive only with its end.
    WithoutDeltas(PieceId),
    /// An item whose content arrives only with its end.
    ContentAtEnd,
    /// The item is complete: nothing is added to it.
    Done,
}

pub(super) struct Thought {
    piece: PieceId,
    /// The part that received the newest text: whether it is the reasoning itself (and not a summary), and its index.
    last_part: Option<(bool, u64)>,
}

/// The output items of a response.
#[derive(Default)]
pub(super) struct Items {
    /// The items by their output index.
    slots: BTreeMap<u64, Slot>,
    open: OpenPart,
    open_calls: OpenCalls,
}

impl Items {
    /// Whether a call waits for the caller.
    pub(super) fn has_open_calls(&self) -> bool {
        !self.open_calls.is_empty()
    }

    /// The output index of the item with this index or, without one, with this id.
    fn output_index(&self, index: Option<u64>, id: Raw<'_>) -> Option<u64> {
        index.or_else(|| {
            let id = json::string_content(id)?;
            let slot = self.slots.iter().rfind(|(_, slot)| slot.id == id);
            slot.map(|(at, _)| *at)
        })
    }

    /// The output index of an item that arrives without one: after all others.
    fn next_index(&self) -> u64 {
        self.slots
            .last_key_value()
            .map_or(0, |(at, _)| at.saturating_add(1))
    }

    /// Whether an item at this output index would exceed the limit.
    fn is_full(&self, at: u64) -> bool {
        self.slots.len() >= ITEMS_MAX && !self.slots.contains_key(&at)
    }

    /// The state of the item that an event belongs to.
    fn state(&mut self, event: &Event<'_>) -> Option<&mut State> {
        let at = self.output_index(event.output_index, event.item_id)?;
        self.slots.get_mut(&at).map(|slot| &mut slot.state)
    }

    /// The message that an event belongs to; created if it is missing, because some servers begin with a delta. An
    /// event without an index and without an item's id belongs to the last item, if that is a message.
    pub(super) fn message(
        &mut self,
        event: &Event<'_>,
    ) -> Option<(&mut Message, &mut OpenPart, u64)> {
        let at = self.output_index(event.output_index, event.item_id);
        let id = json::string_content(event.item_id);
        let last = self.slots.last_key_value();
        let last = last.filter(|(_, slot)| matches!(slot.state, State::Message(_)) && id.is_none());
        let at = at.or(last.map(|(at, _)| *at));
        let at = at.unwrap_or_else(|| self.next_index());
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
    pub(super) fn begin_item(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(item) = read_item(event.item) else {
            return false;
        };
        let at = event.output_index.unwrap_or_else(|| self.next_index());
        if self.is_full(at) {
            return false;
        }
        if !self.slots.contains_key(&at) {
            self.begin(at, &item, out);
        }
        true
    }

    fn begin(&mut self, at: u64, item: &Item<'_>, out: &mut Transcript) {
        let kind = json::string_content(item.kind).unwrap_or_default();
        let state = match kind {
            "message" => State::Message(Message::new(item.phase)),
            "reasoning" => {
                let piece = out.begin_reasoning(0);
                out.set(piece, "provider", "\"openai\"");
                json::set_string(out, piece, "id", item.id);
                State::Reasoning(Thought {
                    piece,
                    last_part: None,
                })
            }
            _ => tools::begin_call(kind, at, item, out),
        };
        let id = json::string_content(item.id).unwrap_or_default().to_owned();
        self.slots.insert(at, Slot { id, state });
    }

    /// Decodes `output_item.done`; `false` if its shape is wrong or the limit is reached.
    pub(super) fn end_item(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let (Some(raw), Some(item)) = (event.item, read_item(event.item)) else {
            return false;
        };
        let at = self.output_index(event.output_index, item.id);
        let at = at.unwrap_or_else(|| self.next_index());
        if self.is_full(at) {
            return false;
        }
        self.complete(at, &item, raw.get(), out);
        true
    }

    /// Records the items of a complete response that have not arrived yet.
    pub(super) fn complete_all(&mut self, output: &str, out: &mut Transcript) {
        let Some(output) = json::read::<Vec<&RawValue>>(output) else {
            return out.unknown(output);
        };
        for (at, raw) in (0..).zip(output) {
            let slot = self.slots.get(&at);
            if slot.is_some_and(|slot| matches!(slot.state, State::Done)) {
                continue;
            }
            match read_item(Some(raw)).filter(|_| !self.is_full(at)) {
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
        let state = std::mem::replace(&mut slot.state, State::Done);
        match state {
            State::Message(mut message) => return message.complete(at, item, &mut self.open, out),
            State::Reasoning(thought) => return thought.complete(item, out),
            State::Call(piece) => tools::complete_call(piece, item, out),
            State::Code(piece, begun) => tools::complete_code(piece, begun, item, out),
            State::WithoutDeltas(piece) => tools::record_arguments(piece, item, out),
            State::ContentAtEnd => {
                return record_complete_item(item, raw, &mut self.open_calls, out);
            }
            State::Done => return,
        }
        if let State::Call(piece) | State::Code(piece, _) | State::WithoutDeltas(piece) = state {
            tools::end_call(piece, at, item, &mut self.open_calls, out);
        }
    }

    /// Adds a piece of a call's arguments.
    pub(super) fn add_arguments(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        match (self.state(event), json::string_content(event.delta)) {
            (Some(State::Call(piece)), Some(delta)) => out.push(*piece, delta),
            _ => false,
        }
    }

    /// Records a call's complete arguments.
    pub(super) fn complete_arguments(
        &mut self,
        event: &Event<'_>,
        complete: Raw<'_>,
        out: &mut Transcript,
    ) -> bool {
        match (self.state(event), json::string_content(complete)) {
            (Some(State::Call(piece)), Some(complete)) => {
                set_complete_text(*piece, 0, complete, out);
            }
            (Some(State::Done), Some(_)) => {}
            _ => return false,
        }
        true
    }

    /// Adds a piece of code, as part of a string inside the arguments' text.
    pub(super) fn add_code(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        match (self.state(event), json::string_content(event.delta)) {
            (Some(State::Code(piece, begun)), Some(delta)) => {
                if !std::mem::replace(begun, true) {
                    out.push(*piece, tools::CODE_BEGINS);
                }
                out.push(*piece, &json::escape_text(delta))
            }
            _ => false,
        }
    }

    /// Adds a piece of the reasoning itself (`is_full_reasoning` is `true`) or of a summary of it. `part` is the index
    /// of the part that has the piece.
    pub(super) fn add_reasoning(
        &mut self,
        event: &Event<'_>,
        is_full_reasoning: bool,
        part: Option<u64>,
        out: &mut Transcript,
    ) -> bool {
        match (self.state(event), json::string_content(event.delta)) {
            (Some(State::Reasoning(thought)), Some(delta)) => {
                thought.add_text((is_full_reasoning, part.unwrap_or_default()), delta, out);
                true
            }
            _ => false,
        }
    }
}

impl Thought {
    fn add_text(&mut self, part: (bool, u64), delta: &str, out: &mut Transcript) {
        let last_part = self.last_part.replace(part);
        if last_part.is_some_and(|last| last != part) {
            out.push(self.piece, r"\n\n");
        }
        out.push(self.piece, delta);
    }

    fn complete(mut self, item: &Item<'_>, out: &mut Transcript) {
        if out.text(self.piece).is_some_and(str::is_empty) {
            let lists = [(false, item.summary), (true, item.content)];
            for (is_full_reasoning, list) in lists {
                let list = list.and_then(|list| json::read::<Vec<SummaryText<'_>>>(list.get()));
                for (part, entry) in (0..).zip(list.unwrap_or_default()) {
                    if let Some(text) = json::nonempty_string(entry.text) {
                        self.add_text((is_full_reasoning, part), text, out);
                    }
                }
            }
        }
        if let Some(summary) = json::non_null(item.summary) {
            out.set(self.piece, "summary", &json::storable(summary));
        }
        json::set_string(out, self.piece, "encrypted_content", item.encrypted_content);
        out.finish(self.piece);
    }
}

fn read_item<'a>(raw: Option<&'a RawValue>) -> Option<Item<'a>> {
    json::read(raw?.get())
}

/// Records an item whose content arrives only with its end: the answer to a call, a question to the user, or an item of
/// any other type.
fn record_complete_item(
    item: &Item<'_>,
    raw: &str,
    open_calls: &mut OpenCalls,
    out: &mut Transcript,
) {
    if tools::record_output(item, open_calls, out) {
        return;
    }
    let channel = if json::string_content(item.kind) == Some("mcp_approval_request") {
        if let Some(id) = json::string_token(item.id) {
            open_calls.insert(id.to_owned());
        }
        Channel::HitlRequest
    } else {
        Channel::from_word("provider_item")
    };
    match json::part(raw) {
        Some(part) => {
            out.add_item(Role::Assistant, channel, format!("[{part}]"));
        }
        None => out.unknown(raw),
    }
}

/// Completes a text of which a beginning may have arrived. `from` is the byte at which the text begins in its piece. If
/// the beginning differs from the complete text, the complete text replaces it.
pub(super) fn set_complete_text(piece: PieceId, from: usize, complete: &str, out: &mut Transcript) {
    let Some(text) = out.text(piece) else { return };
    let Some((before, recorded)) = text.split_at_checked(from) else {
        return;
    };
    match complete.strip_prefix(recorded) {
        Some("") => {}
        Some(missing) => {
            out.push(piece, missing);
        }
        None if complete.is_empty() || json::is_same_text(recorded, complete) => {}
        None => {
            let replacement = format!("{before}{complete}");
            out.replace(piece, &replacement);
        }
    }
}
