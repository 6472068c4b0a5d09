//! The members of JSON objects as they are spelled.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object: the tokens of their names and values, in order.
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

impl<'a> Members<'a> {
    /// The members of an object; `None` when `json` is none.
    #[must_use]
    pub fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The values of the members of this name, however it is spelled.
    pub fn all(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        let named = move |token: &str| {
            token.trim_matches('"') == name
                || token.contains('\\')
                    && serde_json::from_str::<String>(token).is_ok_and(|plain| plain == name)
        };
        let members = self.0.iter().filter(move |(token, _)| named(token));
        members.map(|(_, value)| *value)
    }

    /// The value of a member, unless it is `null`. Of one that stands twice the last counts, as most JSON readers have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next_back().filter(|value| *value != "null")
    }
}
