//! Checks whether every reader accepts a JSON text. Some readers reject lone surrogates: JSON escapes can spell them,
//! but they are not valid Unicode.

use std::borrow::Cow;

use filrouge_types::{JsonText, RawJson, replace_lone_surrogates};

/// Whether `json` contains escapes of lone surrogates.
pub(super) fn has_lone_surrogates(json: &str) -> bool {
    matches!(replace_lone_surrogates(json), Cow::Owned(_))
}

/// Whether a text has no character except white space.
pub(super) fn is_blank(text: &JsonText) -> bool {
    is_blank_token(text.as_token())
}

/// Like [`is_blank`], for a JSON string token.
pub(super) fn is_blank_token(token: &str) -> bool {
    let inner = token.trim_matches('"');
    match inner.bytes().find(|b| *b != b' ') {
        None => true,
        Some(b) if b.is_ascii_graphic() && b != b'\\' => false,
        Some(_) => {
            let text = JsonText::from_raw(RawJson::from_checked(token));
            text.is_ok_and(|text| text.to_plain().trim().is_empty())
        }
    }
}

/// The maximum nesting of a value that is inserted into a message; the message itself may add up to 16 levels.
const MAX_DEPTH: usize = filrouge_types::MAX_NESTING - 16;

/// Whether every reader accepts a JSON value: it is not nested too deep, and no number exceeds the range of a double.
pub(super) fn is_portable(json: &str) -> bool {
    let (mut depth, mut max_depth) = (0_usize, 0);
    let mut digits = 0;
    let (mut in_string, mut escaped, mut may_overflow) = (false, false, false);
    for byte in json.bytes() {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                max_depth = max_depth.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            // A number exceeds the range only if it has an exponent or more than 300 digits: the largest double is
            // about
            // 1.8e308.
            b'0'..=b'9' => digits += 1,
            b'e' | b'E' if digits > 0 => may_overflow = true,
            _ => {}
        }
        if !byte.is_ascii_digit() {
            digits = 0;
        }
        may_overflow |= digits > 300;
    }
    max_depth <= MAX_DEPTH
        && (!may_overflow || serde_json::from_str::<serde_json::Value>(json).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_blank_in_every_spelling() {
        let blank = |plain: &str| is_blank(&serde_json::from_str(plain).unwrap());
        for text in [
            r#""""#,
            r#""  ""#,
            r#""\n\t \u0020""#,
            "\"\u{a0}\u{2003}\"",
            r#""\u00a0""#,
        ] {
            assert!(blank(text), "{text}");
        }
        for text in [r#"" x""#, r#""\\""#, r#""\u0041""#, "\"é\"", r#""\ufffd""#] {
            assert!(!blank(text), "{text}");
        }
    }

    #[test]
    fn a_value_that_some_readers_reject_is_not_portable() {
        for json in [
            "1e308",
            "-2.5E-400",
            "{\"a\":[1,\"1e999\",\"\\\"\",2]}",
            "true",
            "[]",
        ] {
            assert!(is_portable(json), "{json}");
        }
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(is_portable(&deep(MAX_DEPTH)) && !is_portable(&deep(MAX_DEPTH + 1)));
        let digits = "9".repeat(400);
        for json in ["1e999", "{\"a\\\\\":-1E+400}", &digits] {
            assert!(!is_portable(json), "{json}");
        }
    }
}
