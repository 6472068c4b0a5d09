//! Converts pieces that both messages and tool calls of `session_message` can contain.

use crate::object::{Object, Writer};

/// Converts times to the form of 1.x. `names` contains pairs of a new name and the keys that it replaces; the value is
/// that of the first key that is present.
pub(super) fn convert_times(time: &Object<'_>, names: &[(&str, &[&str])]) -> Writer {
    let mut out = Writer::default();
    for (name, keys) in names {
        out.optional_raw(name, keys.iter().find_map(|key| time.get(key)));
    }
    out
}

/// Converts the times of a piece that was created and completed.
pub(super) fn convert_span(time: &Object<'_>) -> Writer {
    convert_times(time, &[("start", &["created"]), ("end", &["completed"])])
}

/// Converts an attached file.
pub(super) fn convert_file(object: &Object<'_>) -> Writer {
    let mut part = Writer::part("file");
    for (key, raw) in [
        ("mime", object.token("mime")),
        (
            "filename",
            object.token("name").or_else(|| object.token("filename")),
        ),
        ("url", object.token("uri").or_else(|| object.token("url"))),
        ("source", object.get("source")),
    ] {
        part.optional_raw(key, raw);
    }
    part.nested(
        "metadata",
        object.without(&[
            "type", "mime", "name", "filename", "uri", "url", "source", "data",
        ]),
    );
    part
}
