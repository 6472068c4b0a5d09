//! What a reader has been told of drafts, and what it is told next.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::draft::{Delta, PieceHead, PieceKind, StreamId, chars};
use filrouge_store::read::DraftNews;
use filrouge_types::{Channel, Item, ItemId, JsonText, Members, RawJson, Role, TurnId};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Bytes of the names of a piece that a reader holds; longer ones are told with its first text alone.
const NAMES_BYTES: usize = 1 << 10;

/// What has come to one part of what will be an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DraftEvent {
    /// The turn.
    pub turn_id: TurnId,
    /// The key of the item that it will be.
    pub item_id: ItemId,
    /// Which part, numbered from 0 as they begin; those that stay empty are not in the item.
    pub part: u64,
    /// What grows: `text`, `refusal`, `reasoning`, `tool_call` (its arguments), `whole` (JSON that came whole).
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Who speaks.
    pub role: Role,
    /// Where it stands as far as that is known: what is said may turn out not to be the answer.
    pub channel: Channel,
    /// Of a call: its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub call_id: Option<JsonText>,
    /// Of a call: the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub name: Option<JsonText>,
    /// The agent that speaks.
    pub agent: Option<Box<str>>,
    /// The model that writes it.
    pub model: Option<Box<str>>,
    /// Unicode code points before `text`; 0 begins, also again.
    pub offset: u64,
    /// What is new, a JSON string.
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText))]
    pub text: RawJson,
    /// Whether it is complete.
    pub done: bool,
}

/// What one reader has been told.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    /// Of each recording the newest chunk.
    known: BTreeMap<StreamId, u64>,
    /// By recording, number and part.
    told: BTreeMap<(StreamId, u64, u64), Told>,
}

/// What was told of one part.
#[derive(Debug, Clone)]
struct Told {
    turn_id: TurnId,
    head: PieceHead,
    begun: bool,
    done: bool,
    bytes: usize,
    chars: u64,
    /// Of all its text, so that it shows whether what is stored goes on with it.
    digest: Sha256,
}

impl Told {
    fn new(turn_id: TurnId, head: PieceHead) -> Self {
        Self {
            turn_id,
            head,
            begun: false,
            done: false,
            bytes: 0,
            chars: 0,
            digest: Sha256::new(),
        }
    }

    /// What `text` has behind what was told; `None` when it does not go on with that.
    fn behind<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (told, rest) = text.split_at_checked(self.bytes)?;
        (Sha256::digest(told) == self.digest.clone().finalize()).then_some(rest)
    }

    /// All over again.
    fn restart(&mut self) {
        let fresh = Self::new(self.turn_id, self.head.clone());
        *self = fresh;
    }

    /// Tells `text`, which goes on with what was told; `None` when that says nothing.
    fn tell(&mut self, key: (StreamId, u64, u64), text: &str, done: bool) -> Option<DraftEvent> {
        let (kind, ends) = (self.head.kind, done && !self.done);
        let says = !text.is_empty() || (kind == PieceKind::ToolCall && !self.begun);
        if !(says || self.begun && ends) {
            return None;
        }
        let (stream, number, part) = key;
        let head = &self.head;
        let (call_id, name) = head.call.clone().unzip();
        let token = match kind {
            PieceKind::Whole => JsonText::from_plain(text).as_token().to_owned(),
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
        self.begun = true;
        self.done = done;
        self.bytes += text.len();
        self.chars += match kind {
            PieceKind::Whole => text.chars().count() as u64,
            _ => chars(text),
        };
        self.digest.update(text);
        // What is long is told once, and not held for each reader.
        let names = |c: &(JsonText, JsonText)| c.0.as_token().len() + c.1.as_token().len();
        let model = self.head.model.as_ref().map_or(0, |m| m.len());
        if self.head.call.as_ref().map_or(0, names) + model > NAMES_BYTES {
            self.head.call = None;
            self.head.model = None;
        }
        Some(event)
    }
}

