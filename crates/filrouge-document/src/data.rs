//! Replaces data in texts and JSON by short placeholders with the type and the size of the data.
//!
//! In this module, *data* means base64 or a `data:` address of more than 200 characters.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{decode_string, token_length};
use crate::{url, words};

/// The maximum length, in characters, at which base64 and `data:` addresses are kept.
const MAX_DATA_CHARS: usize = 200;

/// The maximum length, in bytes, of a web address in which base64 is kept, such as a token in its query.
const MAX_ADDRESS_BYTES: usize = 2_048;

/// The minimum line length, in characters, of base64 that is wrapped over several lines.
const MIN_LINE_CHARS: usize = 40;

/// Names of JSON members, as written with their quotes. The text of such a member counts as base64 if it has only
/// base64 characters; it need not look encoded.
const DATA_MEMBER_NAMES: [&str; 7] = [
    "\"data\"",
    "\"file_data\"",
    "\"fileData\"",
    "\"b64_json\"",
    "\"base64\"",
    "\"bytes\"",
    "\"blob\"",
];

/// Replaces data in a text by placeholders.
pub(crate) fn replace_data(text: &str) -> Cow<'_, str> {
    replace(text, false)
}

/// Like [`replace_data`], but keeps pictures in a Markdown image or link, such as `![x](data:image/png;base64,…)`.
pub(crate) fn replace_data_except_pictures(text: &str) -> Cow<'_, str> {
    replace(text, true)
}

/// Replaces data in a decoded JSON string by placeholders; a string that contains JSON is treated as JSON.
pub(crate) fn replace_data_in_string_value(text: &str) -> Cow<'_, str> {
    replace_data_in_member(text, "")
}

/// Replaces data in the strings of JSON by placeholders; everything else is unchanged.
pub(crate) fn replace_data_in_json(json: &str) -> Cow<'_, str> {
    let (mut out, mut copied, mut at, mut name) = (String::new(), 0, 0, "");
    while let Some(offset) = json.get(at..).and_then(|rest| rest.find('"')) {
        let start = at + offset;
        at = start + token_length(&json[start..]);
        let token = &json[start..at];
        let is_name = json[at..].trim_start().starts_with(':');
        if token.len() > MAX_DATA_CHARS
            && let Some(text) = decode_string(token)
            && let Cow::Owned(shown) =
                replace_data_in_member(&text, if is_name { "" } else { name })
        {
            out.push_str(&json[copied..start]);
            out.push_str(&serde_json::Value::from(shown).to_string());
            copied = at;
        }
        name = if is_name { token } else { "" };
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// Replaces data in a decoded JSON string by placeholders. `name` is the name of the string's member, as written with
/// its quotes; it is empty if the string is not the value of a member.
fn replace_data_in_member<'a>(text: &'a str, name: &str) -> Cow<'a, str> {
    if text.len() <= MAX_DATA_CHARS {
        return Cow::Borrowed(text);
    }
    if address_end(text.as_bytes(), 0).is_some() && !text.contains([' ', '\n']) {
        return Cow::Owned(placeholder(text));
    }
    if is_base64(text.trim(), DATA_MEMBER_NAMES.contains(&name)) {
        return Cow::Owned(placeholder(text.trim()));
    }
    let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(text).is_ok();
    if is_json {
        replace_data_in_json(text)
    } else {
        replace_data(text)
    }
}

/// Whether an entire text is base64 of more than [`MAX_DATA_CHARS`] characters. If its member is in
/// [`DATA_MEMBER_NAMES`] (`is_named`), the text may have line breaks. Otherwise it must also look encoded.
fn is_base64(text: &str, is_named: bool) -> bool {
    let body = text.trim_end_matches('=');
    let (mut used, mut is_hex) = ([false; 256], true);
    for byte in body.bytes() {
        let is_line_break = is_named && matches!(byte, b'\n' | b'\r');
        if !is_base64_char(byte) && !is_line_break {
            return false;
        }
        used[usize::from(byte)] = true;
        is_hex &= byte.is_ascii_hexdigit();
    }
    // Hexadecimal digits, and a text of one or two different characters, do not look encoded.
    let distinct = used.iter().filter(|is_used| **is_used).count();
    text.len() > MAX_DATA_CHARS
        && text.len() - body.len() <= 2
        && (is_named
            || (text.len().is_multiple_of(4) && !is_hex && distinct > 2 && has_one_alphabet(body)))
}

