//! The members of JSON objects as they are spelled.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{JsonText, RawJson};

/// The members of a JSON object: the tokens of their names and values, in order. Of one that stands twice the last counts,
/// as most JSON readers have it.
#[derive(Debug, Default)]
pub struct Members<'a>(pub Vec<(&'a str, &'a str)>);

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::with_capacity(6);
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            members.push((name.get(), value.get()));
        }
        Ok(Members(members))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(MembersVisitor)
    }
}

/// Whether the token of a name is this name, however it is spelled.
fn is_named(token: &str, name: &str) -> bool {
    token.trim_matches('"') == name
        || token.contains('\\')
            && serde_json::from_str::<String>(token).is_ok_and(|plain| plain == name)
}

/// A name without its escapes, with U+FFFD for what Unicode cannot hold.
fn plain(token: &str) -> Cow<'_, str> {
    if !token.contains('\\') {
        return token.trim_matches('"').into();
    }
    let text = JsonText::from_raw(RawJson::from_checked(token));
    text.map_or(token.into(), |text| text.to_plain().into())
}

impl<'a> Members<'a> {
    /// The members of an object; `None` when `json` is none.
    #[must_use]
    pub fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The names without escapes and the values as they are written, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        self.0.iter().map(|(name, value)| (plain(name), *value))
    }

    /// The values of the members of this name, however it is spelled.
    pub fn all(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        let members = self
            .0
            .iter()
            .filter(move |(token, _)| is_named(token, name));
        members.map(|(_, value)| *value)
    }

    /// The value of a member, unless it is `null`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next_back().filter(|value| *value != "null")
    }

    /// Takes a member out, if it fits.
    pub fn take(&mut self, name: &str, fits: impl Fn(&str) -> bool) -> Option<&'a str> {
        let at = self.0.iter().rposition(|(own, _)| is_named(own, name))?;
        let (_, value) = *self.0.get(at)?;
        fits(value).then(|| {
            self.0.remove(at);
            value
        })
    }
}
