//! Deserializes structs from JSON objects only. By default, serde also accepts an array with the fields in order.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A `T` that must be written as a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<T>(pub T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Deserializes a value that must be a JSON object. For use as `deserialize_with`.
///
/// # Errors
/// Fails when the value is not an object or not a valid `T`.
pub fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    d.deserialize_map(ObjectVisitor(PhantomData))
}

/// Deserializes a list of JSON objects. For use in a custom `deserialize_with`. Only the first `limit` objects are
/// kept, so that a very long list needs no more memory than a list of the allowed length. The other objects are skipped
/// without an error.
///
/// # Errors
/// Fails when the value is not a list, or one of the kept elements is not an object or not a valid `T`.
pub fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
    limit: usize,
) -> Result<Vec<T>, D::Error> {
    struct ListVisitor<T>(usize, PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of JSON objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut kept = Vec::new();
            while kept.len() < self.0 {
                match list.next_element::<Object<T>>()? {
                    Some(object) => kept.push(object.0),
                    None => return Ok(kept),
                }
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(kept)
        }
    }

    d.deserialize_seq(ListVisitor(limit, PhantomData))
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        object(d).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::RawJson;

    #[derive(Debug, Deserialize)]
    struct Inner {
        raw: RawJson,
    }

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[serde(deserialize_with = "two")]
        list: Vec<Inner>,
        #[serde(deserialize_with = "object")]
        one: Inner,
    }

    fn two<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Inner>, D::Error> {
        objects(d, 2)
    }

    #[test]
    fn elements_beyond_the_limit_are_skipped() {
        let text = r#"{"list":[{"raw":1},{"raw":2},{"raw":3},[4]],"one":{"raw":5}}"#;
        let read: Outer = serde_json::from_str(text).unwrap();
        let kept: Vec<&str> = read.list.iter().map(|i| i.raw.as_str()).collect();
        assert_eq!((kept, read.one.raw.as_str()), (vec!["1", "2"], "5"));
    }

    #[test]
    fn an_array_is_not_an_object() {
        let read = |text: &str| serde_json::from_str::<Object<Outer>>(text);
        let accepted = read(r#"{"list":[{"raw": [1,  2]}],"one":{"raw":1e400}}"#)
            .unwrap()
            .0;
        assert_eq!(
            (accepted.list[0].raw.as_str(), accepted.one.raw.as_str()),
            ("[1,  2]", "1e400")
        );
        for refused in [
            r#"[[],{"raw":1}]"#,
            r#"{"list":[[1]],"one":{"raw":1}}"#,
            r#"{"list":[],"one":[1]}"#,
        ] {
            assert!(
                read(refused)
                    .unwrap_err()
                    .to_string()
                    .contains("a JSON object"),
                "{refused}"
            );
        }
    }
}
