//! Records which draft text was sent to a reader, and computes the next events.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::draft::{Delta, PieceHead, PieceKind, StreamId, chars};
use filrouge_store::read::DraftUpdate;
use filrouge_types::{Channel, Item, ItemId, JsonText, Members, RawJson, Role, TurnId};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The maximum total size, in bytes, of a piece's call id, tool and model that are kept in memory for each reader.
/// Longer ones are sent only with the piece's first text.
const NAMES_BYTES_MAX: usize = 1 << 10;

/// New text of one part of a future item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct DraftEvent {
    /// The turn.
    pub turn_id: TurnId,
    /// The key of the future item.
    pub item_id: ItemId,
    /// The part's number, from 0 in the order in which parts begin; parts that stay empty are not in the item.
    pub part: u64,
    /// The type: `text`, `refusal`, `reasoning`, `tool_call` (its arguments), `whole` (JSON that arrived complete).
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The role of its creator.
    pub role: Role,
    /// The kind of entry as far as it is known yet: a text may turn out not to be the answer.
    pub channel: Channel,
    /// The call's id, for a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonText, required = false)]
    pub call_id: Option<JsonText>,
    /// The tool's name, for a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonText, required = false)]
    pub name: Option<JsonText>,
    /// The agent that speaks.
    pub agent: Option<Box<str>>,
    /// The model that writes it.
    pub model: Option<Box<str>>,
    /// The number of Unicode code points before `text`; 0 starts the part, also when it restarts.
    pub offset: u64,
    /// The new text, a JSON string.
    #[schema(value_type = JsonText)]
    pub text: RawJson,
    /// Whether the part is complete.
    pub done: bool,
}

/// Records which draft text was sent to one reader.
#[derive(Debug, Default)]
pub(super) struct SentDrafts {
    /// The number of the newest chunk that was received of each recording.
    received: BTreeMap<StreamId, u64>,
    /// The sent text of each part, by recording, number of the item, and number of the part.
    sent: BTreeMap<(StreamId, u64, u64), SentPart>,
}

/// The text that was sent of one part.
#[derive(Debug, Clone)]
struct SentPart {
    turn_id: TurnId,
    head: PieceHead,
    /// Whether an event of the part was sent.
    has_begun: bool,
    /// Whether an event has reported that the part is complete.
    is_done: bool,
    /// The length of the sent text as stored, with JSON escapes.
    bytes: usize,
    chars: u64,
    /// The digest of all sent text, which shows whether a stored text continues it.
    digest: Sha256,
}

impl SentPart {
    fn new(turn_id: TurnId, head: PieceHead) -> Self {
        Self {
            turn_id,
            head,
            has_begun: false,
            is_done: false,
            bytes: 0,
            chars: 0,
            digest: Sha256::new(),
        }
    }

    /// The part of `text` that was not sent yet; `None` when `text` does not begin with the sent text.
    fn unsent<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (sent, rest) = text.split_at_checked(self.bytes)?;
        (Sha256::digest(sent) == self.digest.clone().finalize()).then_some(rest)
    }

    /// The part of `text` that was not sent yet. Restarts the part when `text` does not begin with the sent text.
    fn unsent_or_restart<'t>(&mut self, text: &'t str) -> &'t str {
        self.unsent(text).unwrap_or_else(|| {
            self.restart();
            text
        })
    }

    /// Restarts the part from its beginning.
    fn restart(&mut self) {
        *self = Self::new(self.turn_id, self.head.clone());
    }

    /// The event that sends `text`, which continues the sent text; `None` when nothing is new.
    fn send(&mut self, key: (StreamId, u64, u64), text: &str, done: bool) -> Option<DraftEvent> {
        let (kind, ends_now) = (self.head.kind, done && !self.is_done);
        let has_new_text = !text.is_empty() || (kind == PieceKind::ToolCall && !self.has_begun);
        if !(has_new_text || self.has_begun && ends_now) {
            return None;
        }
        let (stream, number, part) = key;
        let head = &self.head;
        let (call_id, name) = head.call.clone().unzip();
        let token = match kind {
            PieceKind::Complete => JsonText::from_plain(text).as_token().to_owned(),
            _ => format!("\"{text}\""),
        };
        let event = DraftEvent {
            turn_id: self.turn_id,
            item_id: stream.item_id(number)?,
            part,
            kind: kind.as_str(),
            role: head.role,
            channel: head.channel.clone(),
            call_id,
            name,
            agent: head.agent.clone(),
            model: head.model.clone(),
            offset: self.chars,
            text: RawJson::from_checked(token),
            done,
        };
        self.has_begun = true;
        self.is_done = done;
        self.bytes += text.len();
        self.chars += match kind {
            PieceKind::Complete => text.chars().count() as u64,
            _ => chars(text),
        };
        self.digest.update(text);
        // Long names are sent only once: they are not kept in memory for each reader.
        let names_bytes = |c: &(JsonText, JsonText)| c.0.as_token().len() + c.1.as_token().len();
        let model = self.head.model.as_ref().map_or(0, |m| m.len());
        if self.head.call.as_ref().map_or(0, names_bytes) + model > NAMES_BYTES_MAX {
            self.head.call = None;
            self.head.model = None;
        }
        Some(event)
    }
}

