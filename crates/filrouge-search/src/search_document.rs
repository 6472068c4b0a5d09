//! The unit of search: a message of a session, or the session's title (DESIGN §10).
//!
//! An index of another program's history stores the result of [`SearchDocument::encode`]: a version, then the fields,
//! encoded with `postcard`.

use std::borrow::Cow;

use filrouge_sources::{Header, Message, MessageError, Part, PartKind, Role};
use filrouge_store::text_index::{NewDocument, TITLE, fold};
use serde::{Deserialize, Serialize};

use crate::feed::digest;
use crate::fields::{self, Field};
use crate::unescaped_json::UnescapedJson;

/// The version of the encoded form.
const VERSION: u8 = 3;
/// Separates pieces in folded text, so that no match spans two of them.
pub(crate) const SEPARATOR: char = '\u{1F}';

/// A message or a title with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchDocument<'a> {
    /// The message's id; empty for a title.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The role of the author; `None` for a title.
    pub role: Option<Role>,
    /// The time of the message, in milliseconds since 1970; for a title, the time at which the session was created.
    pub created: i64,
    /// [`Message::seq`]: for the ledger, the seq of the message's first item.
    pub seq: Option<u64>,
    /// The agent, if the message names one; for a title, the session's agent.
    pub agent: Option<Cow<'a, str>>,
    /// The texts of the message, in reading order.
    pub pieces: Vec<Piece<'a>>,
}

/// A text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece<'a> {
    /// The kind of text.
    pub field: Field,
    /// The id of the part that contains it; `None` if no part does.
    pub part: Option<Cow<'a, str>>,
    /// For the ledger, the seq of the item that contains it: the part's seq or, for the result of a tool,
    /// [`filrouge_sources::Tool::result`].
    pub seq: Option<u64>,
    /// The name of the tool whose call contains it.
    pub tool: Option<Cow<'a, str>>,
    /// The time at which the part began, in milliseconds since 1970.
    pub at: Option<i64>,
    /// The text.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
}

/// The error for bytes that are not an encoded document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no document of this version")]
pub struct Malformed;

/// Returns the document kind of a role in an index; [`TITLE`] for `None`.
pub const fn kind(role: Option<Role>) -> u8 {
    match role {
        Some(Role::User) => 0,
        Some(Role::Assistant) => 1,
        Some(Role::System) => 2,
        None => TITLE,
    }
}

impl<'a> SearchDocument<'a> {
    /// Creates the document of a message.
    #[must_use]
    pub fn from_message(message: &'a Message) -> Self {
        let mut texts = Vec::with_capacity(message.parts.len());
        push_pieces(&message.parts, message.error.as_ref(), &mut texts);
        Self {
            id: Cow::Borrowed(&message.id),
            role: Some(message.role),
            created: message.created,
            seq: message.seq,
            agent: message.agent.as_deref().map(Cow::Borrowed),
            pieces: texts,
        }
    }

    /// Creates the document of a session's title, if the session has a title. A title that repeats the first words of
    /// the first question is no document, because the question is one.
    #[must_use]
    pub fn from_title(header: &'a Header) -> Option<Self> {
        let title = header
            .title
            .as_deref()
            .filter(|_| !header.title_is_derived)?;
        Some(Self {
            id: Cow::Borrowed(""),
            role: None,
            created: header.created,
            seq: None,
            agent: header.agent.as_deref().map(Cow::Borrowed),
            pieces: vec![Piece::outside_parts(Field::Title, title)],
        })
    }

    /// Its document kind in an index.
    pub const fn kind(&self) -> u8 {
        kind(self.role)
    }

    /// Returns all texts in the form that an index searches: folded, with U+001F between them. A JSON text occurs
    /// twice: as written, and with its escapes resolved.
    pub fn folded(&self) -> String {
        let mut folded = String::new();
        for piece in &self.pieces {
            push_folded(&piece.text, &mut folded);
            if let Some(unescaped) =
                UnescapedJson::new(&piece.text).filter(|_| piece.field.is_json())
            {
                push_folded(&unescaped.text, &mut folded);
            }
        }
        folded
    }

