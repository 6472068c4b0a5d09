//! Masks credentials in JSON without parsing and rewriting it: all bytes outside the credentials stay as they were
//! posted.

use super::mask::{Masked, replace};
use super::read::{Text, backslashes};
use super::scan::scan;
use super::verdict::Found;

/// Masks the credentials in the strings of a JSON text; `None` if there are none.
///
/// `raw` is one JSON value. Its strings may themselves contain JSON, as arguments of tool calls often do, so
/// credentials that are escaped twice are found as well. The result is valid JSON. Adds what was masked to the counts
/// in `found`.
#[must_use]
pub fn mask_json(raw: &str, found: &mut Masked) -> Option<String> {
    // No shape extends over an unescaped quote, and none begins or ends within an escape, so the raw text can be
    // scanned.
    let (mut all, _) = scan(complete(raw.as_bytes()), 0);
    // Letters need no escapes such as `\u0073`, but such escapes can hide a credential. So a text that has them is
    // scanned a second time, with these escapes resolved.
    if let Some(unescaped) = Unescaped::of(raw) {
        let (more, _) = scan(complete(unescaped.text.as_bytes()), 0);
        all.extend(more.into_iter().map(|f| Found {
            start: unescaped.raw(f.start),
            end: unescaped.raw(f.end),
            ..f
        }));
        join(&mut all);
    }
    replace(raw, &all, found)
}

const fn complete(bytes: &[u8]) -> Text<'_> {
    Text {
        bytes,
        complete: true,
    }
}

/// Sorts the finds, and merges those that overlap into one with the shape of the first.
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

/// A JSON text in which escapes of letters, digits, `_`, `-`, `.`, `:` and `@` are resolved.
struct Unescaped {
    text: String,
    /// Pairs of positions, in this text and in the raw text. From each pair to the next, either both texts are equal,
    /// or the raw text has an escape of one character.
    stretches: Vec<(usize, usize)>,
}

impl Unescaped {
    /// Resolves the escapes in `raw`; `None` if it has no such escape.
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

    /// The position in the raw text that corresponds to the position `at` in this text.
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

/// The position of the first backslash of the escape whose `u00XX` is at `hit`, and the character that it encodes.
/// `None` if this is no escape, or if [`Unescaped`] does not resolve escapes of that character.
fn escaped_letter(raw: &[u8], hit: usize) -> Option<(usize, char)> {
    let before = raw[..hit].iter().rev().take_while(|b| **b == b'\\').count();
    // Each level of JSON in JSON doubles the backslashes. So the `u` is escaped only after a number of backslashes that
    // is a power of two.
    if before == 0 || !before.is_power_of_two() {
        return None;
    }
    let digits = std::str::from_utf8(raw.get(hit + 3..hit + 5)?).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    let letter = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'@');
    debug_assert!(backslashes(&raw[hit - before..]) == before);
    letter.then(|| (hit - before, char::from(byte)))
}