/// Replaces data in a text by placeholders; `keep_pictures` exempts pictures in a Markdown image or link.
fn replace(text: &str, keep_pictures: bool) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while text.len() > MAX_DATA_CHARS && at < bytes.len() {
        if !is_base64_char(bytes[at]) {
            at += 1;
            continue;
        }
        let mut start = at;
        at = base64_end(bytes, start);
        // A colon is no base64 character: before the colon of a `data:` address, the run ends with the letters `data`.
        let scheme = at.checked_sub(4).filter(|scheme| *scheme >= start);
        let is_data = if let Some(scheme) = scheme
            && let Some(end) = address_end(bytes, scheme)
        {
            (start, at) = (scheme, end);
            !(keep_pictures && is_picture(text, start, at))
        } else {
            looks_encoded(&text[start..at]) && !is_in_web_address(bytes, start, at)
        };
        if is_data && at - start > MAX_DATA_CHARS {
            out.push_str(&text[copied..start]);
            out.push_str(&placeholder(&text[start..at]));
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The placeholder that replaces `data`: the media type, if `data` is an address that names one, and the length of the
/// encoded text (not of the decoded bytes).
fn placeholder(data: &str) -> String {
    let size = words::size(data.len());
    match url::media_type(data) {
        Some((kind, true)) if !kind.is_empty() => format!("({kind}, base64, {size})"),
        Some((kind, false)) if !kind.is_empty() => format!("({kind}, data address, {size})"),
        Some((_, false)) => format!("(data address, {size})"),
        _ => format!("(base64, {size})"),
    }
}

const fn is_base64_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let line = bytes[at..].iter().take_while(|b| is_base64_char(**b));
    at + line.count()
}

/// The end of the base64 that begins at `at`. It may be wrapped into lines of equal length; the final line may be
/// shorter.
fn base64_end(bytes: &[u8], at: usize) -> usize {
    let mut end = line_end(bytes, at);
    let width = end - at;
    let mut last_width = width;
    while width >= MIN_LINE_CHARS && last_width == width {
        let next = match &bytes[end..] {
            [b'\n', ..] => end + 1,
            [b'\r', b'\n', ..] => end + 2,
            _ => break,
        };
        let next_end = line_end(bytes, next);
        last_width = next_end - next;
        // A short final line must have padding: without it, the line may be a word.
        if last_width > width || (last_width < MIN_LINE_CHARS && bytes.get(next_end) != Some(&b'='))
        {
            break;
        }
        end = next_end;
    }
    let padding = bytes[end..].iter().take(2).take_while(|b| **b == b'=');
    end + padding.count()
}

/// The end of the `data:` address that begins at `at`; `None` if none begins there.
fn address_end(bytes: &[u8], at: usize) -> Option<usize> {
    let scheme = bytes.get(at..at + 5)?;
    if !scheme.eq_ignore_ascii_case(b"data:") {
        return None;
    }
    let head = bytes[at..].iter().take(MAX_DATA_CHARS);
    let comma = at + head.take_while(|b| **b != b',').count();
    let is_head_byte = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'(' | b')');
    // `data: see below, …` is a sentence: in an address, the text before the comma is empty or has a type or parameter.
    let is_typed = comma == at + 5 || bytes[at..comma].iter().any(|b| matches!(b, b'/' | b';'));
    if bytes.get(comma) != Some(&b',') || !is_typed || !bytes[at..comma].iter().all(is_head_byte) {
        return None;
    }
    let is_end = |b: &u8| {
        b.is_ascii_whitespace()
            || matches!(
                b,
                b'"' | b'\'' | b'`' | b'<' | b'>' | b'(' | b')' | b']' | b'\\'
            )
    };
    let rest = &bytes[comma + 1..];
    let length = rest.iter().position(is_end).unwrap_or(rest.len());
    Some(base64_end(bytes, comma + 1).max(comma + 1 + length))
}

fn has_one_alphabet(run: &str) -> bool {
    !(run.contains(['+', '/']) && run.contains(['-', '_']))
}

