//! Numbers of things in parameters.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};

/// A whole number that is not negative; `2.0` is one, as JSON Schema has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Given;
        impl Visitor<'_> for Given {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 on")
            }

            fn visit_u64<E: de::Error>(self, given: u64) -> Result<Count, E> {
                let too_large = |_| E::invalid_value(Unexpected::Unsigned(given), &self);
                usize::try_from(given).map(Count).map_err(too_large)
            }

            fn visit_i64<E: de::Error>(self, given: i64) -> Result<Count, E> {
                match u64::try_from(given) {
                    Ok(given) => self.visit_u64(given),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(given), &self)),
                }
            }

            fn visit_f64<E: de::Error>(self, given: f64) -> Result<Count, E> {
                // Beyond this a float is no whole number of things any more.
                if given.fract() != 0.0 || !(0.0..9e15).contains(&given) {
                    return Err(E::invalid_value(Unexpected::Float(given), &self));
                }
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "looked at above"
                )]
                let whole = given as u64;
                self.visit_u64(whole)
            }
        }
        deserializer.deserialize_any(Given)
    }
}

impl JsonSchema for Count {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        usize::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn whole_numbers_however_they_are_written() {
        for (json, number) in [("2", 2), ("2.0", 2), ("0", 0), ("1e3", 1000)] {
            assert_eq!(
                serde_json::from_str::<Count>(json).unwrap(),
                Count(number),
                "{json}"
            );
        }
        for json in ["-1", "1.5", "-0.5", "1e300", "\"2\"", "true", "[2]"] {
            let why = serde_json::from_str::<Count>(json).unwrap_err().to_string();
            assert!(why.contains("a whole number from 0 on"), "{json}: {why}");
        }
    }
}
