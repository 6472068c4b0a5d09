//! Drafts: what an open turn's stream has shown and is not an item yet (DESIGN §3, §4). They have no seq and are not
//! chained; they go in the transaction that writes the items they become.

use std::fmt;

use filrouge_types::{Channel, ItemId, JsonText, NewItem, RawJson, Role};

use crate::codec::{Malformed, Reader, Write};
use crate::record::Entry;

/// Names one recording of a stream; its items' keys begin with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub [u8; 8]);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "st_{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StreamId {
    /// The key of its item `number`.
    #[must_use]
    pub fn item_id(self, number: u64) -> Option<ItemId> {
        ItemId::new(format!("{self}.{number}")).ok()
    }
}

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PieceKind {
    /// Text that is said.
    Text,
    /// A refusal.
    Refusal,
    /// Reasoning.
    Reasoning,
    /// A call of a tool: its arguments.
    ToolCall,
    /// Something that came whole: its JSON.
    Whole,
}

impl PieceKind {
    /// The word used in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Refusal => "refusal",
            Self::Reasoning => "reasoning",
            Self::ToolCall => "tool_call",
            Self::Whole => "whole",
        }
    }

    /// Whether it can be part of what is said.
    #[must_use]
    pub const fn is_said(self) -> bool {
        matches!(self, Self::Text | Self::Refusal | Self::Whole)
    }

    const fn code(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Refusal => 1,
            Self::Reasoning => 2,
            Self::ToolCall => 3,
            Self::Whole => 4,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Text,
            1 => Self::Refusal,
            2 => Self::Reasoning,
            3 => Self::ToolCall,
            4 => Self::Whole,
            _ => return None,
        })
    }
}

/// What is known of a piece from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceHead {
    /// What grows.
    pub kind: PieceKind,
    /// Who speaks.
    pub role: Role,
    /// Where it stands as far as that is known: what is said may turn out not to be the answer.
    pub channel: Channel,
    /// Of a call: its id and the tool's name, JSON strings.
    pub call: Option<(JsonText, JsonText)>,
    /// Who speaks.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
}

/// What has come to a piece since the last draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The number of the item that it becomes part of.
    pub number: u64,
    /// Which part of it.
    pub part: u64,
    /// What is known of it, with its first text and whenever that changes.
    pub head: Option<PieceHead>,
    /// The text that has come, as spelled inside a JSON string; of a whole piece its JSON.
    pub text: String,
    /// Whether it is complete.
    pub done: bool,
}

/// A piece as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The number of the item that it becomes part of.
    pub number: u64,
    /// Which part of it.
    pub part: u64,
    /// What is known of it.
    pub head: PieceHead,
    /// Its text, as spelled inside a JSON string; of a whole piece its JSON.
    pub text: String,
    /// Whether it is complete.
    pub done: bool,
}

/// Puts the deltas of a draft together, oldest first; `None` when one has no beginning.
#[must_use]
pub fn assemble(deltas: impl IntoIterator<Item = Delta>) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    for delta in deltas {
        let known = pieces
            .iter_mut()
            .find(|p| (p.number, p.part) == (delta.number, delta.part));
        match (known, delta.head) {
            (Some(piece), head) => {
                if let Some(head) = head {
                    piece.head = head;
                }
                piece.text.push_str(&delta.text);
                piece.done |= delta.done;
            }
            (None, Some(head)) => pieces.push(Piece {
                number: delta.number,
                part: delta.part,
                head,
                text: delta.text,
                done: delta.done,
            }),
            (None, None) => return None,
        }
    }
    pieces.sort_by_key(|p| (p.number, p.part));
    Some(pieces)
}

/// How many characters a text has that is spelled as inside a JSON string. A pair of surrogates is one.
#[must_use]
pub fn chars(inner: &str) -> u64 {
    let mut count = 0;
    let mut rest = inner.as_bytes();
    let mut high = false;
    while let Some(byte) = rest.first() {
        let (len, unit) = match byte {
            b'\\' if rest.get(1) == Some(&b'u') => (6, unit(rest)),
            b'\\' => (2, None),
            _ => (1, None),
        };
        let low = unit.is_some_and(|u| (0xdc00..0xe000).contains(&u));
        // The other half of a pair, and the rest of a character of several bytes, are counted already.
        let counted = byte & 0xc0 == 0x80 || (low && high);
        count += u64::from(!counted);
        high = unit.is_some_and(|u| (0xd800..0xdc00).contains(&u));
        rest = rest.get(len..).unwrap_or_default();
    }
    count
}

