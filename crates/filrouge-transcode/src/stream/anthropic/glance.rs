//! A quick look at an event: most bring a piece of a block's text and nothing else.

use filrouge_engine::stream::Transcript;

use super::Messages;
use super::block::Block;
use crate::stream::cursor::{Cursor, Seen};

/// Most bytes of a beginning that is kept.
const HEAD_BYTES: usize = 1 << 10;

/// How an event begins, up to its text, and the block that it belongs to: most begin as the one before.
#[derive(Default)]
pub(super) struct Head {
    text: String,
    index: u64,
}

impl Head {
    /// The text of an event that begins so and has nothing behind it.
    fn text<'a>(&self, data: &'a str) -> Option<&'a str> {
        let mut cursor = Cursor::new(data);
        if self.text.is_empty() || !cursor.pass_over(&self.text) {
            return None;
        }
        let text = cursor.string()?;
        cursor.close()?;
        cursor.close()?;
        cursor.end()?;
        Some(text)
    }

    /// Keeps how an event began whose text begins at this byte.
    fn keep(&mut self, piece: &Piece<'_>, data: &str) {
        let head = data.get(..piece.at.min(HEAD_BYTES)).unwrap_or_default();
        head.clone_into(&mut self.text);
        self.index = piece.index;
        // What does not end with its text does not begin so.
        if self.text(data) != Some(piece.text) {
            self.text.clear();
        }
    }
}

/// A piece of a text, where it stands, and the block that it belongs to.
struct Piece<'a> {
    index: u64,
    at: usize,
    text: &'a str,
}

impl Messages {
    /// Takes an event that brings a piece of a text; `None` for any other.
    pub(super) fn glance(&mut self, data: &str, out: &mut Transcript) -> Option<bool> {
        let (index, text) = match self.head.text(data) {
            Some(text) => (self.head.index, text),
            None => {
                let piece = piece(data)?;
                self.head.keep(&piece, data);
                (piece.index, piece.text)
            }
        };
        match self.open.get_mut(&index)? {
            Block::Text(block) => Some(block.add(text, out)),
            _ => None,
        }
    }
}

fn piece(data: &str) -> Option<Piece<'_>> {
    let (mut index, mut text) = (None, None);
    let (mut seen, mut cursor) = (Seen::default(), Cursor::new(data));
    cursor.object(|cursor, name| {
        match name {
            "type" => {
                seen.first(0)?;
                return (cursor.string()? == "content_block_delta").then_some(());
            }
            "index" => {
                seen.first(1)?;
                index = Some(cursor.number()?);
            }
            "delta" => {
                seen.first(2)?;
                text = Some(delta(cursor)?);
            }
            "content_block"
            | "message"
            | "usage"
            | "error"
            | "context_management"
            | "input_transformations" => return None,
            _ => cursor.skip()?,
        }
        Some(())
    })?;
    cursor.end()?;
    // Without a type it is its name that tells what it is.
    if seen.first(0).is_some() {
        return None;
    }
    let ((at, text), index) = (text?, index?);
    Some(Piece { index, at, text })
}

/// The text of a delta, and where it stands.
fn delta<'a>(cursor: &mut Cursor<'a>) -> Option<(usize, &'a str)> {
    let mut text = None;
    let mut seen = Seen::default();
    cursor.object(|cursor, name| {
        match name {
            "type" => {
                seen.first(0)?;
                return (cursor.string()? == "text_delta").then_some(());
            }
            "text" => {
                seen.first(1)?;
                text = Some((cursor.at(), cursor.string()?));
            }
            "partial_json" | "thinking" | "signature" | "citation" | "content"
            | "encrypted_content" | "stop_reason" | "stop_sequence" | "stop_details"
            | "container" => return None,
            _ => cursor.skip()?,
        }
        Some(())
    })?;
    seen.first(0).is_none().then_some(text?)
}
