//! What is searched as one: a message of a session, or the session's title (DESIGN §10).
//!
//! [`Spoken::encode`] is what an index keeps of it: a version, then every member in turn; numbers in groups of seven bits,
//! the lowest first, signed ones zigzag; texts as their length and UTF-8. It is read as anything that comes from a file.

use std::borrow::Cow;

use filrouge_sources::{Header, Message, MessageError, Part, PartKind, Role};
use filrouge_store::text_index::{TITLE, fold};

use crate::fields::{self, Field};
use crate::view::View;

/// The version of the encoded form.
const VERSION: u8 = 1;
/// Stands between pieces where nothing may be found across them.
pub(crate) const SEPARATOR: char = '\u{1F}';

/// A message or a title with its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken<'a> {
    /// The message's id; empty for a title.
    pub id: Cow<'a, str>,
    /// Who said it; `None` for a title.
    pub role: Option<Role>,
    /// When, milliseconds since 1970.
    pub created: i64,
    /// The agent, if the message names one; of a title the session's.
    pub agent: Option<Cow<'a, str>>,
    /// Its texts, in the order they are read.
    pub pieces: Vec<Piece<'a>>,
}

/// A text of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Which text it is.
    pub field: Field,
    /// The part it is of.
    pub part: Option<Cow<'a, str>>,
    /// The item of the ledger that it came in, where that is not the part's: [`filrouge_sources::Tool::result`].
    pub item: Option<Cow<'a, str>>,
    /// The tool whose call it is of.
    pub tool: Option<Cow<'a, str>>,
    /// When the part began, milliseconds since 1970.
    pub at: Option<i64>,
    /// The text.
    pub text: Cow<'a, str>,
}

/// Bytes that are no encoded document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no document of this version")]
pub struct Malformed;

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

const fn role(kind: u8) -> Result<Option<Role>, Malformed> {
    Ok(match kind {
        0 => Some(Role::User),
        1 => Some(Role::Assistant),
        2 => Some(Role::System),
        TITLE => None,
        _ => return Err(Malformed),
    })
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

    /// The bytes that an index keeps.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let texts: usize = self.pieces.iter().map(|p| p.text.len() + 24).sum();
        let mut out = Vec::with_capacity(texts + 64);
        out.extend([VERSION, self.kind()]);
        put_text(&mut out, &self.id);
        put_signed(&mut out, self.created);
        put_some(&mut out, self.agent.as_deref());
        put(&mut out, self.pieces.len() as u64);
        for piece in &self.pieces {
            out.push(piece.field as u8);
            put_some(&mut out, piece.part.as_deref());
            put_some(&mut out, piece.item.as_deref());
            put_some(&mut out, piece.tool.as_deref());
            out.push(u8::from(piece.at.is_some()));
            if let Some(at) = piece.at {
                put_signed(&mut out, at);
            }
            put_text(&mut out, &piece.text);
        }
        out
    }

    /// Reads what [`Spoken::encode`] wrote; the texts stay where they are.
    ///
    /// # Errors
    /// [`Malformed`] for anything else.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader(bytes);
        if from.byte()? != VERSION {
            return Err(Malformed);
        }
        let role = role(from.byte()?)?;
        let (id, created) = (from.text()?, from.signed()?);
        let agent = from.some()?;
        let count = from.number()?;
        let mut pieces = Vec::new();
        for _ in 0..count {
            pieces.push(Piece {
                field: Field::of_code(from.byte()?).ok_or(Malformed)?,
                part: from.some()?,
                item: from.some()?,
                tool: from.some()?,
                at: if from.flag()? {
                    Some(from.signed()?)
                } else {
                    None
                },
                text: from.text()?,
            });
        }
        let spoken = Self {
            id,
            role,
            created,
            agent,
            pieces,
        };
        if from.0.is_empty() {
            Ok(spoken)
        } else {
            Err(Malformed)
        }
    }
}

impl<'a> Piece<'a> {
    /// A text that is of no part.
    const fn of_message(field: Field, text: &'a str) -> Self {
        Self {
            field,
            part: None,
            item: None,
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
        PartKind::Tool(tool) => (Some(&*tool.name), tool.result.as_deref()),
        _ => (None, None),
    };
    fields::of_part(part, &mut |field, text| {
        pieces.push(Piece {
            field,
            part: Some(Cow::Borrowed(&part.id)),
            item: result.filter(|_| field.is_result()).map(Cow::Borrowed),
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

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_some(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn text(&mut self) -> Result<Cow<'a, str>, Malformed> {
        let len = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (text, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        std::str::from_utf8(text)
            .map(Cow::Borrowed)
            .map_err(|_| Malformed)
    }

    fn some(&mut self) -> Result<Option<Cow<'a, str>>, Malformed> {
        if self.flag()? {
            self.text().map(Some)
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = Piece<'static>> {
        let some = || proptest::option::of("[a-zé]{0,6}");
        (
            0u8..13,
            some(),
            some(),
            some(),
            proptest::option::of(any::<i64>()),
            "\\PC{0,40}",
        )
            .prop_map(|(field, part, item, tool, at, text)| Piece {
                field: Field::of_code(field).unwrap(),
                part: part.map(Cow::Owned),
                item: item.map(Cow::Owned),
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
            agent,
            proptest::collection::vec(piece(), 0..5),
        )
            .prop_map(|(id, role, created, agent, pieces)| Spoken {
                id: Cow::Owned(id),
                role,
                created,
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
