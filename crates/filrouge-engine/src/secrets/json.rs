//! Masking in JSON as it was posted: bytes that are not masked stay as they are.

use super::mask::{Masked, replace};
use super::read::{Text, backslashes};
use super::scan::scan;
use super::verdict::Found;

/// Masks the credentials in the strings of a JSON text; `None` when it has none.
///
/// `raw` is one JSON value, such as a string token. A string may itself hold JSON, as the arguments of tools often do:
/// what is escaped twice is found as well. The result is JSON again.
#[must_use]
pub fn mask_json(raw: &str, found: &mut Masked) -> Option<String> {
    // No shape goes over an unescaped quote, and none begins or ends within an escape: the text can be read as it is.
    let (mut all, _) = scan(whole(raw.as_bytes()), 0);
    // Letters are never escaped but by somebody who wants to hide them.
    if let Some(spelled) = Spelled::of(raw) {
        let (more, _) = scan(whole(spelled.text.as_bytes()), 0);
        all.extend(more.into_iter().map(|f| Found {
            start: spelled.raw(f.start),
            end: spelled.raw(f.end),
            ..f
        }));
        join(&mut all);
    }
    replace(raw, &all, found)
}

const fn whole(bytes: &[u8]) -> Text<'_> {
    Text { bytes, whole: true }
}

/// Makes one of those that overlap.
fn join(all: &mut Vec<Found>) {
    all.sort_by_key(|f| f.start);
    let mut joined: Vec<Found> = Vec::with_capacity(all.len());
    for found in all.drain(..) {
        match joined.last_mut() {
            Some(last) if found.start < last.end => last.end = last.end.max(found.end),
            _ => joined.push(found),
        }
    }
    *all = joined;
}

/// A JSON text in which escaped letters, digits, `_` and `-` stand as themselves.
struct Spelled {
    text: String,
    /// Where a stretch that is spelled alike begins, here and in the raw text.
    stretches: Vec<(usize, usize)>,
}

impl Spelled {
    /// `None` when nothing is escaped so.
    fn of(raw: &str) -> Option<Self> {
        let (mut text, mut stretches, mut at) = (String::new(), Vec::new(), 0);
        for hit in memchr::memmem::find_iter(raw.as_bytes(), b"u00") {
            let Some((slash, letter)) = escaped_letter(raw.as_bytes(), hit) else {
                continue;
            };
            text.push_str(raw.get(at..slash)?);
            stretches.push((text.len(), slash));
            text.push(letter);
            at = hit + 5;
            stretches.push((text.len(), at));
        }
        if stretches.is_empty() {
            return None;
        }
        text.push_str(raw.get(at..)?);
        Some(Self { text, stretches })
    }

    /// The place in the raw text.
    fn raw(&self, at: usize) -> usize {
        match self.stretches.partition_point(|(here, _)| *here <= at) {
            0 => at,
            n => {
                let (here, there) = self.stretches[n - 1];
                there + (at - here)
            }
        }
    }
}

/// The letter that `u00XX` at `hit` stands for, and where its backslashes begin.
fn escaped_letter(raw: &[u8], hit: usize) -> Option<(usize, char)> {
    let before = raw[..hit].iter().rev().take_while(|b| **b == b'\\').count();
    // Of an even number none is left for the `u`, unless it is JSON in JSON.
    if before == 0 || !before.is_power_of_two() {
        return None;
    }
    let digits = std::str::from_utf8(raw.get(hit + 3..hit + 5)?).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    let letter = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'@');
    debug_assert!(backslashes(&raw[hit - before..]) == before);
    letter.then(|| (hit - before, char::from(byte)))
}
