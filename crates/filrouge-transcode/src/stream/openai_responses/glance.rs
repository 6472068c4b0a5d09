//! A quick look at an event: most bring a piece of text and nothing else.

use std::ops::Range;

use filrouge_engine::stream::Transcript;

use super::Responses;
use crate::stream::cursor::{Cursor, Seen, inner};
use crate::stream::shape::Shape;

/// What the last event that brought only text had beside its text, its number and its padding.
#[derive(Default)]
pub(super) struct Last {
    shape: Shape<3>,
    place: Place,
}

/// The item, and the part of it, that a text belongs to.
#[derive(Clone, Copy, Default)]
struct Place {
    item: Option<u64>,
    part: Option<u64>,
}

impl Responses {
    /// Takes an event that brings a piece of a text that has begun; `None` for any other.
    pub(super) fn glance(&mut self, data: &str, out: &mut Transcript) -> Option<bool> {
        let text = match self.last.shape.fit(data) {
            Some([text, _, _]) => text,
            None => {
                let (place, values) = look(data)?;
                self.last.shape.keep(data, &values);
                self.last.place = place;
                data.get(values[0].clone())?
            }
        };
        let Place { item, part } = self.last.place;
        let piece = self.items.begun(item?, part?)?;
        Some(out.push(piece, inner(text)?))
    }
}

fn look(data: &str) -> Option<(Place, [Range<usize>; 3])> {
    let (mut place, mut values) = (Place::default(), [0..0, 0..0, 0..0]);
    let (mut seen, mut cursor) = (Seen::default(), Cursor::new(data));
    cursor.object(|cursor, name| {
        match name {
            "type" => {
                seen.first(0)?;
                return (cursor.string()? == "response.output_text.delta").then_some(());
            }
            "output_index" => {
                seen.first(1)?;
                place.item = Some(cursor.number()?);
            }
            "content_index" => {
                seen.first(2)?;
                place.part = Some(cursor.number()?);
            }
            "delta" => {
                seen.first(3)?;
                values[0] = cursor.place()?;
            }
            "item_id" => seen.first(4).and_then(|()| cursor.skip())?,
            "sequence_number" => values[1] = cursor.place()?,
            "obfuscation" => values[2] = cursor.place()?,
            "object" | "response" | "item" | "summary_index" | "part" | "text" | "refusal"
            | "arguments" | "input" | "annotation" | "error" | "code" | "message" => return None,
            _ => cursor.skip()?,
        }
        Some(())
    })?;
    cursor.end()?;
    // Without a type it is its name that tells what it is.
    (seen.first(0).is_none() && seen.first(3).is_none()).then_some((place, values))
}
