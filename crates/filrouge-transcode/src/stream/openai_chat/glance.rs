//! A quick look at a chunk: most bring a piece of one answer's text and nothing else.

use std::ops::Range;

use filrouge_engine::stream::Transcript;

use super::Chat;
use crate::stream::cursor::{Cursor, Seen, inner};
use crate::stream::shape::Shape;

/// What the last chunk that brought only text had beside its text and its padding.
#[derive(Default)]
pub(super) struct Last {
    shape: Shape<2>,
    index: u32,
}

impl Chat {
    /// Takes a chunk that brings nothing but a piece of a text that has begun; `None` for any other.
    pub(super) fn glance(&mut self, data: &str, out: &mut Transcript) -> Option<bool> {
        if !self.is_model_told || self.id.is_empty() {
            return None;
        }
        let text = match self.last.shape.fit(data) {
            Some([text, _]) => text,
            None => {
                let (index, values) = self.look(data)?;
                self.last.shape.keep(data, &values);
                self.last.index = index;
                data.get(values[0].clone())?
            }
        };
        let text = inner(text).filter(|text| !text.is_empty())?;
        self.choices.get_mut(&self.last.index)?.add(text, out)
    }

    fn look(&self, data: &str) -> Option<(u32, [Range<usize>; 2])> {
        let (mut found, mut padding) = (None, 0..0);
        let (mut seen, mut cursor) = (Seen::default(), Cursor::new(data));
        cursor.object(|cursor, name| {
            match name {
                "choices" => {
                    seen.first(6)?;
                    cursor.array(|cursor| {
                        // Another one would be looked at thoroughly.
                        let told = choice(cursor)?;
                        found.replace(told).is_none().then_some(())
                    })?;
                }
                "obfuscation" => padding = cursor.place()?,
                _ => self.member(name, &mut seen, cursor)?,
            }
            Some(())
        })?;
        cursor.end()?;
        let (index, text) = found?;
        Some((u32::try_from(index).ok()?, [text, padding]))
    }

    /// Passes over a member beside the choices that brings nothing new.
    fn member(&self, name: &str, seen: &mut Seen, cursor: &mut Cursor<'_>) -> Option<()> {
        match name {
            "id" => seen.first(0).and_then(|()| cursor.skip()),
            "model" => seen.first(1).and_then(|()| cursor.skip()),
            "object" => {
                seen.first(2)?;
                (cursor.string()? == "chat.completion.chunk").then_some(())
            }
            "system_fingerprint" => {
                seen.first(3)?;
                told(self.is_fingerprint_told, cursor)
            }
            "service_tier" => {
                seen.first(4)?;
                told(self.is_tier_told, cursor)
            }
            "usage" => seen.first(5).and_then(|()| cursor.null()),
            "choices"
            | "error"
            | "prompt_filter_results"
            | "moderation"
            | "citations"
            | "search_results"
            | "x_groq"
            | "message"
            | "detail" => None,
            _ => cursor.skip(),
        }
    }
}

/// Passes over what is told once, unless it is to be told now.
fn told(is_told: bool, cursor: &mut Cursor<'_>) -> Option<()> {
    if is_told {
        cursor.skip()
    } else {
        cursor.null()
    }
}

/// Which answer it is, and where its text stands.
fn choice(cursor: &mut Cursor<'_>) -> Option<(u64, Range<usize>)> {
    let (mut seen, mut index, mut text) = (Seen::default(), 0, None);
    cursor.object(|cursor, name| {
        match name {
            "index" => {
                seen.first(0)?;
                index = cursor.number()?;
            }
            "delta" => {
                seen.first(1)?;
                text = Some(delta(cursor)?);
            }
            "finish_reason" => seen.first(2).and_then(|()| cursor.null())?,
            "native_finish_reason" => seen.first(3).and_then(|()| cursor.null())?,
            "message" | "error" | "usage" => return None,
            _ => cursor.skip()?,
        }
        Some(())
    })?;
    Some((index, text?))
}

fn delta(cursor: &mut Cursor<'_>) -> Option<Range<usize>> {
    let (mut seen, mut text) = (Seen::default(), None);
    cursor.object(|cursor, name| {
        match name {
            "content" => {
                seen.first(0)?;
                text = Some(cursor.place()?);
            }
            "refusal" => seen.first(1).and_then(|()| cursor.null())?,
            "reasoning_content" => seen.first(2).and_then(|()| cursor.null())?,
            "reasoning" => seen.first(3).and_then(|()| cursor.null())?,
            "tool_calls" => seen.first(4).and_then(|()| cursor.null())?,
            "function_call" => seen.first(5).and_then(|()| cursor.null())?,
            "reasoning_details" | "thinking_blocks" | "audio" | "annotations" | "images" => {
                return None;
            }
            _ => cursor.skip()?,
        }
        Some(())
    })?;
    text
}
