//! Drafts: text of an open turn's stream that has not become items yet (DESIGN §3, §4). Drafts have no seq and are not
//! chained. The transaction that writes a draft's text as items deletes the draft.

use std::collections::HashMap;
use std::fmt;

use filrouge_types::{Channel, ItemId, JsonText, Role};

mod codec;
mod partial;

pub(crate) use codec::{decode, encode};
pub(crate) use partial::answer_so_far;
pub use partial::{arguments, checked_parts, is_flat, partial_entries, raw_event};

/// The id of one recording of a stream. The keys of the recording's items begin with it.
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
    /// The key of item `number` of the recording.
    pub fn item_id(self, number: u64) -> Option<ItemId> {
        ItemId::new(format!("{self}.{number}")).ok()
    }
}

/// Whether a key has the form that only recordings assign.
pub fn is_stream_key(id: &ItemId) -> bool {
    let suffix = id.as_str().strip_prefix("st_");
    let stream_and_number = suffix.and_then(|suffix| suffix.split_once('.'));
    stream_and_number.is_some_and(|(stream, _)| {
        stream.len() == 16 && stream.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

filrouge_types::words!(
    /// The kind of a piece: a part of a future item, while its text grows.
    pub enum PieceKind: "kind of a piece" {
        /// Spoken or written text.
        Text = 0 => "text",
        /// A refusal.
        Refusal = 1 => "refusal",
        /// Reasoning.
        Reasoning = 2 => "reasoning",
        /// A tool call. Its text is the arguments.
        ToolCall = 3 => "tool_call",
        /// A piece that arrived in one delta. Its text is JSON.
        Complete = 4 => "whole",
    }
);

impl PieceKind {
    /// Whether a piece of this kind can be part of the answer.
    pub const fn can_be_answer(self) -> bool {
        matches!(self, Self::Text | Self::Refusal | Self::Complete)
    }

    const fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The metadata of a piece; the piece's first delta contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceHead {
    /// The kind of the piece.
    pub kind: PieceKind,
    /// The speaker's role.
    pub role: Role,
    /// The provisional channel: later deltas may show that a text is not the answer.
    pub channel: Channel,
    /// The id and tool name of a call, as JSON strings.
    pub call: Option<(JsonText, JsonText)>,
    /// The speaker.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
}

/// The growth of a piece since its previous delta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The number, within the recording, of the item that the piece becomes part of.
    pub number: u64,
    /// The index of the piece among the parts of that item.
    pub part: u64,
    /// The piece's head; given in the piece's first delta and whenever it changes.
    pub head: Option<PieceHead>,
    /// Whether the text replaces the piece's earlier text.
    pub replaces: bool,
    /// The new text, escaped as inside a JSON string; for a complete piece, its JSON.
    pub text: String,
    /// Whether the piece is complete.
    pub done: bool,
}

/// The state of a piece after all its deltas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftPiece {
    /// The number, within the recording, of the item that the piece becomes part of.
    pub number: u64,
    /// The index of the piece among the parts of that item.
    pub part: u64,
    /// The metadata of the piece.
    pub head: PieceHead,
    /// The text of the piece, escaped as inside a JSON string; for a complete piece, its JSON.
    pub text: String,
    /// Whether the piece is complete.
    pub done: bool,
}

/// Assembles the deltas of a draft, given oldest first, into pieces, ordered by item and part. `None` when the first
/// delta of a piece has no head.
pub fn assemble(deltas: impl IntoIterator<Item = Delta>) -> Option<Vec<DraftPiece>> {
    let mut pieces: Vec<DraftPiece> = Vec::new();
    let mut indexes: HashMap<(u64, u64), usize> = HashMap::new();
    for delta in deltas {
        let key = (delta.number, delta.part);
        let existing = indexes.get(&key).and_then(|index| pieces.get_mut(*index));
        match (existing, delta.head) {
            (Some(piece), head) => {
                if let Some(head) = head {
                    piece.head = head;
                }
                if delta.replaces {
                    piece.text.clear();
                }
                piece.text.push_str(&delta.text);
                piece.done = delta.done;
            }
            (None, Some(head)) => {
                indexes.insert(key, pieces.len());
                pieces.push(DraftPiece {
                    number: delta.number,
                    part: delta.part,
                    head,
                    text: delta.text,
                    done: delta.done,
                });
            }
            (None, None) => return None,
        }
    }
    pieces.sort_by_key(|p| (p.number, p.part));
    Some(pieces)
}

/// Counts the characters of a text that is escaped as inside a JSON string. A surrogate pair counts as one.
pub fn chars(inner: &str) -> u64 {
    let mut count = 0;
    let mut remaining = inner.as_bytes();
    let mut follows_high_surrogate = false;
    while let Some(byte) = remaining.first() {
        let (len, unit) = match byte {
            b'\\' if remaining.get(1) == Some(&b'u') => (6, code_unit(remaining)),
            b'\\' => (2, None),
            _ => (1, None),
        };
        let is_low_surrogate = unit.is_some_and(|u| (0xdc00..0xe000).contains(&u));
        // The low half of a surrogate pair and a UTF-8 continuation byte belong to the character before.
        let is_continuation = byte & 0xc0 == 0x80 || (is_low_surrogate && follows_high_surrogate);
        count += u64::from(!is_continuation);
        follows_high_surrogate = unit.is_some_and(|u| (0xd800..0xdc00).contains(&u));
        remaining = remaining.get(len..).unwrap_or_default();
    }
    count
}

/// The UTF-16 code unit of a `\uXXXX` escape at the beginning of `escape`.
fn code_unit(escape: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(escape.get(2..6)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_surrogate_pairs_count_as_one_character() {
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

    #[test]
    fn a_complete_piece_of_an_answer_becomes_a_part() {
        let image = r#"{"type":"image_url","url":"u"}"#;
        for channel in [Channel::Final, Channel::from_word("alternative")] {
            let piece = DraftPiece {
                number: 0,
                part: 0,
                head: PieceHead {
                    kind: PieceKind::Complete,
                    role: Role::Assistant,
                    channel,
                    call: None,
                    agent: None,
                    model: None,
                },
                text: image.to_owned(),
                done: true,
            };
            let mut array_piece = piece.clone();
            array_piece.text = format!("[{image}]");
            for piece in [piece, array_piece] {
                let entries = partial_entries(StreamId([1; 8]), &[piece]);
                assert_eq!(entries[0].item.parts.as_str(), format!("[{image}]"));
            }
        }
    }

    #[test]
    fn the_answer_so_far_is_the_last_answer_text() {
        let piece = |number, kind, channel, text: &str| DraftPiece {
            number,
            part: 0,
            head: PieceHead {
                kind,
                role: Role::Assistant,
                channel,
                call: None,
                agent: None,
                model: None,
            },
            text: text.to_owned(),
            done: false,
        };
        let (text, last) = (PieceKind::Text, Channel::Final);
        let observed = piece(0, text, Channel::Observation, "before");
        let halves = [r"a \ud83e", r"\uddf5"].map(|t| piece(1, text, last.clone(), t));
        let call = piece(2, PieceKind::ToolCall, Channel::ToolCall, "{");
        let refusal = piece(1, PieceKind::Refusal, last.clone(), "no");
        for (pieces, expected) in [
            (vec![observed.clone()], None),
            (
                vec![observed, halves[0].clone(), halves[1].clone(), call],
                Some((1, "a 🧵")),
            ),
            (vec![halves[0].clone(), refusal], None),
            (vec![piece(1, text, last, "")], None),
        ] {
            let expected = expected.map(|(n, text)| (n, text.to_owned()));
            assert_eq!(answer_so_far(&pieces), expected);
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
                replaces: text.len() == 7,
                text,
                done,
            })
    }

    proptest! {
        #[test]
        fn deltas_round_trip(deltas in proptest::collection::vec(delta(), 0..9)) {
            prop_assert_eq!(decode(&encode(&deltas)), Ok(deltas));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