    /// The bytes that an index stores.
    pub fn encode(&self) -> Vec<u8> {
        // Encoding into memory cannot fail.
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// The digest by which an index detects that a document has changed.
    pub fn digest(&self) -> u64 {
        digest::hash_bytes(&self.encode())
    }

    /// Decodes the output of [`SearchDocument::encode`]; the texts borrow from `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] for anything else.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let encoded = bytes.strip_prefix(&[VERSION]).ok_or(Malformed)?;
        match postcard::take_from_bytes(encoded) {
            Ok((doc, [])) => Ok(doc),
            _ => Err(Malformed),
        }
    }

    /// Returns the document for an index. `key` is its key, which no other document of the session has. `unit` is the
    /// number of the unit that contains it, the part of a session whose documents the index replaces together.
    pub(crate) fn to_index_document(&self, key: &str, unit: u64) -> NewDocument {
        let body = self.encode();
        NewDocument {
            key: key.into(),
            unit,
            kind: self.kind(),
            created: self.created,
            digest: digest::hash_bytes(&body),
            folded: self.folded(),
            body,
        }
    }
}

impl<'a> Piece<'a> {
    /// Creates the piece for a text that belongs to no part.
    const fn outside_parts(field: Field, text: &'a str) -> Self {
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

/// Adds the texts of a message's parts, and those of the error with which it ended, to `texts`.
pub(crate) fn push_pieces<'a>(
    parts: &'a [Part],
    error: Option<&'a MessageError>,
    texts: &mut Vec<Piece<'a>>,
) {
    parts.iter().for_each(|part| push_part_pieces(part, texts));
    if let Some(error) = error {
        let error_texts = [&error.message, &error.name];
        texts.extend(error_texts.map(|text| Piece::outside_parts(Field::Error, text)));
    }
}

fn push_part_pieces<'a>(part: &'a Part, pieces: &mut Vec<Piece<'a>>) {
    let (tool, result) = match &part.kind {
        PartKind::Tool(tool) => (Some(&*tool.name), tool.result),
        _ => (None, None),
    };
    fields::each_text_of_part(part, &mut |field, text| {
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

/// Returns a literal in the form that it has in [`SearchDocument::folded`].
pub(crate) fn folded_literal(literal: &str) -> String {
    let mut out = String::new();
    push_with_single_spaces(&fold(literal), &mut out);
    out
}

/// Adds a folded text, after a separator if it is not the first one.
fn push_folded(text: &str, out: &mut String) {
    if !out.is_empty() {
        out.push(SEPARATOR);
    }
    push_with_single_spaces(&fold(text), out);
}

/// Adds a text in which one space replaces every run of white space and separators.
fn push_with_single_spaces(text: &str, out: &mut String) {
    let mut after_space = false;
    for c in text.chars() {
        let is_space = c.is_whitespace() || c == SEPARATOR;
        if !is_space {
            out.push(c);
        } else if !after_space {
            out.push(' ');
        }
        after_space = is_space;
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

    fn doc() -> impl Strategy<Value = SearchDocument<'static>> {
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
            .prop_map(|(id, role, created, seq, agent, pieces)| SearchDocument {
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
        fn an_encoded_document_decodes_to_itself(doc in doc()) {
            let bytes = doc.encode();
            prop_assert_eq!(SearchDocument::decode(&bytes).unwrap(), doc);
        }

        #[test]
        fn damaged_documents_do_not_panic(doc in doc(), at in any::<usize>(), byte in any::<u8>()) {
            let mut bytes = doc.encode();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = SearchDocument::decode(&bytes);
            bytes.truncate(at);
            prop_assert!(SearchDocument::decode(&bytes).is_err());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = SearchDocument::decode(&bytes);
        }
    }

    #[test]
    fn texts_are_folded_and_separated() {
        let texts = [
            (Field::Text, "Été  à\n Nice"),
            (Field::ToolInput, r#"{"a":"B\nC"}"#),
        ];
        let doc = SearchDocument {
            id: Cow::Borrowed("m"),
            role: Some(Role::User),
            created: 1,
            seq: None,
            agent: None,
            pieces: texts
                .iter()
                .map(|(field, text)| Piece::outside_parts(*field, text))
                .collect(),
        };
        assert_eq!(
            doc.folded(),
            "ete a nice\u{1f}{\"a\":\"b\\nc\"}\u{1f}{\"a\":\"b c\"}"
        );
        assert_eq!(folded_literal("À\n\nN"), "a n");
    }
}
