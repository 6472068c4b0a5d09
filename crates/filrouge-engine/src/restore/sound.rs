//! JSON text that every reader takes: Unicode has no place for lone surrogates, though JSON escapes can spell them.

use std::borrow::Cow;

use filrouge_types::{JsonText, RawJson, sound_json};

/// Whether there are lone surrogates in `json`.
pub(super) fn has_lone_surrogates(json: &str) -> bool {
    matches!(sound_json(json), Cow::Owned(_))
}

/// Whether nothing is said: no character but white space.
pub(super) fn is_blank(text: &JsonText) -> bool {
    is_blank_token(text.as_token())
}

/// As [`is_blank`], of a JSON string as it is written.
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

/// Deepest nesting of a value that is put into a message: what stands around it there counts as well.
const MAX_DEPTH: usize = filrouge_types::MAX_NESTING - 16;

/// Whether every reader can take a JSON value: it is not too deep, and no number of it is beyond a double's range.
pub(super) fn is_tame(json: &str) -> bool {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut digits = 0;
    let (mut quoted, mut escaped, mut long) = (false, false, false);
    for byte in json.bytes() {
        if quoted {
            (quoted, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            // An exponent of its own, or as many digits as one would stand for.
            b'0'..=b'9' => digits += 1,
            b'e' | b'E' if digits > 0 => long = true,
            _ => {}
        }
        if !byte.is_ascii_digit() {
            digits = 0;
        }
        long |= digits > 300;
    }
    deepest <= MAX_DEPTH && (!long || serde_json::from_str::<serde_json::Value>(json).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_is_white_space_however_it_is_spelled() {
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
    fn what_some_readers_refuse_is_not_tame() {
        for json in [
            "1e308",
            "-2.5E-400",
            "{\"a\":[1,\"1e999\",\"\\\"\",2]}",
            "true",
            "[]",
        ] {
            assert!(is_tame(json), "{json}");
        }
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(is_tame(&deep(MAX_DEPTH)) && !is_tame(&deep(MAX_DEPTH + 1)));
        let digits = "9".repeat(400);
        for json in ["1e999", "{\"a\\\\\":-1E+400}", &digits] {
            assert!(!is_tame(json), "{json}");
        }
    }
}
