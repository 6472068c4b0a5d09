//! Most events are read at a glance, and any other by serde: both say the same.

use filrouge_transcode::StreamFormat;

use crate::streams::{recorded, streams};

/// A member that nobody knows. No glance reads a name with escapes: such an event is left to serde.
const MEMBER: &str = r#""\u0078y":0"#;

/// JSON with the member at the beginning of each object that is in no other.
fn with_member(json: &str) -> String {
    let mut out = String::with_capacity(2 * json.len());
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    for (at, character) in json.char_indices() {
        out.push(character);
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            '}' if !is_text => depth -= 1,
            '{' if !is_text => {
                if depth == 0 {
                    out.push_str(MEMBER);
                    let is_empty = json[at + 1..].trim_start().starts_with('}');
                    out.push_str(if is_empty { "" } else { "," });
                }
                depth += 1;
            }
            _ => {}
        }
    }
    out
}

/// A stream whose every event has the member. In server-sent events no string goes on in the next line.
fn with_members(stream: &str) -> String {
    if stream.trim_start().starts_with(['{', '[']) {
        return with_member(stream);
    }
    let lines = stream.split_inclusive(['\r', '\n']);
    lines
        .map(|line| match line.strip_prefix("data:") {
            Some(data) => format!("data:{}", with_member(data)),
            None => line.to_owned(),
        })
        .collect()
}

/// What is recorded, without the member where an object is kept as it came.
fn without_members(record: &str) -> String {
    let first = format!("{MEMBER},");
    record.replace(&first, "").replace(MEMBER, "")
}

#[test]
fn what_is_read_at_a_glance_says_what_serde_reads() {
    for format in StreamFormat::ALL {
        for stream in streams(format) {
            let text = std::str::from_utf8(&stream.bytes).unwrap();
            let padded = with_members(text);
            assert_eq!(
                padded.contains(MEMBER),
                text.contains('{'),
                "{}",
                stream.name
            );
            let read = recorded(format, [padded.as_bytes()]);
            let glanced = recorded(format, [text.as_bytes()]);
            assert!(!glanced.contains(MEMBER), "{format} {}", stream.name);
            assert_eq!(without_members(&read), glanced, "{format} {}", stream.name);
        }
    }
}
