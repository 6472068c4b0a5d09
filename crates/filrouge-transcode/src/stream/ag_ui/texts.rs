//! Texts, calls and reasoning, distinguished by their ids.
//!
//! Until something else begins, an ended text may continue or receive a seal. Later additions become separate items, so
//! that the result does not depend on whether the ended text is an item by then.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_store::draft::PieceKind;
use filrouge_types::{Channel, Role};

use super::lanes::{Chunk, Lanes};
use super::{Event, content};
use crate::stream::json::{self, Raw};

/// The maximum number of ids that are remembered: a turn holds fewer items.
const IDS_MAX: usize = 50_000;

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
struct Header {
    /// Escaped as in a JSON string.
    role: Option<String>,
    /// Members of the item's metadata, raw JSON.
    metadata: Vec<(&'static str, String)>,
}

enum Entry {
    /// Only its header has arrived.
    Begun(Header),
    /// It grows, or has ended and may continue.
    Open(PieceId),
    /// Complete: nothing is added to it.
    Done,
}

/// The content of a run so far, by ids escaped as in JSON strings.
#[derive(Default)]
pub(super) struct Texts {
    entries: BTreeMap<(Kind, String), Entry>,
    /// The content that received the newest piece of text.
    latest: Option<(Kind, String, PieceId)>,
    /// The newest id of each kind, for events without an id.
    last_ids: BTreeMap<Kind, String>,
    lanes: Lanes,
    /// Ended texts that may continue.
    ended: Vec<(Kind, String)>,
    /// Calls without a result.
    open_calls: BTreeSet<String>,
    /// The ids of messages that arrived complete.
    complete_messages: BTreeSet<String>,
}

fn content_id<'a>(kind: Kind, event: &Event<'a>) -> Raw<'a> {
    match kind {
        Kind::Call => event.tool_call_id,
        Kind::Text | Kind::Reasoning => event.message_id,
    }
}

impl Header {
    fn new(kind: Kind, id: &str, event: &Event<'_>) -> Self {
        let message = (kind != Kind::Call && !id.is_empty()).then(|| format!("\"{id}\""));
        let token = |raw| json::string_token(raw).map(str::to_owned);
        let metadata = [
            ("message_id", message),
            ("subagent_run_id", token(event.subagent)),
            ("name", token(event.name)),
        ];
        Self {
            role: json::string_content(event.role).map(str::to_owned),
            metadata: metadata
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
        }
    }
}

impl Texts {
    /// Whether a call has no result yet.
    pub(super) fn has_open_calls(&self) -> bool {
        !self.open_calls.is_empty()
    }

    /// Whether the run has no content so far: headers without text do not count.
    pub(super) fn is_empty(&self) -> bool {
        let is_begun = |entry: &Entry| matches!(entry, Entry::Begun(_));
        self.complete_messages.is_empty() && self.entries.values().all(is_begun)
    }

    /// Whether a message has arrived, in pieces or complete.
    pub(super) fn has(&self, id: &str) -> bool {
        let has_entry = |kind| self.entries.contains_key(&(kind, id.to_owned()));
        self.complete_messages.contains(id) || has_entry(Kind::Text) || has_entry(Kind::Reasoning)
    }

    /// Begins or continues the content with an id.
    pub(super) fn start(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let event_id = json::string_content(content_id(kind, event));
        // Earlier versions of the protocol called reasoning thinking and gave it no id: each start event begins a new
        // one.
        if event_id.is_none() && kind == Kind::Reasoning {
            self.finish_ended(out);
        } else if event_id.is_none() {
            return false;
        }
        let id = event_id.unwrap_or_default();
        self.last_ids.insert(kind, id.to_owned());
        self.start_content(kind, id, event, out)
    }

    fn start_content(
        &mut self,
        kind: Kind,
        id: &str,
        event: &Event<'_>,
        out: &mut Transcript,
    ) -> bool {
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
        let header = Header::new(kind, id, event);
        if kind != Kind::Call {
            let entry = Entry::Begun(header);
            self.entries.insert((kind, id.to_owned()), entry);
            return true;
        }
        self.finish_ended(out);
        let name = json::string_token(event.tool_call_name).unwrap_or("\"\"");
        let piece = out.call(&format!("\"{id}\""), name, 0);
        self.open_calls.insert(id.to_owned());
        self.set_open(kind, id, piece, &header, out);
        true
    }

    fn is_full(&self) -> bool {
        self.entries.len() + self.complete_messages.len() >= IDS_MAX
    }

    fn set_open(
        &mut self,
        kind: Kind,
        id: &str,
        piece: PieceId,
        header: &Header,
        out: &mut Transcript,
    ) {
        for (name, value) in &header.metadata {
            out.set_item_metadata(piece, name, value);
        }
        let entry = Entry::Open(piece);
        self.entries.insert((kind, id.to_owned()), entry);
    }

    /// Adds a piece of text; begins the text if no start event has.
    pub(super) fn add_text(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let Some(delta) = json::string_content(event.delta) else {
            return false;
        };
        match json::string_content(content_id(kind, event)) {
            Some(id) => self.push_text(kind, id, delta, event, out),
            None => {
                let id = self.last_ids.get(&kind).cloned().unwrap_or_default();
                self.push_text(kind, &id, delta, event, out)
            }
        }
    }

    fn push_text(
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
        let latest = self.latest.as_ref();
        if let Some((_, _, piece)) = latest.filter(|(of, name, _)| *of == kind && name == id) {
            return out.push(*piece, delta);
        }
        let piece = match self.entries.get(&(kind, id.to_owned())) {
            Some(Entry::Open(piece)) => *piece,
            // A complete call accepts no text, and a call cannot begin without a name.
            _ if kind == Kind::Call => return false,
            None if self.is_full() => return false,
            _ => self.begin_text(kind, id, event, out),
        };
        self.latest = Some((kind, id.to_owned(), piece));
        out.push(piece, delta)
    }

