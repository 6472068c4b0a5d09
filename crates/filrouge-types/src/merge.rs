//! Merging JSON objects without touching the spelling of their values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::RawJson;

struct Members(Vec<(String, Box<RawValue>)>);

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(MembersVisitor)
    }
}

/// `first` with the members of `second` put over it, as a shallow merge; what is no object counts as `{}`.
#[must_use]
pub fn merge_objects(first: &RawJson, second: &RawJson) -> RawJson {
    let members = |json: &RawJson| {
        serde_json::from_str::<Members>(json.as_str()).map_or_else(|_| Vec::new(), |m| m.0)
    };
    let mut all = members(first);
    for (name, value) in members(second) {
        match all.iter_mut().find(|(n, _)| *n == name) {
            Some(member) => member.1 = value,
            None => all.push((name, value)),
        }
    }
    let members: Vec<String> = all
        .iter()
        .map(|(name, value)| format!("{}:{}", serde_json::Value::from(name.as_str()), value.get()))
        .collect();
    RawJson::from_checked(format!("{{{}}}", members.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_spelling() {
        let a = RawJson::parse(r#"{"x":1.0,"y":[1,  2]}"#).unwrap();
        let b = RawJson::parse(r#"{"y":9007199254740993,"z":"\u00e9"}"#).unwrap();
        assert_eq!(
            merge_objects(&a, &b).as_str(),
            r#"{"x":1.0,"y":9007199254740993,"z":"\u00e9"}"#
        );
    }
}
