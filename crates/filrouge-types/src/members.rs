//! The members of JSON objects, with their original spelling.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{JsonText, RawJson};

/// The members of a JSON object: the JSON of each name and value, in order. If a name occurs more than once,
/// [`Self::get`] and [`Self::take`] use the last member, as most JSON readers do.
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

/// Whether `token`, the JSON of a name, spells `name`, with or without escapes.
fn is_named(token: &str, name: &str) -> bool {
    token.trim_matches('"') == name
        || token.contains('\\')
            && serde_json::from_str::<String>(token).is_ok_and(|plain| plain == name)
}

/// A name with its escapes resolved; U+FFFD replaces lone surrogates.
fn resolve_escapes(token: &str) -> Cow<'_, str> {
    if !token.contains('\\') {
        return token.trim_matches('"').into();
    }
    let text = JsonText::from_raw(RawJson::from_checked(token));
    text.map_or(token.into(), |text| text.to_plain().into())
}

impl<'a> Members<'a> {
    /// The members of an object; `None` when `json` is not an object.
    pub fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The names with their escapes resolved and the values as written, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        self.0
            .iter()
            .map(|(name, value)| (resolve_escapes(name), *value))
    }

    /// The values of all members with this name, with or without escapes.
    pub fn all(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        let members = self
            .0
            .iter()
            .filter(move |(token, _)| is_named(token, name));
        members.map(|(_, value)| *value)
    }

    /// The value of a member; `None` if it is absent or `null`.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next_back().filter(|value| *value != "null")
    }

    /// Removes the member with this name and returns its value, if `accepts` accepts the value. Otherwise removes
    /// nothing.
    pub fn take(&mut self, name: &str, accepts: impl Fn(&str) -> bool) -> Option<&'a str> {
        let index = self
            .0
            .iter()
            .rposition(|(token, _)| is_named(token, name))?;
        let (_, value) = *self.0.get(index)?;
        accepts(value).then(|| {
            self.0.remove(index);
            value
        })
    }
}
