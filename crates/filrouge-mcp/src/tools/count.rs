//! The type of parameters that are counts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use crate::when::integer;

/// A non-negative integer. A number such as `2.0` is an integer too, as in JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Count(pub(super) usize);

impl TryFrom<Value> for Count {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = integer(&value).and_then(|number| usize::try_from(number).ok());
        number
            .map(Self)
            .ok_or_else(|| format!("{value} is not a whole number from 0 on"))
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
    use super::*;

    #[test]
    fn whole_numbers_are_accepted_in_any_notation() {
        for (json, number) in [("2", 2), ("2.0", 2), ("0", 0), ("1e3", 1000)] {
            assert_eq!(
                serde_json::from_str::<Count>(json).unwrap(),
                Count(number),
                "{json}"
            );
        }
        for json in ["-1", "1.5", "-0.5", "1e300", "\"2\"", "true", "[2]"] {
            let message = serde_json::from_str::<Count>(json).unwrap_err().to_string();
            assert!(
                message.contains("a whole number from 0 on"),
                "{json}: {message}"
            );
        }
    }
}
