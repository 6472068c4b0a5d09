//! A quick look at an event: most bring a piece of a message's text and nothing else.

use std::ops::Range;

use filrouge_engine::stream::Transcript;

use super::AgUi;
use super::texts::Kind;
use crate::stream::cursor::{Cursor, Seen, inner};
use crate::stream::shape::Shape;

/// What the last event that brought only text had beside its text and its time.
#[derive(Default)]
pub(super) struct Last {
    shape: Shape<2>,
    /// What it belongs to.
    of: Option<(Kind, String)>,
}

impl AgUi {
    /// Takes an event that goes on with what the last one has added to; `None` for any other.
    pub(super) fn glance(&mut self, data: &str, out: &mut Transcript) -> Option<bool> {
        let text = match self.last.shape.fit(data) {
            Some([text, _]) => text,
            None => {
                let (kind, id, values) = look(data)?;
                self.last.shape.keep(data, &values);
                self.last.of = Some((kind, id.to_owned()));
                data.get(values[0].clone())?
            }
        };
        let (kind, id) = self.last.of.as_ref()?;
        let hot = self.texts.hot(*kind, id)?;
        Some(out.push(hot, inner(text)?))
    }
}

fn look(data: &str) -> Option<(Kind, &str, [Range<usize>; 2])> {
    let (mut kind, mut id, mut values) = (None, None, [0..0, 0..0]);
    let (mut seen, mut cursor) = (Seen::default(), Cursor::new(data));
    cursor.object(|cursor, name| {
        match name {
            "type" => {
                seen.first(0)?;
                kind = Some(match cursor.string()? {
                    "TEXT_MESSAGE_CONTENT" => Kind::Text,
                    "REASONING_MESSAGE_CONTENT" => Kind::Reasoning,
                    _ => return None,
                });
            }
            "messageId" => {
                seen.first(1)?;
                id = Some(cursor.string()?);
            }
            "delta" => {
                seen.first(2)?;
                values[0] = cursor.place()?;
            }
            "timestamp" => values[1] = cursor.place()?,
            // Few have more, and one that is asked for must not come twice.
            _ => return None,
        }
        Some(())
    })?;
    cursor.end()?;
    seen.first(2).is_none().then_some((kind?, id?, values))
}
