//! Pieces that messages and tool calls of `session_message` have in common.

use crate::object::{Object, Writer};

/// The times of 1.x: for each name in `names`, the value of the first of its keys that is present.
pub(super) fn times(time: &Object<'_>, names: &[(&str, &[&str])]) -> Writer {
    let mut out = Writer::default();
    for (name, keys) in names {
        if let Some(raw) = keys.iter().find_map(|key| time.get(key)) {
            out.raw(name, raw);
        }
    }
    out
}

/// Converts an attached file.
pub(super) fn file(one: &Object<'_>) -> Writer {
    let mut part = Writer::part("file");
    for (key, raw) in [
        ("mime", one.token("mime")),
        (
            "filename",
            one.token("name").or_else(|| one.token("filename")),
        ),
        ("url", one.token("uri").or_else(|| one.token("url"))),
        ("source", one.get("source")),
    ] {
        if let Some(raw) = raw {
            part.raw(key, raw);
        }
    }
    part.nested(
        "metadata",
        one.without(&[
            "type", "mime", "name", "filename", "uri", "url", "source", "data",
        ]),
    );
    part
}