impl SentDrafts {
    /// The newest chunk received of each recording.
    pub(super) fn received_chunks(&self) -> BTreeMap<StreamId, u64> {
        self.received.clone()
    }

    /// The events for new draft text. `updates` has all recordings of the session that are in progress: any other
    /// recording has ended.
    pub(super) fn update(&mut self, updates: Vec<DraftUpdate>) -> Vec<DraftEvent> {
        let in_progress: BTreeSet<StreamId> = updates.iter().map(|update| update.stream).collect();
        self.received
            .retain(|stream, _| in_progress.contains(stream));
        self.sent
            .retain(|(stream, _, _), _| in_progress.contains(stream));
        let mut events = Vec::new();
        for update in updates {
            self.received.insert(update.stream, update.chunk);
            for delta in merge_deltas(update.deltas) {
                let key = (update.stream, delta.number, delta.part);
                if let Some(head) = delta.head {
                    let sent = self.sent.entry(key);
                    let sent = sent.or_insert_with(|| SentPart::new(update.turn_id, head.clone()));
                    sent.head = head;
                }
                let Some(sent) = self.sent.get_mut(&key) else {
                    continue;
                };
                if delta.replaces {
                    sent.restart();
                }
                let text = match update.complete {
                    true => sent.unsent_or_restart(&delta.text),
                    false => delta.text.as_str(),
                };
                events.extend(sent.send(key, text, delta.done));
            }
        }
        events
    }

    /// The events that complete the draft of an item that was committed: the text of its parts that was not sent yet.
    pub(super) fn remaining_events(&mut self, item: &Item) -> Vec<DraftEvent> {
        let Some((stream, number)) = item.body.item_id.as_ref().and_then(parse_item_key) else {
            return Vec::new();
        };
        let range = (stream, number, 0)..=(stream, number, u64::MAX);
        let keys: Vec<_> = self.sent.range(range).map(|(key, _)| *key).collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let parts: Vec<Members<'_>> =
            serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
        let mut texts: Vec<(PieceKind, &str)> = parts.iter().filter_map(text_of_part).collect();
        let is_complete = item.body.channel != Channel::Partial;
        let mut events = Vec::new();
        for key in keys {
            let Some(mut sent) = self.sent.remove(&key).filter(|t| t.bytes > 0) else {
                continue;
            };
            let kind = sent.head.kind;
            // The part may have a lower number in the item than in the draft, because empty parts are left out.
            let continues =
                |(k, text): &(PieceKind, &str)| *k == kind && sent.unsent(text).is_some();
            let index = texts.iter().position(continues);
            let index = index.or_else(|| texts.iter().position(|(k, _)| *k == kind));
            let Some((_, text)) = index.map(|index| texts.remove(index)) else {
                continue;
            };
            let unsent = sent.unsent_or_restart(text);
            if !unsent.is_empty() {
                events.extend(sent.send(key, unsent, is_complete));
            }
        }
        events
    }
}

/// Merges the deltas of each part into one.
fn merge_deltas(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut merged_deltas: Vec<Delta> = Vec::new();
    let mut indexes: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for delta in deltas {
        let key = (delta.number, delta.part);
        match indexes
            .get(&key)
            .and_then(|index| merged_deltas.get_mut(*index))
        {
            Some(merged) => {
                if delta.replaces {
                    merged.text.clear();
                    merged.replaces = true;
                }
                merged.text.push_str(&delta.text);
                merged.head = delta.head.or(merged.head.take());
                merged.done = delta.done;
            }
            None => {
                indexes.insert(key, merged_deltas.len());
                merged_deltas.push(delta);
            }
        }
    }
    merged_deltas
}

/// The recording, and the number of the item in it, from which an item's key was made; `None` for any other key.
fn parse_item_key(id: &ItemId) -> Option<(StreamId, u64)> {
    let (stream, number) = id.as_str().strip_prefix("st_")?.split_once('.')?;
    let stream = u64::from_str_radix(stream, 16).ok()?;
    let stream = StreamId(stream.to_be_bytes());
    let number = number.parse().ok()?;
    (stream.item_id(number).as_ref() == Some(id)).then_some((stream, number))
}

/// The type and text of a text, reasoning or refusal part, with its JSON escapes as recorded; `None` for other parts.
fn text_of_part<'a>(part: &Members<'a>) -> Option<(PieceKind, &'a str)> {
    let (kind, name) = match part.get("type")? {
        r#""text""# => (PieceKind::Text, "text"),
        r#""reasoning""# => (PieceKind::Reasoning, "text"),
        r#""refusal""# => (PieceKind::Refusal, "refusal"),
        _ => return None,
    };
    let token = part.get(name)?;
    Some((kind, token.strip_prefix('"')?.strip_suffix('"')?))
}

#[cfg(test)]
mod tests;
