//! Texts, calls and reasoning, distinguished by their ids.
//!
//! Until something else begins, an ended text may continue or receive a seal. Later additions become separate items, so
//! that the result does not depend on whether the ended text is an item by then.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_store::draft::PieceKind;
use filrouge_types::{Channel, Role};

use super::lanes::{Chunk, Lanes};
use super::{Event, content};
use crate::stream::json::{self, Raw};

/// The maximum number of ids that are remembered: a turn holds fewer items.
const MAX_IDS: usize = 50_000;

/// The kind of content that grows under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A message.
    Text,
    /// A call of a tool.
    Call,
    /// Reasoning.
    Reasoning,
}

/// The header of a text or of reasoning. It begins no item yet, because an empty text was never visible.
#[derive(Default)]
struct Head {
    /// Escaped as in a JSON string.
    role: Option<String>,
    /// Members of the item's metadata, raw JSON.
    notes: Vec<(&'static str, String)>,
}

enum Entry {
    /// Only its header has arrived.
    Begun(Head),
    /// It grows, or has ended and may continue.
    Open(PieceNo),
    /// Complete: nothing is added to it.
    Done,
}

/// The content of a run so far, by ids escaped as in JSON strings.
#[derive(Default)]
pub(super) struct Texts {
    entries: BTreeMap<(Kind, String), Entry>,
    /// The content that received the newest piece of text.
    latest: Option<(Kind, String, PieceNo)>,
    /// The newest id of each kind, for events without an id.
    last: BTreeMap<Kind, String>,
    lanes: Lanes,
    /// Ended texts that may continue.
    ended: Vec<(Kind, String)>,
    /// Calls without a result.
    waiting: BTreeSet<String>,
    /// The ids of messages that arrived complete.
    complete_messages: BTreeSet<String>,
}

fn id<'a>(kind: Kind, event: &Event<'a>) -> Raw<'a> {
    match kind {
        Kind::Call => event.tool_call_id,
        Kind::Text | Kind::Reasoning => event.message_id,
    }
}

impl Head {
    fn of(kind: Kind, id: &str, event: &Event<'_>) -> Self {
        let message = (kind != Kind::Call && !id.is_empty()).then(|| format!("\"{id}\""));
        let token = |raw| json::token(raw).map(str::to_owned);
        let notes = [
            ("message_id", message),
            ("subagent_run_id", token(event.subagent)),
            ("name", token(event.name)),
        ];
        Self {
            role: json::inner(event.role).map(str::to_owned),
            notes: notes
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
        }
    }
}

impl Texts {
    /// Whether a call has no result yet.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the run has no content so far: headers without text do not count.
    pub(super) fn is_empty(&self) -> bool {
        let begun = |entry: &Entry| matches!(entry, Entry::Begun(_));
        self.complete_messages.is_empty() && self.entries.values().all(begun)
    }

    /// Whether a message has arrived, in pieces or complete.
    pub(super) fn has(&self, id: &str) -> bool {
        let known = |kind| self.entries.contains_key(&(kind, id.to_owned()));
        self.complete_messages.contains(id) || known(Kind::Text) || known(Kind::Reasoning)
    }

    fn open(&self, kind: Kind, id: &str) -> Option<PieceNo> {
        match self.entries.get(&(kind, id.to_owned()))? {
            Entry::Open(piece) => Some(*piece),
            Entry::Begun(_) | Entry::Done => None,
        }
    }

    /// Begins or continues the content with an id.
    pub(super) fn start(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let event_id = json::inner(id(kind, event));
        // Earlier versions of the protocol called reasoning thinking and gave it no id: each start event begins a new
        // one.
        if event_id.is_none() && kind == Kind::Reasoning {
            self.finish_ended(out);
        } else if event_id.is_none() {
            return false;
        }
        let id = event_id.unwrap_or_default();
        self.last.insert(kind, id.to_owned());
        self.start_id(kind, id, event, out)
    }

    fn start_id(&mut self, kind: Kind, id: &str, event: &Event<'_>, out: &mut Transcript) -> bool {
        match self.entries.get(&(kind, id.to_owned())) {
            Some(Entry::Open(_)) => {
                self.ended.retain(|(of, ended)| *of != kind || ended != id);
                return true;
            }
            // After the end of a call, another one with the same id is ignored.
            Some(Entry::Done) if kind == Kind::Call => return false,
            _ => {}
        }
        self.latest = None;
        if self.is_full() {
            return false;
        }
        let head = Head::of(kind, id, event);
        if kind != Kind::Call {
            let entry = Entry::Begun(head);
            self.entries.insert((kind, id.to_owned()), entry);
            return true;
        }
        self.finish_ended(out);
        let name = json::token(event.tool_call_name).unwrap_or("\"\"");
        let piece = out.call(&format!("\"{id}\""), name, 0);
        self.waiting.insert(id.to_owned());
        self.set_open(kind, id, piece, &head, out);
        true
    }