/// Whether a word is base64 rather than a long word, a path or a number.
fn looks_encoded(run: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| run.as_bytes().iter().any(kind);
    run.len() > MAX_DATA_CHARS
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && has_one_alphabet(run)
}

fn is_in_web_address(bytes: &[u8], start: usize, end: usize) -> bool {
    let before = &bytes[end.saturating_sub(MAX_ADDRESS_BYTES).min(start)..end];
    let before = &before[..before.len() - (end - start)];
    let word = before
        .iter()
        .rposition(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b'<' | b'('));
    let word = &before[word.map_or(0, |at| at + 1)..];
    let begins_with = |scheme: &[u8]| {
        word.get(..scheme.len())
            .is_some_and(|w| w.eq_ignore_ascii_case(scheme))
    };
    // Only the scheme and its colon are compared: `/` is a base64 character, so the run itself can contain the `//`.
    begins_with(b"https:") || begins_with(b"http:")
}

fn is_picture(text: &str, start: usize, end: usize) -> bool {
    let before = &text.as_bytes()[..start];
    (before.ends_with(b"](") || before.ends_with(b"](<"))
        && url::picture(&text[start..end]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base64 of `length` characters, with letters, digits and symbols.
    fn encoded(length: usize) -> String {
        "iVBORw0KGgo/".chars().cycle().take(length).collect()
    }

    #[test]
    fn data_in_texts_is_replaced_by_its_size() {
        let data = encoded(300_000);
        assert_eq!(
            replace_data(&format!("a {data}== b")),
            "a (base64, 300 kB) b"
        );
        assert_eq!(
            replace_data(&format!("![x](data:image/png;base64,{data})")),
            "![x]((image/png, base64, 300 kB))"
        );
        let svg = "%3Csvg".repeat(100);
        assert_eq!(
            replace_data(&format!("url('DATA:image/svg+xml,{svg}')")),
            "url('(image/svg+xml, data address, 619 bytes)')"
        );
        let lines = format!("{}\n", encoded(76)).repeat(5);
        assert_eq!(
            replace_data(&format!("$ base64 x\n{lines}$ ls")),
            "$ base64 x\n(base64, 384 bytes)\n$ ls"
        );
    }

    #[test]
    fn text_that_is_not_data_is_kept() {
        let paths: String = (0..20)
            .map(|n| format!("docs/Ada/Notes/{}/README{n}\n", "x".repeat(30 + n)))
            .collect();
        let kept = [
            "W".repeat(20_000),
            "deadbeef0123".repeat(100),
            "ACGT".repeat(100),
            encoded(200),
            paths,
            format!("https://example.org/?token={}", encoded(900)),
            format!("https://example.org/{}", encoded(900)),
            "data: see below, ".repeat(30),
        ];
        for text in kept {
            assert!(matches!(replace_data(&text), Cow::Borrowed(_)), "{text}");
        }
        assert!(replace_data(&format!("https://example.org/{}", encoded(9_000))).len() < 100);
    }

    #[test]
    fn pictures_are_kept_only_where_they_are_shown() {
        let picture = format!("data:image/png;base64,{}", encoded(400));
        let shown = format!("![x]({picture})");
        assert_eq!(replace_data_except_pictures(&shown), shown);
        assert_eq!(
            replace_data_except_pictures(&picture),
            "(image/png, base64, 422 bytes)"
        );
    }

    #[test]
    fn json_keeps_everything_but_the_data() {
        let plain = "A".repeat(400);
        let json = format!(
            r#"{{"data" : "{plain}","n":1e400,"x":["{}"],"y":"{plain}"}}"#,
            "QUJD".repeat(100)
        );
        assert_eq!(
            replace_data_in_json(&json),
            format!(
                r#"{{"data" : "(base64, 400 bytes)","n":1e400,"x":["(base64, 400 bytes)"],"y":"{plain}"}}"#
            )
        );
        let slashes = format!(r#"{{"a":"{}"}}"#, encoded(400).replace('/', "\\/"));
        assert_eq!(
            replace_data_in_json(&slashes),
            r#"{"a":"(base64, 400 bytes)"}"#
        );
        let inner = serde_json::Value::from(json.as_str()).to_string();
        assert!(!replace_data_in_json(&inner).contains("QUJDQUJD"));
        assert!(matches!(replace_data_in_json("\"torn"), Cow::Borrowed(_)));
    }
}
