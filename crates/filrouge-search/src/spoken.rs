//! What is searched as one: a message of a session, or the session's title (DESIGN §10).
//!
//! [`Spoken::encode`] is what an index keeps of it: a version, then the members as `postcard` writes them.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;

use filrouge_sources::{Header, Message, MessageError, Part, PartKind, Role};
use filrouge_store::text_index::{NewDocument, TITLE, fold};
use serde::{Deserialize, Serialize};

use crate::feed::digest;
use crate::fields::{self, Field};
use crate::view::View;

/// The version of the encoded form.
const VERSION: u8 = 3;
/// Stands between pieces where nothing may be found across them.
pub(crate) const SEPARATOR: char = '\u{1F}';

/// A message or a title with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken<'a> {
    /// The message's id; empty for a title.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// Who said it; `None` for a title.
    pub role: Option<Role>,
    /// When, milliseconds since 1970.
    pub created: i64,
    /// [`Message::seq`]: of the ledger its first item's.
    pub seq: Option<u64>,
    /// The agent, if the message names one; of a title the session's.
    pub agent: Option<Cow<'a, str>>,
    /// Its texts, in the order they are read.
    pub pieces: Vec<Piece<'a>>,
}

/// A text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece<'a> {
    /// Which text it is.
    pub field: Field,
    /// The part it is of.
    pub part: Option<Cow<'a, str>>,
    /// Of the ledger: the seq of the item that it came in, the part's or [`filrouge_sources::Tool::result`].
    pub seq: Option<u64>,
    /// The tool whose call it is of.
    pub tool: Option<Cow<'a, str>>,
    /// When the part began, milliseconds since 1970.
    pub at: Option<i64>,
    /// The text.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
}

/// Bytes that are no encoded document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no document of this version")]
pub struct Malformed;

/// A number of something, in this process: nobody else can make anything that has the number of something else.
pub(crate) fn print(of: &impl Hash) -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.hash_one(of)
}

/// The kind that an index files a role under; a title's is [`TITLE`].
#[must_use]
pub const fn kind(role: Option<Role>) -> u8 {
    match role {
        Some(Role::User) => 0,
        Some(Role::Assistant) => 1,
        Some(Role::System) => 2,
        None => TITLE,
    }
}

impl<'a> Spoken<'a> {
    /// A message.
    #[must_use]
    pub fn of(message: &'a Message) -> Self {
        let mut texts = Vec::with_capacity(message.parts.len());
        pieces(&message.parts, message.error.as_ref(), &mut texts);
        Self {
            id: Cow::Borrowed(&message.id),
            role: Some(message.role),
            created: message.created,
            seq: message.seq,
            agent: message.agent.as_deref().map(Cow::Borrowed),
            pieces: texts,
        }
    }

    /// The title of a session, if it has one.
    #[must_use]
    pub fn of_title(header: &'a Header) -> Option<Self> {
        let title = header.title.as_deref()?;
        Some(Self {
            id: Cow::Borrowed(""),
            role: None,
            created: header.created,
            seq: None,
            agent: header.agent.as_deref().map(Cow::Borrowed),
            pieces: vec![Piece::of_message(Field::Title, title)],
        })
    }

    /// What an index files it under.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        kind(self.role)
    }

    /// All its texts as an index looks for them: folded, of JSON also as its strings read.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut all = String::new();
        for piece in &self.pieces {
            push_folded(&piece.text, &mut all);
            if let Some(view) = View::of(&piece.text).filter(|_| piece.field.is_json()) {
                push_folded(&view.text, &mut all);
            }
        }
        all
    }

    /// A number of one of its texts and of what is shown beside it: see [`print`].
    pub(crate) fn print(&self, piece: Option<&Piece<'_>>) -> u64 {
        print(&(&self.id, self.kind(), self.created, piece))
    }

    /// Those of all its texts, and of none.
    pub(crate) fn prints(&self) -> Vec<u64> {
        let pieces = self.pieces.iter().map(Some).chain([None]);
        pieces.map(|piece| self.print(piece)).collect()
    }

    /// The bytes that an index keeps.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Nothing that is written into memory fails.
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// Reads what [`Spoken::encode`] wrote; the texts stay where they are.
    ///
    /// # Errors
    /// [`Malformed`] for anything else.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let members = bytes.strip_prefix(&[VERSION]).ok_or(Malformed)?;
        match postcard::take_from_bytes(members) {
            Ok((spoken, [])) => Ok(spoken),
            _ => Err(Malformed),
        }
    }

    /// The document of an index: `key` names it in its session, `unit` is the part of this that is read again as one.
    pub(crate) fn document(&self, key: &str, unit: u64) -> NewDocument {
        let body = self.encode();
        NewDocument {
            key: key.into(),
            unit,
            kind: self.kind(),
            created: self.created,
            digest: digest::of_bytes(&body),
            folded: self.folded(),
            body,
        }
    }
}