fn unit(escape: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(escape.get(2..6)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// What was shown, as items, when no more will come: of a turn that has failed, was cancelled or interrupted.
///
/// Complete calls are calls; one that broke off is a part of type `tool_call_partial`, which nothing takes for a call.
#[must_use]
pub fn partial_entries(stream: StreamId, pieces: &[Piece]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for chunk in pieces.chunk_by(|a, b| a.number == b.number) {
        let parts: Vec<String> = chunk.iter().filter_map(part).collect();
        let Some(first) = chunk.first().filter(|_| !parts.is_empty()) else {
            continue;
        };
        let head = &first.head;
        let channel = match (head.kind, &head.channel) {
            (PieceKind::ToolCall, Channel::ToolCall) if !first.done => Channel::Partial,
            (_, Channel::Final) => Channel::Partial,
            (_, channel) => channel.clone(),
        };
        // What stands alone came with its parts' brackets.
        let alone = head.kind == PieceKind::Whole && head.channel != Channel::Final;
        let parts = if alone {
            parts.concat()
        } else {
            format!("[{}]", parts.join(","))
        };
        let mut item = NewItem::new(head.role, channel, RawJson::from_checked(parts));
        item.item_id = stream.item_id(first.number);
        item.agent.clone_from(&head.agent);
        item.model.clone_from(&head.model);
        entries.push(item.into());
    }
    entries
}

fn part(piece: &Piece) -> Option<String> {
    let text = &piece.text;
    match piece.head.kind {
        PieceKind::Whole => Some(text.clone()),
        PieceKind::ToolCall => {
            let (id, name) = piece.head.call.as_ref()?;
            let (id, name) = (id.as_token(), name.as_token());
            let kind = if piece.done {
                "tool_call"
            } else {
                "tool_call_partial"
            };
            Some(format!(
                r#"{{"type":"{kind}","call_id":{id},"name":{name},"args":"{text}"}}"#
            ))
        }
        _ if text.is_empty() => None,
        PieceKind::Text => Some(format!(r#"{{"type":"text","text":"{text}"}}"#)),
        PieceKind::Refusal => Some(format!(r#"{{"type":"refusal","refusal":"{text}"}}"#)),
        PieceKind::Reasoning => Some(format!(r#"{{"type":"reasoning","text":"{text}"}}"#)),
    }
}

/// The stored bytes of deltas.
pub(crate) fn encode(deltas: &[Delta]) -> Vec<u8> {
    let mut out = Vec::new();
    out.number(deltas.len() as u64);
    for delta in deltas {
        out.number(delta.number);
        out.number(delta.part);
        out.byte(u8::from(delta.done) | u8::from(delta.head.is_some()) << 1);
        if let Some(head) = &delta.head {
            out.byte(head.kind.code());
            out.byte(head.role.code());
            out.text(head.channel.as_str());
            let (id, name) = match &head.call {
                Some((id, name)) => (id.as_token(), name.as_token()),
                None => ("", ""),
            };
            for text in [
                id,
                name,
                head.agent.as_deref().unwrap_or(""),
                head.model.as_deref().unwrap_or(""),
            ] {
                out.text(text);
            }
        }
        out.text(&delta.text);
    }
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Delta>, Malformed> {
    let mut r = Reader(bytes);
    let count = r.number()?;
    let mut deltas = Vec::new();
    for _ in 0..count {
        let (number, part, flags) = (r.number()?, r.number()?, r.byte()?);
        let head = match flags >> 1 {
            0 => None,
            1 => Some(read_head(&mut r)?),
            _ => return Err(Malformed),
        };
        deltas.push(Delta {
            number,
            part,
            head,
            text: r.text()?.to_owned(),
            done: flags & 1 == 1,
        });
    }
    if r.is_empty() {
        Ok(deltas)
    } else {
        Err(Malformed)
    }
}

fn read_head(r: &mut Reader<'_>) -> Result<PieceHead, Malformed> {
    let kind = PieceKind::from_code(r.byte()?).ok_or(Malformed)?;
    let role = Role::from_code(r.byte()?).ok_or(Malformed)?;
    let channel = Channel::from_word(r.text()?);
    let mut token = || -> Result<Option<JsonText>, Malformed> {
        let text = r.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        JsonText::from_raw(RawJson::from_checked(text))
            .map(Some)
            .map_err(|_| Malformed)
    };
    let (id, name) = (token()?, token()?);
    let mut label = || -> Result<Option<Box<str>>, Malformed> {
        Ok(Some(r.text()?).filter(|t| !t.is_empty()).map(Into::into))
    };
    Ok(PieceHead {
        kind,
        role,
        channel,
        call: id.zip(name),
        agent: label()?,
        model: label()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn characters_are_counted_as_a_reader_counts_them() {
        for (inner, expected) in [
            ("", 0),
            ("abc", 3),
            ("é🧵", 2),
            (r"a\nb", 3),
            (r"\u00e9", 1),
            (r"\ud83e\uddf5", 1),
            (r"\ud83e", 1),
            (r"\uddf5\ud83e", 2),
            (r"\\ud83e", 6),
        ] {
            assert_eq!(chars(inner), expected, "{inner}");
        }
    }

    fn delta() -> impl Strategy<Value = Delta> {
        let head =
            (0_u8..5, any::<bool>(), "[a-z]{1,9}").prop_map(|(kind, model, word)| PieceHead {
                kind: PieceKind::from_code(kind).unwrap(),
                role: Role::Assistant,
                channel: Channel::from_word(&word),
                call: (kind == 3)
                    .then(|| (JsonText::from_plain("c1"), JsonText::from_plain(&word))),
                agent: None,
                model: model.then(|| "m".into()),
            });
        (
            0_u64..9,
            0_u64..3,
            proptest::option::of(head),
            ".{0,20}",
            any::<bool>(),
        )
            .prop_map(|(number, part, head, text, done)| Delta {
                number,
                part,
                head,
                text,
                done,
            })
    }

    proptest! {
        #[test]
        fn deltas_come_back(deltas in proptest::collection::vec(delta(), 0..9)) {
            prop_assert_eq!(decode(&encode(&deltas)), Ok(deltas));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
