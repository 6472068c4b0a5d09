//! Merging JSON objects while preserving the spelling of their values.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::{JsonText, Members, RawJson};

/// The members of an object; none for any other value.
fn members(json: &RawJson) -> Members<'_> {
    Members::parse(json.as_str()).unwrap_or_default()
}

/// Writes an object with these members.
fn write<'a, V: AsRef<str> + 'a>(members: impl IntoIterator<Item = (&'a str, V)>) -> RawJson {
    let members = members.into_iter();
    let members: Vec<String> = members
        .map(|(name, value)| format!("{name}:{}", value.as_ref()))
        .collect();
    RawJson::from_checked(format!("{{{}}}", members.join(",")))
}

/// A member's name for comparison. Names are equal regardless of escapes. A name with a lone surrogate, which Unicode
/// cannot encode, equals only a name with the same spelling.
#[derive(PartialEq, Eq, Hash)]
enum NameKey {
    /// The name with its escapes resolved.
    Resolved(String),
    /// The name as spelled, because Unicode cannot encode it.
    Spelling(String),
}

impl NameKey {
    fn new(name: &str) -> Self {
        match serde_json::from_str(name) {
            Ok(plain) => Self::Resolved(plain),
            Err(_) => Self::Spelling(name.to_owned()),
        }
    }
}

/// Members indexed by name: the cost of a change does not depend on the number of members.
struct IndexedMembers<'a> {
    /// The JSON of each name and value; `None` for a member that was removed.
    members: Vec<Option<(&'a str, Cow<'a, str>)>>,
    /// The positions of each name in `members`, ascending.
    positions: HashMap<NameKey, Vec<usize>>,
}

impl<'a> IndexedMembers<'a> {
    fn parse(json: &'a RawJson) -> Self {
        let members = members(json).0;
        let mut positions: HashMap<NameKey, Vec<usize>> = HashMap::with_capacity(members.len());
        for (index, (name, _)) in members.iter().enumerate() {
            positions.entry(NameKey::new(name)).or_default().push(index);
        }
        let members = members.into_iter();
        let members = members.map(|(name, value)| Some((name, value.into())));
        Self {
            members: members.collect(),
            positions,
        }
    }

    /// The value that JSON readers use for a name: the last one.
    fn get(&self, name: &NameKey) -> Option<&str> {
        let index = *self.positions.get(name)?.last()?;
        self.members[index].as_ref().map(|(_, value)| &**value)
    }

    /// Sets a value at the name's first position, or appends it; later duplicates of the name are removed.
    fn set(&mut self, name: &'a str, key: NameKey, value: Cow<'a, str>) {
        match self.positions.get_mut(&key) {
            Some(positions) => {
                for at in positions.drain(1..) {
                    self.members[at] = None;
                }
                // An indexed name has at least one position.
                if let Some(member) = positions.first().and_then(|at| self.members[*at].as_mut()) {
                    member.1 = value;
                }
            }
            None => {
                self.positions.insert(key, vec![self.members.len()]);
                self.members.push(Some((name, value)));
            }
        }
    }

    fn remove(&mut self, name: &NameKey) {
        for at in self.positions.remove(name).unwrap_or_default() {
            self.members[at] = None;
        }
    }

    fn write(self) -> RawJson {
        write(self.members.into_iter().flatten())
    }
}

/// Merges two objects, one level deep: the members of `second` override those of `first`. A `first` or `second` that is
/// not an object counts as `{}`.
pub fn merge_objects(first: &RawJson, second: &RawJson) -> RawJson {
    let mut merged = IndexedMembers::parse(first);
    for (name, value) in members(second).0 {
        merged.set(name, NameKey::new(name), value.into());
    }
    merged.write()
}

/// Applies a JSON merge patch (RFC 7396) to `target`. A member of the patch that is `null` removes the target's member.
/// A member that is an object is merged into the target's member. Any other member replaces the target's. A target or
/// patch that is not an object counts as `{}`.
pub fn merge_patch(target: &RawJson, patch: &RawJson) -> RawJson {
    let mut patched = IndexedMembers::parse(target);
    for (name, value) in members(patch).0 {
        let key = NameKey::new(name);
        match value.as_bytes().first() {
            Some(b'n') => patched.remove(&key),
            Some(b'{') => {
                let old = RawJson::from_checked(patched.get(&key).unwrap_or("{}"));
                let merged = merge_patch(&old, &RawJson::from_checked(value));
                patched.set(name, key, merged.as_str().to_owned().into());
            }
            _ => patched.set(name, key, value.into()),
        }
    }
    patched.write()
}

