//! A JSON text in which the escapes of strings are resolved. Everything else is unchanged.
//!
//! The arguments of a tool call are JSON. A search for a quotation mark or a line feed means the value of an argument;
//! a search for the name of an argument means the JSON text. The unescaped text contains both. Each of its positions
//! maps to a position in the text as written.

/// A JSON text with its escapes resolved.
#[derive(Debug)]
pub(crate) struct UnescapedJson {
    pub(crate) text: String,
    /// The start of each segment after the first escape, in the unescaped text and in the text as written. The segments
    /// are alternately an escape and a text without escapes.
    segments: Vec<(usize, usize)>,
}

impl UnescapedJson {
    /// Resolves the escapes of a text; returns `None` if the text does not begin like JSON, or has no escapes.
    pub(crate) fn new(raw: &str) -> Option<Self> {
        let mut slash = memchr::memchr(b'\\', raw.as_bytes())?;
        if !raw.trim_start().starts_with(['{', '[', '"']) {
            return None;
        }
        let mut unescaped = Self {
            text: String::with_capacity(raw.len()),
            segments: Vec::new(),
        };
        let mut at = 0;
        loop {
            let (c, len) = decode_escape(raw.get(slash..)?);
            unescaped.text.push_str(raw.get(at..slash)?);
            unescaped.segments.push((unescaped.text.len(), slash));
            unescaped.text.push(c);
            at = slash + len;
            unescaped.segments.push((unescaped.text.len(), at));
            let rest = raw.get(at..)?;
            match memchr::memchr(b'\\', rest.as_bytes()) {
                Some(more) => slash = at + more,
                None => {
                    unescaped.text.push_str(rest);
                    return Some(unescaped);
                }
            }
        }
    }

    /// Maps a position in the unescaped text to the position in the text as written.
    pub(crate) fn written_position(&self, at: usize) -> usize {
        let n = self
            .segments
            .partition_point(|(unescaped_start, _)| *unescaped_start <= at);
        match n.checked_sub(1).and_then(|n| self.segments.get(n)) {
            Some((unescaped_start, written_start)) => written_start + (at - unescaped_start),
            None => at,
        }
    }

    /// Maps a position in the text as written to the position in the unescaped text. A position within an escape maps
    /// to the start of the escape.
    pub(crate) fn unescaped_position(&self, written: usize) -> usize {
        let n = self
            .segments
            .partition_point(|(_, written_start)| *written_start <= written);
        match n.checked_sub(1).and_then(|n| self.segments.get(n)) {
            // Every other segment is an escape: one character of the unescaped text.
            Some((unescaped_start, written_start)) if n % 2 == 0 => {
                unescaped_start + (written - written_start)
            }
            Some((unescaped_start, _)) => *unescaped_start,
            None => written,
        }
    }
}

/// Decodes the escape at the beginning of a text; returns its character and its length in bytes. An invalid escape
/// counts as a single backslash.
fn decode_escape(text: &str) -> (char, usize) {
    let bytes = text.as_bytes();
    match bytes.get(1) {
        Some(c @ (b'"' | b'\\' | b'/')) => (char::from(*c), 2),
        Some(b'n') => ('\n', 2),
        Some(b't') => ('\t', 2),
        Some(b'r') => ('\r', 2),
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'u') => decode_unicode_escape(text).unwrap_or(('\\', 1)),
        _ => ('\\', 1),
    }
}

/// Decodes the `\uXXXX`, or the surrogate pair of two, at the beginning of a text.
fn decode_unicode_escape(text: &str) -> Option<(char, usize)> {
    let first = utf16_unit(text)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 6));
    }
    let second = text.get(6..).and_then(utf16_unit);
    let pair = match (first, second) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00))
        }
        _ => None,
    };
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, 6), |c| (c, 12)))
}

/// Returns the number in the `\uXXXX` at the beginning of a text.
fn utf16_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let digit = |code: u32, c: char| Some(code * 16 + c.to_digit(16)?);
    digits.chars().try_fold(0, digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_and_positions_mapped() {
        let raw = r#"{"a":"say \"hi\"\n\u00e9\ud83d\ude00 \ud800 \q","b":"C:\\x\/y"}"#;
        let unescaped = UnescapedJson::new(raw).unwrap();
        assert_eq!(
            unescaped.text,
            "{\"a\":\"say \"hi\"\né😀 \u{fffd} \\q\",\"b\":\"C:\\x/y\"}"
        );
        for word in ["hi", "q", "C:", "y", "b"] {
            let (unescaped_start, written_start) = (
                unescaped.text.rfind(word).unwrap(),
                raw.rfind(word).unwrap(),
            );
            assert_eq!(
                (
                    unescaped.written_position(unescaped_start),
                    unescaped.unescaped_position(written_start)
                ),
                (written_start, unescaped_start),
                "{word}"
            );
        }
        let smile = unescaped.text.find('😀').unwrap();
        assert_eq!(
            raw.get(unescaped.written_position(smile)..)
                .map(|t| t.starts_with("\\ud83d")),
            Some(true)
        );
        assert_eq!(
            unescaped.unescaped_position(unescaped.written_position(smile) + 3),
            smile
        );
        assert!(UnescapedJson::new(r#"{"a":"b"}"#).is_none());
        assert!(UnescapedJson::new(r"echo \n").is_none());
    }
}
