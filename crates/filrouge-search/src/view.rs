//! A view of a JSON text, in which the escapes of strings are resolved and everything else is as written.
//!
//! The arguments of a tool call are JSON. A search for a quotation mark or a line feed means the value of an argument;
//! a search for the name of an argument means the JSON text. The view contains both, and each position in the view maps
//! to a position in the text as written.

/// A JSON text with its escapes resolved.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) text: String,
    /// The start of each segment after the first escape, in the view and in the text as written. The segments are
    /// alternately an escape and a text without escapes.
    segments: Vec<(usize, usize)>,
}

impl View {
    /// Returns the view of a text; `None` if the text does not begin like JSON, or has no escapes.
    pub(crate) fn of(raw: &str) -> Option<Self> {
        let mut slash = memchr::memchr(b'\\', raw.as_bytes())?;
        if !raw.trim_start().starts_with(['{', '[', '"']) {
            return None;
        }
        let mut view = Self {
            text: String::with_capacity(raw.len()),
            segments: Vec::new(),
        };
        let mut at = 0;
        loop {
            let (c, len) = escaped(raw.get(slash..)?);
            view.text.push_str(raw.get(at..slash)?);
            view.segments.push((view.text.len(), slash));
            view.text.push(c);
            at = slash + len;
            view.segments.push((view.text.len(), at));
            let rest = raw.get(at..)?;
            match memchr::memchr(b'\\', rest.as_bytes()) {
                Some(more) => slash = at + more,
                None => {
                    view.text.push_str(rest);
                    return Some(view);
                }
            }
        }
    }

    /// Maps a position in the view to the position in the text as written.
    pub(crate) fn written_position(&self, at: usize) -> usize {
        let n = self.segments.partition_point(|(here, _)| *here <= at);
        match n.checked_sub(1).and_then(|n| self.segments.get(n)) {
            Some((here, there)) => there + (at - here),
            None => at,
        }
    }

    /// Maps a position in the text as written to the position in the view. A position within an escape maps to the
    /// start of the escape.
    pub(crate) fn view_position(&self, written: usize) -> usize {
        let n = self
            .segments
            .partition_point(|(_, there)| *there <= written);
        match n.checked_sub(1).and_then(|n| self.segments.get(n)) {
            // Every other segment is an escape: one character of the view.
            Some((here, there)) if n % 2 == 0 => here + (written - there),
            Some((here, _)) => *here,
            None => written,
        }
    }
}

/// Returns the character for which the escape at the beginning of a text stands, and the length of the escape in bytes.
/// In an invalid escape, only the backslash counts, and stands for itself.
fn escaped(text: &str) -> (char, usize) {
    let bytes = text.as_bytes();
    match bytes.get(1) {
        Some(c @ (b'"' | b'\\' | b'/')) => (char::from(*c), 2),
        Some(b'n') => ('\n', 2),
        Some(b't') => ('\t', 2),
        Some(b'r') => ('\r', 2),
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'u') => spelled(text).unwrap_or(('\\', 1)),
        _ => ('\\', 1),
    }
}

/// Decodes the `\uXXXX`, or the surrogate pair of two, at the beginning of a text.
fn spelled(text: &str) -> Option<(char, usize)> {
    let first = unit(text)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 6));
    }
    let second = text.get(6..).and_then(unit);
    let pair = match (first, second) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00))
        }
        _ => None,
    };
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, 6), |c| (c, 12)))
}

/// Returns the number in the `\uXXXX` at the beginning of a text.
fn unit(text: &str) -> Option<u32> {
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
        let view = View::of(raw).unwrap();
        assert_eq!(
            view.text,
            "{\"a\":\"say \"hi\"\né😀 \u{fffd} \\q\",\"b\":\"C:\\x/y\"}"
        );
        for word in ["hi", "q", "C:", "y", "b"] {
            let (here, there) = (view.text.rfind(word).unwrap(), raw.rfind(word).unwrap());
            assert_eq!(
                (view.written_position(here), view.view_position(there)),
                (there, here),
                "{word}"
            );
        }
        let smile = view.text.find('😀').unwrap();
        assert_eq!(
            raw.get(view.written_position(smile)..)
                .map(|t| t.starts_with("\\ud83d")),
            Some(true)
        );
        assert_eq!(view.view_position(view.written_position(smile) + 3), smile);
        assert!(View::of(r#"{"a":"b"}"#).is_none());
        assert!(View::of(r"echo \n").is_none());
    }
}