    fn is_full(&self) -> bool {
        self.entries.len() + self.complete_messages.len() >= MAX_IDS
    }

    fn set_open(
        &mut self,
        kind: Kind,
        id: &str,
        piece: PieceNo,
        head: &Head,
        out: &mut Transcript,
    ) {
        for (name, value) in &head.notes {
            out.note(piece, name, value);
        }
        let entry = Entry::Open(piece);
        self.entries.insert((kind, id.to_owned()), entry);
    }

    /// Adds a piece of text; begins the text if no start event has.
    pub(super) fn grow(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(delta) = json::inner(event.delta) else {
            return false;
        };
        match json::inner(id(kind, event)) {
            Some(id) => self.push(kind, id, delta, event, out),
            None => {
                let id = self.last.get(&kind).cloned().unwrap_or_default();
                self.push(kind, &id, delta, event, out)
            }
        }
    }

    /// The piece that received the newest text, if its content has this id.
    fn latest_piece(&self, kind: Kind, id: &str) -> Option<PieceNo> {
        let latest = self.latest.as_ref();
        let (_, _, piece) = latest.filter(|(of, name, _)| *of == kind && name == id)?;
        Some(*piece)
    }

    fn push(
        &mut self,
        kind: Kind,
        id: &str,
        delta: &str,
        event: &Event<'_>,
        out: &mut Transcript,
    ) -> bool {
        if delta.is_empty() {
            return true;
        }
        if let Some(piece) = self.latest_piece(kind, id) {
            return out.push(piece, delta);
        }
        let piece = match self.entries.get(&(kind, id.to_owned())) {
            Some(Entry::Open(piece)) => *piece,
            // A complete call accepts no text, and a call cannot begin without a name.
            _ if kind == Kind::Call => return false,
            None if self.is_full() => return false,
            _ => self.begin(kind, id, event, out),
        };
        self.latest = Some((kind, id.to_owned(), piece));
        out.push(piece, delta)
    }

    /// Begins a text or reasoning with its first characters.
    fn begin(&mut self, kind: Kind, id: &str, event: &Event<'_>, out: &mut Transcript) -> PieceNo {
        self.finish_ended(out);
        let head = match self.entries.remove(&(kind, id.to_owned())) {
            Some(Entry::Begun(head)) => head,
            _ => Head::of(kind, id, event),
        };
        let piece = match kind {
            Kind::Reasoning => out.think(0),
            Kind::Text | Kind::Call => say(head.role.as_deref(), out),
        };
        self.set_open(kind, id, piece, &head, out);
        piece
    }

    /// Decodes a chunk: it begins a text, call or reasoning, or continues one, and may contain text of it.
    pub(super) fn chunk(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let lane = json::inner(event.subagent);
        let event_id = json::inner(id(kind, event));
        let open = event_id.or_else(|| self.lanes.open(kind, lane));
        let Some(id) = open.map(str::to_owned) else {
            return false;
        };
        if !self.lanes.has(kind, &id) {
            self.close_lane(event.subagent, out);
            if !self.start_id(kind, &id, event, out) {
                return false;
            }
            self.lanes.begin(Chunk {
                kind,
                lane: lane.map(str::to_owned),
                id: id.clone(),
            });
        }
        let delta = json::some(event.delta).unwrap_or_default();
        self.push(kind, &id, delta, event, out)
    }

    /// Ends the content with an id.
    pub(super) fn stop(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let last = self.last.get(&kind).map(String::as_str);
        let Some(id) = json::inner(id(kind, event)).or(last).map(str::to_owned) else {
            return false;
        };
        self.finish(kind, &id, out)
    }

    /// Ends the content with an id: a call becomes an item, other content may still continue.
    fn finish(&mut self, kind: Kind, id: &str, out: &mut Transcript) -> bool {
        let Some(entry) = self.entries.get_mut(&(kind, id.to_owned())) else {
            return false;
        };
        if let Entry::Open(piece) = entry {
            if kind == Kind::Call {
                // The tool runs now, which may take long, so the call becomes an item at once.
                out.release(*piece);
                *entry = Entry::Done;
                self.latest = None;
            } else {
                self.ended.push((kind, id.to_owned()));
            }
        }
        true
    }

