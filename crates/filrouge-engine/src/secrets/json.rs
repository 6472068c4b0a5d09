//! Masks credentials in JSON without parsing and rewriting it: all bytes outside the credentials stay unchanged.

use super::mask::{Masked, replace};
use super::read::backslashes;
use super::scan::scan_complete;
use super::verdict::CredentialMatch;

/// Masks the credentials in the strings of a JSON text; `None` if there are none.
///
/// `raw` is one JSON value. Its strings may themselves contain JSON, as arguments of tool calls often do, so
/// credentials that are escaped twice are recognized as well. The result is valid JSON. The masked credentials are
/// added to `counts`.
pub fn mask_json(raw: &str, counts: &mut Masked) -> Option<String> {
    // No shape extends over an unescaped quote, and none begins or ends within an escape, so the raw text can be
    // scanned.
    let mut matches = scan_complete(raw);
    // An escape of a letter, such as `\u0073`, is never needed, but can hide a credential. So a text with such escapes
    // is scanned a second time, with these escapes resolved.
    if let Some(unescaped) = Unescaped::resolve(raw) {
        let more = scan_complete(&unescaped.text).into_iter();
        matches.extend(more.map(|f| CredentialMatch {
            start: unescaped.raw_position(f.start),
            end: unescaped.raw_position(f.end),
            ..f
        }));
        merge_overlapping(&mut matches);
    }
    replace(raw, &matches, counts)
}

/// Sorts the matches, and merges those that overlap into one with the shape of the first.
fn merge_overlapping(matches: &mut Vec<CredentialMatch>) {
    matches.sort_by_key(|f| f.start);
    let mut merged: Vec<CredentialMatch> = Vec::with_capacity(matches.len());
    for next in matches.drain(..) {
        match merged.last_mut() {
            Some(last) if next.start < last.end => last.end = last.end.max(next.end),
            _ => merged.push(next),
        }
    }
    *matches = merged;
}

/// A JSON text in which escapes of letters, digits, `_`, `-`, `.`, `:` and `@` are resolved.
struct Unescaped {
    text: String,
    /// Pairs of positions, in this text and in the raw text. From each pair to the next, either both texts are equal,
    /// or the raw text has an escape of one character.
    offsets: Vec<(usize, usize)>,
}

impl Unescaped {
    /// Resolves the escapes in `raw`; `None` if it has no such escape.
    fn resolve(raw: &str) -> Option<Self> {
        let (mut text, mut offsets, mut at) = (String::new(), Vec::new(), 0);
        for hit in memchr::memmem::find_iter(raw.as_bytes(), b"u00") {
            let Some((slash, letter)) = escaped_letter(raw.as_bytes(), hit) else {
                continue;
            };
            text.push_str(raw.get(at..slash)?);
            offsets.push((text.len(), slash));
            text.push(letter);
            at = hit + 5;
            offsets.push((text.len(), at));
        }
        if offsets.is_empty() {
            return None;
        }
        text.push_str(raw.get(at..)?);
        Some(Self { text, offsets })
    }

    /// The position in the raw text that corresponds to the position `at` in this text.
    fn raw_position(&self, at: usize) -> usize {
        let count = self.offsets.partition_point(|(start, _)| *start <= at);
        let before = count.checked_sub(1).map(|index| self.offsets[index]);
        let (position, raw_position) = before.unwrap_or_default();
        raw_position + (at - position)
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
