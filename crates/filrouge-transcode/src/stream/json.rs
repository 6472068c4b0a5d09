//! Reading what a decoder asks of an event, without copying what it passes on.

use std::borrow::Cow;

use filrouge_types::{JsonText, MAX_NESTING, RawJson, check_nesting};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A member that is passed on as it stands.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// Declares what a decoder asks of JSON objects, as structs that borrow from the event. A member is passed on as it
/// stands ([`Raw`]) unless a type follows it; `= "name"` is how the format spells it, `| "name"` another spelling.
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

/// Reads what is asked of an event; `None` when it is not of that shape.
pub(super) fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Option<T> {
    serde_json::from_str(data).ok()
}

/// A string as it is spelled between its quotes; `None` for any other value, and for none.
pub(super) fn inner(raw: Raw<'_>) -> Option<&str> {
    let token = raw?.get();
    token.strip_prefix('"')?.strip_suffix('"')
}

/// As [`inner`], but an empty string is none.
pub(super) fn some(raw: Raw<'_>) -> Option<&str> {
    inner(raw).filter(|text| !text.is_empty())
}

/// A string as a token with its quotes.
pub(super) fn token(raw: Raw<'_>) -> Option<&str> {
    raw.map(RawValue::get)
        .filter(|token| token.starts_with('"'))
}

/// A value that is there and not `null`.
pub(super) fn value(raw: Raw<'_>) -> Option<&str> {
    raw.map(RawValue::get).filter(|value| *value != "null")
}

/// A string without its escapes.
pub(super) fn plain(raw: Raw<'_>) -> Option<String> {
    let token = RawJson::from_checked(token(raw)?);
    Some(JsonText::from_raw(token).ok()?.to_plain())
}

/// A text as it is spelled inside a JSON string.
pub(super) fn escaped(text: &str) -> String {
    JsonText::from_plain(text).inner().to_owned()
}

/// Levels that may lie around a value that is kept, in a part and in the list of parts.
const AROUND: &str = "[[[[[[[[";

/// A value as it is put into a part: as it stands, or as a string where it is nested too deep for the ledger.
pub(super) fn kept(raw: &str) -> String {
    let opening = memchr::memchr2_iter(b'[', b'{', raw.as_bytes());
    if opening.take(MAX_NESTING).count() + AROUND.len() < MAX_NESTING {
        return raw.to_owned();
    }
    let mut copy = String::with_capacity(AROUND.len() + raw.len());
    copy.push_str(AROUND);
    copy.push_str(raw);
    if check_nesting(copy.as_bytes()).is_err() {
        return JsonText::from_plain(raw).as_token().to_owned();
    }
    copy.drain(..AROUND.len());
    copy
}

/// A value as a part of an item: an object with a type, as the ledger asks for; `None` for any other.
pub(super) fn part(raw: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }

    let part = Some(kept(raw)).filter(|part| part.starts_with('{'))?;
    let is_typed = read::<Part<'_>>(&part).is_some_and(|part| !part.kind.is_empty());
    is_typed.then_some(part)
}

/// Whether two texts, each as spelled inside a JSON string, say the same.
pub(super) fn same(one: &str, other: &str) -> bool {
    let plain = |inner: &str| {
        let token = RawJson::from_checked(format!("\"{inner}\""));
        JsonText::from_raw(token).ok().map(|text| text.to_plain())
    };
    one == other || plain(one) == plain(other)
}
