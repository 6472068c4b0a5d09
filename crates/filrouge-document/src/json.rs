//! Decodes JSON without loss, and formats it with line breaks.

use serde_json::value::RawValue;

use crate::data::{replace_data_in_json, replace_data_in_string_value};

/// The text of a JSON string; `None` for any other value.
pub(crate) fn decode_string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Breaks JSON into indented lines. Long base64 and `data:` addresses are replaced by their size; names, numbers and
/// escapes are unchanged.
pub(crate) fn pretty(json: &str) -> String {
    let json = &*replace_data_in_json(json);
    let mut out = String::with_capacity(json.len() + json.len() / 4);
    let mut depth = 0_usize;
    let mut rest = json;
    while let Some(at) =
        rest.find(|c: char| matches!(c, '"' | '[' | '{' | ']' | '}' | ',' | ':') || is_space(c))
    {
        let (before, remaining) = rest.split_at(at);
        out.push_str(before);
        let (symbol, after) = remaining.split_at(1);
        rest = after;
        match symbol {
            "\"" => {
                let (token, after) = remaining.split_at(token_length(remaining));
                out.push_str(token);
                rest = after;
            }
            "[" | "{" => {
                out.push_str(symbol);
                let inner = rest.trim_start_matches(is_space);
                if let Some(after) = inner.strip_prefix(if symbol == "[" { ']' } else { '}' }) {
                    out.push_str(if symbol == "[" { "]" } else { "}" });
                    rest = after;
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            "]" | "}" => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push_str(symbol);
            }
            "," => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ":" => out.push_str(": "),
            _ => {}
        }
    }
    out.push_str(rest);
    out
}

/// The arguments of a tool call in readable form. Some providers write them as a string that contains JSON.
pub(crate) fn format_arguments(json: &str) -> String {
    match decode_string(json) {
        Some(inner) if serde_json::from_str::<&RawValue>(&inner).is_ok() => pretty(inner.trim()),
        Some(inner) => replace_data_in_string_value(&inner).into_owned(),
        None => pretty(json),
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// The length of the string token that `text` begins with, quotes included.
pub(crate) fn token_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use filrouge_types::Members;

    use super::*;

    #[test]
    fn pretty_changes_only_white_space() {
        assert_eq!(
            pretty(r#"{"b":1.0,"a": [1e400,{},[ ]],"c":"x, [\"\\"}"#),
            "{\n  \"b\": 1.0,\n  \"a\": [\n    1e400,\n    {},\n    []\n  ],\n  \"c\": \"x, [\\\"\\\\\"\n}"
        );
        assert_eq!(format_arguments(r#""{\"a\":1}""#), "{\n  \"a\": 1\n}");
        assert_eq!(format_arguments(r#""ls -l""#), "ls -l");
        assert_eq!(pretty("\"torn"), "\"torn");
        assert_eq!(pretty("]]"), "\n]\n]");
    }

    #[test]
    fn members_keep_their_order_and_duplicates() {
        let members = Members::parse(r#"{"b":1,"a":{},"b":1e999}"#).unwrap();
        let expected = [(r#""b""#, "1"), (r#""a""#, "{}"), (r#""b""#, "1e999")];
        assert_eq!(members.0, expected);
        assert!(Members::parse("[1]").is_none());
    }
}
