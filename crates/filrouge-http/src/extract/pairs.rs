//! The pairs of a query read into a type, with the parameter's name in every refusal.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};

use super::words::{Words, short};

/// Why a query is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no parameter of this name.
    Unknown(String),
    /// A parameter that must be there is not.
    Missing(&'static str),
    /// It is there twice.
    Twice(&'static str),
    /// A value that is not acceptable, its parameter once that is known.
    Value {
        name: Option<String>,
        words: Words,
        spaced: bool,
    },
}

impl Refusal {
    fn value(words: Words) -> Self {
        Self::Value {
            name: None,
            words,
            spaced: false,
        }
    }

    /// Names the parameter.
    fn of(self, name: &str, value: &str) -> Self {
        match self {
            Self::Value { words, .. } => Self::Value {
                name: Some(name.to_owned()),
                words,
                spaced: value.contains(' '),
            },
            other => other,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no parameter {:?}", short(name)),
            Self::Missing(name) => write!(f, "the parameter `{name}` is missing"),
            Self::Twice(name) => write!(f, "the parameter `{name}` is there twice"),
            Self::Value { name, words, .. } => match name {
                Some(name) => write!(f, "{name}: {}", words.what),
                None => f.write_str(&words.what),
            },
        }
    }
}

impl std::error::Error for Refusal {}

impl Error for Refusal {
    fn custom<T: fmt::Display>(said: T) -> Self {
        Self::value(Words::of(&said.to_string()))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::value(Words {
            what: "not known".to_owned(),
            known: Some(expected.join(", ")),
        })
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self::Unknown(field.to_owned())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Twice(field)
    }
}

/// Reads pairs.
pub(super) fn read<T: DeserializeOwned>(pairs: &[(String, String)]) -> Result<T, Refusal> {
    T::deserialize(MapAccessDeserializer::new(Pairs(pairs)))
}

/// The pairs that are left, the first one's name perhaps read already.
struct Pairs<'a>(&'a [(String, String)]);

impl<'de> MapAccess<'de> for Pairs<'_> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refusal> {
        let Some((name, _)) = self.0.first() else {
            return Ok(None);
        };
        let name: StrDeserializer<'_, Refusal> = name.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let Some(((name, value), rest)) = self.0.split_first() else {
            return Err(Refusal::custom("a value without a name"));
        };
        self.0 = rest;
        seed.deserialize(Text(value)).map_err(|e| e.of(name, value))
    }
}

/// A value: a text, read as what is asked for.
struct Text<'a>(&'a str);

macro_rules! parsed {
    ($($method:ident $visit:ident $what:literal;)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(Refusal::custom($what)),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let word: StrDeserializer<'_, Refusal> = self.0.into_deserializer();
        visitor.visit_enum(word)
    }

    parsed! {
        deserialize_bool visit_bool "neither true nor false";
        deserialize_u64 visit_u64 "no whole number, 0 or more";
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}