    /// Begins a text or reasoning with its first characters.
    fn begin_text(
        &mut self,
        kind: Kind,
        id: &str,
        event: &Event<'_>,
        out: &mut Transcript,
    ) -> PieceId {
        self.finish_ended(out);
        let header = match self.entries.remove(&(kind, id.to_owned())) {
            Some(Entry::Begun(header)) => header,
            _ => Header::new(kind, id, event),
        };
        let piece = match kind {
            Kind::Reasoning => out.begin_reasoning(0),
            Kind::Text | Kind::Call => begin_message(header.role.as_deref(), out),
        };
        self.set_open(kind, id, piece, &header, out);
        piece
    }

    /// Decodes a chunk: it begins a text, call or reasoning, or continues one, and may contain text of it.
    pub(super) fn add_chunk(
        &mut self,
        kind: Kind,
        event: &Event<'_>,
        out: &mut Transcript,
    ) -> bool {
        let lane = json::string_content(event.subagent);
        let event_id = json::string_content(content_id(kind, event));
        let open = event_id.or_else(|| self.lanes.open_id(kind, lane));
        let Some(id) = open.map(str::to_owned) else {
            return false;
        };
        if !self.lanes.has(kind, &id) {
            self.close_lane(event.subagent, out);
            if !self.start_content(kind, &id, event, out) {
                return false;
            }
            self.lanes.open.push(Chunk {
                kind,
                lane: lane.map(str::to_owned),
                id: id.clone(),
            });
        }
        let delta = json::nonempty_string(event.delta).unwrap_or_default();
        self.push_text(kind, &id, delta, event, out)
    }

    /// Ends the content with an id.
    pub(super) fn end(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let last = self.last_ids.get(&kind).map(String::as_str);
        let id = json::string_content(content_id(kind, event)).or(last);
        let id = id.map(str::to_owned);
        id.is_some_and(|id| self.finish(kind, &id, out))
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
        for chunk in self.lanes.close_lane(json::string_content(lane)) {
            self.finish(chunk.kind, &chunk.id, out);
        }
    }

    /// Ends the content that chunks have opened, and completes all ended texts.
    pub(super) fn close(&mut self, out: &mut Transcript) {
        for chunk in std::mem::take(&mut self.lanes.open) {
            self.finish(chunk.kind, &chunk.id, out);
        }
        self.finish_ended(out);
    }

    /// Records the result of a call, which arrives as a separate message.
    pub(super) fn record_result(
        &mut self,
        call_id: &str,
        content: Raw<'_>,
        error: Raw<'_>,
        message: Raw<'_>,
        out: &mut Transcript,
    ) {
        self.finish_ended(out);
        self.open_calls.remove(call_id);
        self.finish(Kind::Call, call_id, out);
        if let Some(message) = json::string_content(message) {
            self.remember_message(message);
        }
        content::record_result(&format!("\"{call_id}\""), content, error, out);
    }

    /// Records the encrypted value that seals a message, reasoning or a call: in its item, or as a separate item if
    /// that one is complete.
    pub(super) fn record_seal(&mut self, event: &Event<'_>, out: &mut Transcript) -> bool {
        let value = json::string_token(event.encrypted_value);
        let (Some(value), Some(id)) = (value, json::string_content(event.entity_id)) else {
            return false;
        };
        let keys = [Kind::Reasoning, Kind::Text, Kind::Call].map(|kind| (kind, id.to_owned()));
        let piece = keys.iter().find_map(|key| match self.entries.get(key)? {
            Entry::Open(piece) => Some(*piece),
            Entry::Begun(_) | Entry::Done => None,
        });
        let kind = json::string_token(event.encrypted_value_type);
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
        out.add_item(Role::Assistant, Channel::Thought, parts);
        true
    }

    /// Records a message that arrives complete.
    pub(super) fn record_complete_message(
        &mut self,
        id: &str,
        role: Option<&str>,
        text: &str,
        out: &mut Transcript,
    ) {
        self.finish_ended(out);
        let piece = begin_message(role, out);
        out.push(piece, text);
        out.set_item_metadata(piece, "message_id", &format!("\"{id}\""));
        out.finish(piece);
        self.remember_message(id);
    }

    /// Remembers the id of a message that arrived complete.
    fn remember_message(&mut self, id: &str) {
        if !self.is_full() {
            self.complete_messages.insert(id.to_owned());
        }
    }

    /// Records a call that arrives complete, unless it is already recorded.
    pub(super) fn record_complete_call(
        &mut self,
        id: &str,
        name: &str,
        args: &str,
        out: &mut Transcript,
    ) {
        if self.is_full() || self.entries.contains_key(&(Kind::Call, id.to_owned())) {
            return;
        }
        self.finish_ended(out);
        let piece = out.call(&format!("\"{id}\""), name, 0);
        out.push(piece, args);
        out.release(piece);
        self.open_calls.insert(id.to_owned());
        let key = (Kind::Call, id.to_owned());
        self.entries.insert(key, Entry::Done);
    }
}

/// Begins a message of a role. Only a message of the assistant can be the answer.
fn begin_message(role: Option<&str>, out: &mut Transcript) -> PieceId {
    match role {
        Some("user") => out.begin_text(Role::User, Channel::Observation),
        Some("system" | "developer") => out.begin_text(Role::System, Channel::SystemNote),
        Some("tool") => out.begin_text(Role::Tool, Channel::Observation),
        Some("reasoning") => out.begin_reasoning(0),
        _ => out.begin_message(PieceKind::Text, 0, false),
    }
}