    /// Completes the texts that have ended, because something else begins or the input ends.
    pub(super) fn finish_ended(&mut self, out: &mut Transcript) {
        for key in self.ended.drain(..) {
            if let Some(entry) = self.entries.get_mut(&key)
                && let Entry::Open(piece) = entry
            {
                out.finish(*piece);
                *entry = Entry::Done;
            }
            self.latest = None;
        }
    }

    /// Ends the content that chunks have opened in a lane.
    pub(super) fn close_lane(&mut self, lane: Raw<'_>, out: &mut Transcript) {
        for chunk in self.lanes.close_lane(json::inner(lane)) {
            self.finish(chunk.kind, &chunk.id, out);
        }
    }

    /// Ends the content that chunks have opened, and completes all ended texts.
    pub(super) fn close(&mut self, out: &mut Transcript) {
        for chunk in self.lanes.close() {
            self.finish(chunk.kind, &chunk.id, out);
        }
        self.finish_ended(out);
    }

    /// Records the result of a call, which arrives as a separate message.
    pub(super) fn result(
        &mut self,
        call_id: &str,
        content: Raw<'_>,
        error: Raw<'_>,
        message: Raw<'_>,
        out: &mut Transcript,
    ) {
        self.finish_ended(out);
        self.waiting.remove(call_id);
        self.finish(Kind::Call, call_id, out);
        if let Some(message) = json::inner(message) {
            self.remember(message);
        }
        content::result(&format!("\"{call_id}\""), content, error, out);
    }

    /// Records the encrypted value that seals a message, reasoning or a call: in its item, or as a separate item if
    /// that one is complete.
    pub(super) fn seal(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let value = json::token(event.encrypted_value);
        let (Some(value), Some(id)) = (value, json::inner(event.entity_id)) else {
            return false;
        };
        let kinds = [Kind::Reasoning, Kind::Text, Kind::Call];
        let piece = kinds.into_iter().find_map(|kind| self.open(kind, id));
        let kind = json::token(event.encrypted_value_type);
        if let Some(piece) = piece {
            out.set(piece, "encrypted_value", value);
            if let Some(kind) = kind {
                out.set(piece, "encrypted_value_type", kind);
            }
            return true;
        }
        let kind = kind.map(|kind| format!(",\"encrypted_value_type\":{kind}"));
        let kind = kind.unwrap_or_default();
        let parts = format!(
            r#"[{{"type":"reasoning","entity_id":"{id}","encrypted_value":{value}{kind}}}]"#
        );
        out.whole(Role::Assistant, Channel::Thought, parts);
        true
    }

    /// Records a message that arrives complete.
    pub(super) fn say_whole(
        &mut self,
        id: &str,
        role: Option<&str>,
        text: &str,
        out: &mut Transcript,
    ) {
        self.finish_ended(out);
        let piece = say(role, out);
        out.push(piece, text);
        out.note(piece, "message_id", &format!("\"{id}\""));
        out.finish(piece);
        self.remember(id);
    }

    /// Remembers the id of a message that arrived complete.
    fn remember(&mut self, id: &str) {
        if !self.is_full() {
            self.complete_messages.insert(id.to_owned());
        }
    }

    /// Records a call that arrives complete, unless it is already recorded.
    pub(super) fn call_whole(&mut self, id: &str, name: &str, args: &str, out: &mut Transcript) {
        if self.is_full() || self.entries.contains_key(&(Kind::Call, id.to_owned())) {
            return;
        }
        self.finish_ended(out);
        let piece = out.call(&format!("\"{id}\""), name, 0);
        out.push(piece, args);
        out.release(piece);
        self.waiting.insert(id.to_owned());
        let key = (Kind::Call, id.to_owned());
        self.entries.insert(key, Entry::Done);
    }
}

/// Begins a message of a role. Only a message of the assistant can be the answer.
fn say(role: Option<&str>, out: &mut Transcript) -> PieceNo {
    match role {
        Some("user") => out.say_as(Role::User, Channel::Observation),
        Some("system" | "developer") => out.say_as(Role::System, Channel::SystemNote),
        Some("tool") => out.say_as(Role::Tool, Channel::Observation),
        Some("reasoning") => out.think(0),
        _ => out.say(PieceKind::Text, 0, false),
    }
}