/// Selects those members of an object whose names are in `names`. Also returns the number of the other members.
pub fn select_members(json: &RawJson, names: &[String]) -> (RawJson, usize) {
    let all = members(json).0;
    let count = all.len();
    let is_listed =
        |name: &str| serde_json::from_str::<String>(name).is_ok_and(|name| names.contains(&name));
    let kept: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| is_listed(name))
        .collect();
    let others = count - kept.len();
    (write(kept), others)
}

/// Takes the members whose names `accepts` accepts out of an object. Returns the object of the remaining members, and
/// the taken members in order. In the names of taken members, and in those passed to `accepts`, U+FFFD replaces lone
/// surrogates.
pub fn take_members(
    json: &RawJson,
    accepts: impl Fn(&str) -> bool,
) -> (RawJson, Vec<(String, RawJson)>) {
    let mut accepted = Vec::new();
    let mut rejected = Vec::new();
    for (name, value) in members(json).0 {
        let plain = JsonText::from_raw(RawJson::from_checked(name));
        // A member's name is always a string.
        let plain = plain.map_or_else(|_| name.to_owned(), |name| name.to_plain());
        if accepts(&plain) {
            accepted.push((plain, RawJson::from_checked(value)));
        } else {
            rejected.push((name, value));
        }
    }
    (write(rejected), accepted)
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

    #[test]
    fn names_keep_their_spelling_and_are_equal_regardless_of_escapes() {
        let merged = |a: &str, b: &str| {
            let (a, b) = (RawJson::parse(a).unwrap(), RawJson::parse(b).unwrap());
            merge_objects(&a, &b).as_str().to_owned()
        };
        let odd = r#"{"\ud800":1,"\u0061":2}"#;
        assert_eq!(
            merged(odd, r#"{"b":3}"#),
            r#"{"\ud800":1,"\u0061":2,"b":3}"#
        );
        assert_eq!(
            merged(odd, r#"{"a":3,"\ud800":4}"#),
            r#"{"\ud800":4,"\u0061":3}"#
        );
        assert_eq!(
            merged(r#"{"k":1,"x":0,"k":2}"#, r#"{"k":3}"#),
            r#"{"k":3,"x":0}"#
        );
    }

    #[test]
    fn merge_patch_follows_rfc_7396() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":1.0}"#, r#"{"a":null}"#, r#"{"b":1.0}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (
                r#"{"a":{"b":"c"}}"#,
                r#"{"a":{"b":"d","c":null}}"#,
                r#"{"a":{"b":"d"}}"#,
            ),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":1,"\u0061":2,"x":0}"#, r#"{"a":null}"#, r#"{"x":0}"#),
        ] {
            let (target, patch) = (
                RawJson::parse(target).unwrap(),
                RawJson::parse(patch).unwrap(),
            );
            assert_eq!(merge_patch(&target, &patch).as_str(), result);
        }
    }

    /// A linear search per member would take minutes here.
    #[test]
    fn objects_with_very_many_members_are_merged() {
        let object = |letter: char| {
            let members: Vec<String> = (0..200_000).map(|n| format!("\"{letter}{n}\":1")).collect();
            RawJson::from_checked(format!("{{{}}}", members.join(",")))
        };
        let (a, b) = (object('a'), object('b'));
        let merged = merge_patch(&a, &b);
        assert_eq!(
            merged.as_str().len(),
            a.as_str().len() + b.as_str().len() - 1
        );
        assert_eq!(merge_objects(&a, &b), merged);
        assert_eq!(merge_objects(&merged, &a), merged);
    }

    #[test]
    fn members_are_selected() {
        let json = RawJson::parse(r#"{"\ud800":1,"a":1.0,"secret":2}"#).unwrap();
        let (kept, others) = select_members(&json, &["a".to_owned()]);
        assert_eq!((kept.as_str(), others), (r#"{"a":1.0}"#, 2));
    }

    #[test]
    fn members_are_taken() {
        let json = RawJson::parse(r#"{"\ud800":1,"a":1.0,"\u0062":"c","a":2}"#).unwrap();
        let (left, taken) = take_members(&json, |name| name != "b");
        assert_eq!(left.as_str(), r#"{"\u0062":"c"}"#);
        let taken: Vec<_> = taken
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            taken,
            [("\u{fffd}\u{fffd}\u{fffd}", "1"), ("a", "1.0"), ("a", "2")]
        );
    }
}
