//! Writes JSON into one string without parsing: tokens are copied, plain text is escaped.

use filrouge_types::JsonText;

/// Appends `plain` as the content of a JSON string, without quotes.
pub(crate) fn push_escaped(out: &mut String, plain: &str) {
    out.push_str(JsonText::from_plain(plain).inner());
}

/// Appends `plain` as a JSON string.
pub(crate) fn push_string(out: &mut String, plain: &str) {
    out.push_str(JsonText::from_plain(plain).as_token());
}

/// Appends a member of an object, whose value is the JSON `value`.
pub(crate) fn push_member(out: &mut String, name: &str, value: &str) {
    push_comma(out);
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
    out.push_str(value);
}

/// Appends a member of an object, whose value is the string `plain`.
pub(crate) fn push_text_member(out: &mut String, name: &str, plain: &str) {
    push_member(out, name, JsonText::from_plain(plain).as_token());
}

/// Appends the comma before an element, unless it is the first of its array or object.
pub(crate) fn push_comma(out: &mut String) {
    if !out.ends_with(['[', '{']) {
        out.push(',');
    }
}

/// Trims trailing white space, raw or escaped, from `inner`, the content of a JSON string.
pub(crate) fn trim_end(inner: &str) -> &str {
    let mut kept = inner;
    loop {
        kept = kept.trim_end_matches(is_space);
        match trailing_space_escape(kept) {
            Some(length) => kept = &kept[..kept.len() - length],
            None => return kept,
        }
    }
}

/// Whether a character is white space in Unicode or in Python, in which some providers' servers are written: Python
/// includes the four separators of ASCII (U+001C to U+001F).
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// The length of the escape at the end of `inner`, if its character is white space.
fn trailing_space_escape(inner: &str) -> Option<usize> {
    let bytes = inner.as_bytes();
    let length = match bytes {
        [.., b'\\', b'n' | b'r' | b't' | b'f'] => 2,
        [.., b'\\', b'u', _, _, _, _] => {
            let digits = inner.get(inner.len() - 4..)?;
            let unit = u32::from_str_radix(digits, 16).ok()?;
            if !char::from_u32(unit).is_some_and(is_space) {
                return None;
            }
            6
        }
        _ => return None,
    };
    let before = &bytes[..bytes.len() - length];
    let escaped = before.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1;
    (!escaped).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_escaped_as_json_requires() {
        let characters: String = (0..=0x7f)
            .map(char::from)
            .chain("é\u{2028}🧵".chars())
            .collect();
        let mut out = String::new();
        push_string(&mut out, &characters);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), characters);
    }

    #[test]
    fn white_space_is_trimmed_however_it_is_spelled() {
        let cases = [
            ("a  ", "a"),
            (r"a\n\r\t\f ", "a"),
            (r"a\u0020\u000A\u00a0", "a"),
            ("a\u{a0}\u{3000}\u{2029}", "a"),
            (r"a\\n", r"a\\n"),
            (r"a\\\n", r"a\\"),
            (r"a\\u0020", r"a\\u0020"),
            (r"a\\\\\u0020", r"a\\\\"),
            (r"a\u0041", r"a\u0041"),
            (r"a\u001d", "a"),
            ("aé", "aé"),
            ("éu000", "éu000"),
            (r"\n", ""),
            ("", ""),
        ];
        for (inner, expected) in cases {
            assert_eq!(trim_end(inner), expected, "{inner}");
        }
    }
}
