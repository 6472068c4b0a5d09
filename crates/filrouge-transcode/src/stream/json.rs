//! Reads the members of events that a decoder needs, without copying values that it passes on.

use std::borrow::Cow;

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_types::{Channel, JsonText, MAX_NESTING, RawJson, Role, check_nesting};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The raw JSON of a member.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// Declares the members that a decoder reads from JSON objects, as structs that borrow from the event. A member is raw
/// JSON ([`Raw`]) unless a type follows it; `= "name"` is its name in the format, `| "name"` an alternative name.
macro_rules! members {
    (@kind) => { $crate::stream::json::Raw<'a> };
    (@kind $kind:ty) => { $kind };
    ($(
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$about:meta])* $member:ident $(= $spelled:literal)? $(| $alias:literal)? $(: $kind:ty)?),* $(,)?
        }
    )*) => {$(
        #[derive(serde::Deserialize)]
        $(#[$meta])*
        #[serde(bound(deserialize = "'de: 'a"))]
        pub(in crate::stream) struct $name<'a> {
            $(
                $(#[$about])*
                $(#[serde(rename = $spelled)])?
                $(#[serde(alias = $alias)])?
                pub(in crate::stream) $member: $crate::stream::json::members!(@kind $($kind)?),
            )*
        }
    )*};
}
pub(super) use members;

/// Reads the declared members of an event; `None` if its shape is wrong.
pub(super) fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Option<T> {
    serde_json::from_str(data).ok()
}

/// As [`read`], but `None` for anything but an object: serde would also accept a list.
pub(super) fn read_object<'a, T: Deserialize<'a>>(data: &'a str) -> Option<T> {
    data.starts_with('{').then(|| read(data)).flatten()
}

/// The content of a JSON string, still escaped; `None` for any other value or a missing one.
pub(super) fn string_content(raw: Raw<'_>) -> Option<&str> {
    let token = raw?.get();
    token.strip_prefix('"')?.strip_suffix('"')
}

/// As [`string_content`], but `None` for an empty string.
pub(super) fn nonempty_string(raw: Raw<'_>) -> Option<&str> {
    string_content(raw).filter(|text| !text.is_empty())
}

/// A JSON string with its quotes.
pub(super) fn string_token(raw: Raw<'_>) -> Option<&str> {
    raw.map(RawValue::get)
        .filter(|token| token.starts_with('"'))
}

/// As [`string_token`], but `None` for an empty string.
pub(super) fn nonempty_token(raw: Raw<'_>) -> Option<&str> {
    string_token(raw).filter(|token| *token != "\"\"")
}

/// A value that is present and not `null`.
pub(super) fn non_null(raw: Raw<'_>) -> Option<&str> {
    raw.map(RawValue::get).filter(|value| *value != "null")
}

/// Sets a member of a piece to a value, if the value is a JSON string.
pub(super) fn set_string(out: &mut Transcript, piece: PieceId, name: &'static str, raw: Raw<'_>) {
    if let Some(token) = string_token(raw) {
        out.set(piece, name, token);
    }
}

/// Sets a member of the response's metadata to a value, if the value is a JSON string.
pub(super) fn set_metadata_string(out: &mut Transcript, name: &'static str, raw: Raw<'_>) {
    if let Some(token) = string_token(raw) {
        out.set_metadata(name, token);
    }
}

/// Records the members of the response that are present.
pub(super) fn set_metadata<const N: usize>(
    members: [(&'static str, Raw<'_>); N],
    out: &mut Transcript,
) {
    for (name, raw) in members {
        if let Some(value) = non_null(raw) {
            out.set_metadata(name, &storable(value));
        }
    }
}

/// Records the result of a call as an item. `call_id` is a JSON string, `content` any JSON.
pub(super) fn add_result(out: &mut Transcript, call_id: &str, ok: bool, content: &str) {
    let parts =
        format!(r#"[{{"type":"tool_result","call_id":{call_id},"ok":{ok},"content":{content}}}]"#);
    out.add_item(Role::Tool, Channel::ToolResult, parts);
}

/// A JSON string with its escapes decoded; `None` for any other value.
pub(super) fn decoded_string(raw: Raw<'_>) -> Option<String> {
    let token = RawJson::from_checked(string_token(raw)?);
    Some(JsonText::from_raw(token).ok()?.to_plain())
}

/// A text, escaped as in a JSON string.
pub(super) fn escape_text(text: &str) -> String {
    JsonText::from_plain(text).inner().to_owned()
}

/// Opening brackets, one for each level of nesting that may enclose a stored value in an item.
const ENCLOSING: &str = "[[[[[[[[";

/// A JSON value for use in a part: unchanged, or, if it is nested too deep for the ledger, as a JSON string that
/// contains it.
pub(super) fn storable(raw: &str) -> String {
    let opening = memchr::memchr2_iter(b'[', b'{', raw.as_bytes());
    if opening.take(MAX_NESTING).count() + ENCLOSING.len() < MAX_NESTING {
        return raw.to_owned();
    }
    let mut copy = String::with_capacity(ENCLOSING.len() + raw.len());
    copy.push_str(ENCLOSING);
    copy.push_str(raw);
    if check_nesting(copy.as_bytes()).is_err() {
        return JsonText::from_plain(raw).as_token().to_owned();
    }
    copy.drain(..ENCLOSING.len());
    copy
}

/// A value as a part of an item: an object with a type, as the ledger requires; `None` for any other value.
pub(super) fn part(raw: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }

    let part = Some(storable(raw)).filter(|part| part.starts_with('{'))?;
    let is_typed = read::<Part<'_>>(&part).is_some_and(|part| !part.kind.is_empty());
    is_typed.then_some(part)
}

/// Whether two escaped texts decode to the same text.
pub(super) fn is_same_text(first: &str, second: &str) -> bool {
    let decode = |inner: &str| {
        let token = RawJson::from_checked(format!("\"{inner}\""));
        JsonText::from_raw(token).ok().map(|text| text.to_plain())
    };
    first == second || decode(first) == decode(second)
}
