//! Texts, calls and reasoning, told apart by their ids.
//!
//! What has ended may go on or be sealed until something else begins. What belongs to it later stands alone: whether it
//! is an item by then must make no difference.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_store::draft::PieceKind;
use filrouge_types::{Channel, Role};

use super::lanes::{Chunk, Lanes};
use super::{Event, content};
use crate::stream::json::{self, Raw};

/// Most ids that are remembered: a turn holds fewer items.
const MOST: usize = 50_000;

/// What grows under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A message.
    Text,
    /// A call of a tool.
    Call,
    /// Reasoning.
    Reasoning,
}

/// What the beginning of a text or of reasoning tells. It begins nothing yet: what stays empty was never seen.
#[derive(Default)]
struct Head {
    /// As spelled inside a JSON string.
    role: Option<String>,
    /// Members of the item's metadata, raw JSON.
    notes: Vec<(&'static str, String)>,
}

enum Entry {
    Begun(Head),
    /// It grows, or may go on.
    Open(PieceNo),
    /// Nothing is added to it any more.
    Done,
}

/// What has come in a run, by the ids as they are spelled inside JSON strings.
#[derive(Default)]
pub(super) struct Texts {
    known: BTreeMap<(Kind, String), Entry>,
    /// What the last text was added to.
    hot: Option<(Kind, String, PieceNo)>,
    /// The last of each kind, which an event without an id belongs to.
    last: BTreeMap<Kind, String>,
    lanes: Lanes,
    /// What has ended and may go on.
    ended: Vec<(Kind, String)>,
    /// Calls without a result.
    waiting: BTreeSet<String>,
    /// Messages that came whole.
    told: BTreeSet<String>,
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
        let told = |raw| json::token(raw).map(str::to_owned);
        let notes = [
            ("message_id", message),
            ("subagent_run_id", told(event.subagent)),
            ("name", told(event.name)),
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

    /// Whether nothing has been said, called or thought.
    pub(super) fn is_empty(&self) -> bool {
        let begun = |entry: &Entry| matches!(entry, Entry::Begun(_));
        self.told.is_empty() && self.known.values().all(begun)
    }

    /// Whether a message has come, in pieces or whole.
    pub(super) fn has(&self, id: &str) -> bool {
        let known = |kind| self.known.contains_key(&(kind, id.to_owned()));
        self.told.contains(id) || known(Kind::Text) || known(Kind::Reasoning)
    }

    fn open(&self, kind: Kind, id: &str) -> Option<PieceNo> {
        match self.known.get(&(kind, id.to_owned()))? {
            Entry::Open(piece) => Some(*piece),
            Entry::Begun(_) | Entry::Done => None,
        }
    }

    /// Begins what grows under an id, or goes on with it.
    pub(super) fn start(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let told = json::inner(id(kind, event));
        // Thoughts had no ids before they were called reasoning: each is another one.
        if told.is_none() && kind == Kind::Reasoning {
            self.settle(out);
        } else if told.is_none() {
            return false;
        }
        let id = told.unwrap_or_default();
        self.last.insert(kind, id.to_owned());
        self.start_id(kind, id, event, out)
    }

    fn start_id(&mut self, kind: Kind, id: &str, event: &Event<'_>, out: &mut Transcript) -> bool {
        match self.known.get(&(kind, id.to_owned())) {
            Some(Entry::Open(_)) => {
                self.ended.retain(|(of, ended)| *of != kind || ended != id);
                return true;
            }
            // Of a call that is told to its end another one under its id is none.
            Some(Entry::Done) if kind == Kind::Call => return false,
            _ => {}
        }
        self.hot = None;
        if self.is_full() {
            return false;
        }
        let head = Head::of(kind, id, event);
        if kind != Kind::Call {
            let entry = Entry::Begun(head);
            self.known.insert((kind, id.to_owned()), entry);
            return true;
        }
        self.settle(out);
        let name = json::token(event.tool_call_name).unwrap_or("\"\"");
        let piece = out.call(&format!("\"{id}\""), name, 0);
        self.waiting.insert(id.to_owned());
        self.place(kind, id, piece, &head, out);
        true
    }

    fn is_full(&self) -> bool {
        self.known.len() + self.told.len() >= MOST
    }

    fn place(&mut self, kind: Kind, id: &str, piece: PieceNo, head: &Head, out: &mut Transcript) {
        for (name, value) in &head.notes {
            out.note(piece, name, value);
        }
        let entry = Entry::Open(piece);
        self.known.insert((kind, id.to_owned()), entry);
    }

    /// A piece of text; what nobody opened is opened by it.
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

    /// What the last text was added to, if it is this.
    fn hot(&self, kind: Kind, id: &str) -> Option<PieceNo> {
        let hot = self.hot.as_ref();
        let (_, _, piece) = hot.filter(|(of, name, _)| *of == kind && name == id)?;
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
        if let Some(piece) = self.hot(kind, id) {
            return out.push(piece, delta);
        }
        let piece = match self.known.get(&(kind, id.to_owned())) {
            Some(Entry::Open(piece)) => *piece,
            // Nothing can be added to a call, nor is there one without a name.
            _ if kind == Kind::Call => return false,
            None if self.is_full() => return false,
            _ => self.begin(kind, id, event, out),
        };
        self.hot = Some((kind, id.to_owned(), piece));
        out.push(piece, delta)
    }

    /// Begins a text or reasoning, now that there is some.
    fn begin(&mut self, kind: Kind, id: &str, event: &Event<'_>, out: &mut Transcript) -> PieceNo {
        self.settle(out);
        let head = match self.known.remove(&(kind, id.to_owned())) {
            Some(Entry::Begun(head)) => head,
            _ => Head::of(kind, id, event),
        };
        let piece = match kind {
            Kind::Reasoning => out.think(0),
            Kind::Text | Kind::Call => say(head.role.as_deref(), out),
        };
        self.place(kind, id, piece, &head, out);
        piece
    }

    /// Takes a chunk, which may begin something, go on with it, or both.
    pub(super) fn chunk(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let lane = json::inner(event.subagent);
        let told = json::inner(id(kind, event));
        let open = told.or_else(|| self.lanes.open(kind, lane));
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

    /// The end of what grows under an id.
    pub(super) fn stop(&mut self, kind: Kind, event: &Event<'_>, out: &mut Transcript) -> bool {
        let last = self.last.get(&kind).map(String::as_str);
        let Some(id) = json::inner(id(kind, event)).or(last).map(str::to_owned) else {
            return false;
        };
        self.finish(kind, &id, out)
    }

    fn finish(&mut self, kind: Kind, id: &str, out: &mut Transcript) -> bool {
        let Some(entry) = self.known.get_mut(&(kind, id.to_owned())) else {
            return false;
        };
        if let Entry::Open(piece) = entry {
            if kind == Kind::Call {
                // The tool's work follows, which may take long.
                out.release(*piece);
                *entry = Entry::Done;
                self.hot = None;
            } else {
                self.ended.push((kind, id.to_owned()));
            }
        }
        true
    }

    /// What has ended does not go on: something else begins, or nothing more comes.
    pub(super) fn settle(&mut self, out: &mut Transcript) {
        for key in self.ended.drain(..) {
            if let Some(entry) = self.known.get_mut(&key)
                && let Entry::Open(piece) = entry
            {
                out.finish(*piece);
                *entry = Entry::Done;
            }
            self.hot = None;
        }
    }

    /// Ends what chunks have opened in a lane.
    pub(super) fn close_lane(&mut self, lane: Raw<'_>, out: &mut Transcript) {
        for chunk in self.lanes.close_lane(json::inner(lane)) {
            self.finish(chunk.kind, &chunk.id, out);
        }
    }

    /// Ends what chunks have opened, and what has ended for good.
    pub(super) fn close(&mut self, out: &mut Transcript) {
        for chunk in self.lanes.close() {
            self.finish(chunk.kind, &chunk.id, out);
        }
        self.settle(out);
    }

    /// The result of a call, which came as a message of its own.
    pub(super) fn result(
        &mut self,
        call_id: &str,
        content: Raw<'_>,
        error: Raw<'_>,
        message: Raw<'_>,
        out: &mut Transcript,
    ) {
        self.settle(out);
        self.waiting.remove(call_id);
        self.finish(Kind::Call, call_id, out);
        if let Some(message) = json::inner(message) {
            self.tell(message);
        }
        content::result(&format!("\"{call_id}\""), content, error, out);
    }

    /// Keeps what seals a message or a call.
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

    /// A message that comes whole.
    pub(super) fn say_whole(
        &mut self,
        id: &str,
        role: Option<&str>,
        text: &str,
        out: &mut Transcript,
    ) {
        self.settle(out);
        let piece = say(role, out);
        out.push(piece, text);
        out.note(piece, "message_id", &format!("\"{id}\""));
        out.finish(piece);
        self.tell(id);
    }

    fn tell(&mut self, id: &str) {
        if !self.is_full() {
            self.told.insert(id.to_owned());
        }
    }

    /// A call that comes whole, unless it has come.
    pub(super) fn call_whole(&mut self, id: &str, name: &str, args: &str, out: &mut Transcript) {
        if self.is_full() || self.known.contains_key(&(Kind::Call, id.to_owned())) {
            return;
        }
        self.settle(out);
        let piece = out.call(&format!("\"{id}\""), name, 0);
        out.push(piece, args);
        out.release(piece);
        self.waiting.insert(id.to_owned());
        let key = (Kind::Call, id.to_owned());
        self.known.insert(key, Entry::Done);
    }
}

/// Begins a message of a role; only the assistant's can be the answer.
fn say(role: Option<&str>, out: &mut Transcript) -> PieceNo {
    match role {
        Some("user") => out.say_as(Role::User, Channel::Observation),
        Some("system" | "developer") => out.say_as(Role::System, Channel::SystemNote),
        Some("tool") => out.say_as(Role::Tool, Channel::Observation),
        Some("reasoning") => out.think(0),
        _ => out.say(PieceKind::Text, 0, false),
    }
}