impl<'a> Piece<'a> {
    /// A text that is of no part.
    const fn of_message(field: Field, text: &'a str) -> Self {
        Self {
            field,
            part: None,
            seq: None,
            tool: None,
            at: None,
            text: Cow::Borrowed(text),
        }
    }
}

/// Adds the texts of parts of a message, and of the error it ended in.
pub(crate) fn pieces<'a>(
    parts: &'a [Part],
    error: Option<&'a MessageError>,
    texts: &mut Vec<Piece<'a>>,
) {
    parts.iter().for_each(|part| of_part(part, texts));
    if let Some(error) = error {
        fields::of_error(error, &mut |field, text| {
            texts.push(Piece::of_message(field, text));
        });
    }
}

fn of_part<'a>(part: &'a Part, pieces: &mut Vec<Piece<'a>>) {
    let (tool, result) = match &part.kind {
        PartKind::Tool(tool) => (Some(&*tool.name), tool.result),
        _ => (None, None),
    };
    fields::of_part(part, &mut |field, text| {
        pieces.push(Piece {
            field,
            part: Some(Cow::Borrowed(&part.id)),
            seq: result.filter(|_| field.is_result()).or(part.seq),
            tool: tool.map(Cow::Borrowed),
            at: part.start,
            text: Cow::Borrowed(text),
        });
    });
}

/// A literal as it stands in [`Spoken::folded`] of whatever holds it.
pub(crate) fn folded_literal(literal: &str) -> String {
    let mut out = String::new();
    push_spaced(&fold(literal), &mut out);
    out
}

fn push_folded(text: &str, out: &mut String) {
    if !out.is_empty() {
        out.push(SEPARATOR);
    }
    push_spaced(&fold(text), out);
}

/// Adds a text in which every run of white space is one space, and nothing separates.
fn push_spaced(text: &str, out: &mut String) {
    let mut spaced = false;
    for c in text.chars() {
        let space = c.is_whitespace() || c == SEPARATOR;
        if !space {
            out.push(c);
        } else if !spaced {
            out.push(' ');
        }
        spaced = space;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = Piece<'static>> {
        let some = || proptest::option::of("[a-zé]{0,6}");
        (
            0..Field::ALL.len(),
            some(),
            proptest::option::of(any::<u64>()),
            some(),
            proptest::option::of(any::<i64>()),
            "\\PC{0,40}",
        )
            .prop_map(|(field, part, seq, tool, at, text)| Piece {
                field: Field::ALL[field],
                part: part.map(Cow::Owned),
                seq,
                tool: tool.map(Cow::Owned),
                at,
                text: Cow::Owned(text),
            })
    }

    fn spoken() -> impl Strategy<Value = Spoken<'static>> {
        let role = proptest::option::of(prop_oneof![
            Just(Role::User),
            Just(Role::Assistant),
            Just(Role::System)
        ]);
        let agent = proptest::option::of("[a-z]{0,6}");
        (
            "[a-z0-9]{0,6}",
            role,
            any::<i64>(),
            proptest::option::of(any::<u64>()),
            agent,
            proptest::collection::vec(piece(), 0..5),
        )
            .prop_map(|(id, role, created, seq, agent, pieces)| Spoken {
                id: Cow::Owned(id),
                role,
                created,
                seq,
                agent: agent.map(Cow::Owned),
                pieces,
            })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(spoken in spoken()) {
            let bytes = spoken.encode();
            prop_assert_eq!(Spoken::decode(&bytes).unwrap(), spoken);
        }

        #[test]
        fn other_bytes_are_refused_and_break_nothing(spoken in spoken(), at in any::<usize>(), byte in any::<u8>()) {
            let mut bytes = spoken.encode();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = Spoken::decode(&bytes);
            bytes.truncate(at);
            prop_assert!(Spoken::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Spoken::decode(&bytes);
        }
    }

    #[test]
    fn texts_are_folded_and_kept_apart() {
        let texts = [
            (Field::Text, "Été  à\n Nice"),
            (Field::ToolInput, r#"{"a":"B\nC"}"#),
        ];
        let spoken = Spoken {
            id: Cow::Borrowed("m"),
            role: Some(Role::User),
            created: 1,
            seq: None,
            agent: None,
            pieces: texts
                .iter()
                .map(|(field, text)| Piece::of_message(*field, text))
                .collect(),
        };
        assert_eq!(
            spoken.folded(),
            "ete a nice\u{1f}{\"a\":\"b\\nc\"}\u{1f}{\"a\":\"b c\"}"
        );
        assert_eq!(folded_literal("À\n\nN"), "a n");
    }
}