impl Drafts {
    /// The newest chunk of each recording that was looked at.
    pub(super) fn known(&self) -> BTreeMap<StreamId, u64> {
        self.known.clone()
    }

    /// What has come to drafts. Those that are not among the news are not there any more.
    pub(super) fn grown(&mut self, news: Vec<DraftNews>) -> Vec<DraftEvent> {
        let live: BTreeSet<StreamId> = news.iter().map(|n| n.stream).collect();
        self.known.retain(|stream, _| live.contains(stream));
        self.told.retain(|(stream, _, _), _| live.contains(stream));
        let mut events = Vec::new();
        for news in news {
            self.known.insert(news.stream, news.chunk);
            for delta in gathered(news.deltas) {
                let key = (news.stream, delta.number, delta.part);
                if let Some(head) = delta.head {
                    let told = self.told.entry(key);
                    let told = told.or_insert_with(|| Told::new(news.turn_id, head.clone()));
                    told.head = head;
                }
                let Some(told) = self.told.get_mut(&key) else {
                    continue;
                };
                if delta.replaces {
                    told.restart();
                }
                let mut text = Some(delta.text.as_str());
                if news.whole {
                    text = told.behind(&delta.text);
                }
                let text = text.unwrap_or_else(|| {
                    told.restart();
                    &delta.text
                });
                events.extend(told.tell(key, text, delta.done));
            }
        }
        events
    }

    /// What an item's parts have behind what was told of its draft, which is over.
    pub(super) fn rest(&mut self, item: &Item) -> Vec<DraftEvent> {
        let Some((stream, number)) = item.body.item_id.as_ref().and_then(piece) else {
            return Vec::new();
        };
        let range = (stream, number, 0)..=(stream, number, u64::MAX);
        let keys: Vec<_> = self.told.range(range).map(|(key, _)| *key).collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let parts: Vec<Members<'_>> =
            serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
        let mut texts: Vec<(PieceKind, &str)> = parts.iter().filter_map(shown).collect();
        let done = item.body.channel != Channel::Partial;
        let mut events = Vec::new();
        for key in keys {
            let Some(mut told) = self.told.remove(&key).filter(|t| t.bytes > 0) else {
                continue;
            };
            let kind = told.head.kind;
            // A part that was told may stand further up: empty ones are left out.
            let goes_on = |(k, text): &(PieceKind, &str)| *k == kind && told.behind(text).is_some();
            let at = texts.iter().position(goes_on);
            let at = at.or_else(|| texts.iter().position(|(k, _)| *k == kind));
            let Some((_, text)) = at.map(|at| texts.remove(at)) else {
                continue;
            };
            let rest = told.behind(text).unwrap_or_else(|| {
                told.restart();
                text
            });
            if !rest.is_empty() {
                events.extend(told.tell(key, rest, done));
            }
        }
        events
    }
}

/// Several deltas of one part as one.
fn gathered(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut gathered: Vec<Delta> = Vec::new();
    let mut at: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for delta in deltas {
        let key = (delta.number, delta.part);
        match at.get(&key).and_then(|at| gathered.get_mut(*at)) {
            Some(known) => {
                if delta.replaces {
                    known.text.clear();
                    known.replaces = true;
                }
                known.text.push_str(&delta.text);
                known.head = delta.head.or(known.head.take());
                known.done = delta.done;
            }
            None => {
                at.insert(key, gathered.len());
                gathered.push(delta);
            }
        }
    }
    gathered
}

/// The recording and number that an item's key names.
fn piece(id: &ItemId) -> Option<(StreamId, u64)> {
    let (stream, number) = id.as_str().strip_prefix("st_")?.split_once('.')?;
    let stream = u64::from_str_radix(stream, 16).ok()?;
    let stream = StreamId(stream.to_be_bytes());
    let number = number.parse().ok()?;
    (stream.item_id(number).as_ref() == Some(id)).then_some((stream, number))
}

/// The text of a part that a draft may have shown, as it is spelled.
fn shown<'a>(part: &Members<'a>) -> Option<(PieceKind, &'a str)> {
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
