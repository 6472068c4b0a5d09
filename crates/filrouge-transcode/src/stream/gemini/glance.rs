//! A quick look at a part of a response: most bring a piece of text, and count tokens.

use std::ops::Range;

use filrouge_engine::stream::Transcript;

use super::Gemini;
use super::candidate::Growing;
use crate::stream::cursor::{Cursor, Seen, inner};
use crate::stream::shape::Shape;

/// What the last response that brought only text had beside its text and its counts.
#[derive(Default)]
pub(super) struct Last {
    shape: Shape<2>,
    index: u32,
}

impl Gemini {
    /// Takes a part of a response that brings a piece of a text that has begun; `None` for any other.
    pub(super) fn glance(&mut self, data: &str, out: &mut Transcript) -> Option<bool> {
        let [text, usage] = match self.last.shape.fit(data) {
            Some(values) => values,
            None => {
                let (index, values) = self.look(data, out)?;
                self.last.shape.keep(data, &values);
                self.last.index = index;
                let [text, usage] = values;
                [data.get(text)?, data.get(usage)?]
            }
        };
        let text = inner(text).filter(|text| !text.is_empty())?;
        let candidate = self.candidates.get(&self.last.index)?;
        let Some(Growing::Said(said)) = candidate.growing else {
            return None;
        };
        if !matches!(usage, "" | "null") {
            out.usage(usage);
        }
        Some(out.push(said, text))
    }

    fn look(&self, data: &str, out: &Transcript) -> Option<(u32, [Range<usize>; 2])> {
        let (mut found, mut usage) = (None, 0..0);
        let (mut seen, mut cursor) = (Seen::default(), Cursor::new(data));
        cursor.object(|cursor, name| {
            match name {
                "candidates" => {
                    seen.first(0)?;
                    cursor.array(|cursor| {
                        // Another one would be looked at thoroughly.
                        let told = candidate(cursor)?;
                        found.replace(told).is_none().then_some(())
                    })?;
                }
                "usageMetadata" => {
                    seen.first(1)?;
                    usage = cursor.place()?;
                }
                "modelVersion" if out.model_name().is_some() => {
                    seen.first(2).and_then(|()| cursor.skip())?;
                }
                "responseId" if !self.calls.response.is_empty() => {
                    seen.first(3).and_then(|()| cursor.skip())?;
                }
                "modelVersion" | "responseId" | "promptFeedback" | "error" => return None,
                _ => cursor.skip()?,
            }
            Some(())
        })?;
        cursor.end()?;
        let (index, text) = found?;
        Some((u32::try_from(index).ok()?, [text, usage]))
    }
}

/// Which candidate it is, and where its text stands.
fn candidate(cursor: &mut Cursor<'_>) -> Option<(u64, Range<usize>)> {
    let (mut seen, mut index, mut text) = (Seen::default(), 0, None);
    cursor.object(|cursor, name| {
        match name {
            "index" => {
                seen.first(0)?;
                index = cursor.number()?;
            }
            "content" => {
                seen.first(1)?;
                text = Some(content(cursor)?);
            }
            "finishReason" | "finishMessage" | "citationMetadata" | "groundingMetadata"
            | "urlContextMetadata" => return None,
            _ => cursor.skip()?,
        }
        Some(())
    })?;
    Some((index, text?))
}

fn content(cursor: &mut Cursor<'_>) -> Option<Range<usize>> {
    let (mut seen, mut text) = (Seen::default(), None);
    cursor.object(|cursor, name| match name {
        "parts" => {
            seen.first(0)?;
            cursor.array(|cursor| text.replace(part(cursor)?).is_none().then_some(()))
        }
        _ => cursor.skip(),
    })?;
    text
}

fn part(cursor: &mut Cursor<'_>) -> Option<Range<usize>> {
    let mut text = None;
    cursor.object(|cursor, name| match name {
        "text" => text.replace(cursor.place()?).is_none().then_some(()),
        // Whatever else there is tells what part it is.
        _ => None,
    })?;
    text
}
