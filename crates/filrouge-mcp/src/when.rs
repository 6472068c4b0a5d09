//! Times in parameters: epoch milliseconds, ISO 8601, or how long ago (DESIGN §12, MCP).

use std::borrow::Cow;

use filrouge_types::{Moment, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

/// A moment, or an entire day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct When(Moment);

impl When {
    /// Returns the moment, or the start of the day, in milliseconds since 1970. `7d` is counted back from `now`.
    pub(crate) fn start_ms(self, now: Timestamp) -> i64 {
        self.0.start(now).as_millis()
    }

    /// Returns the first millisecond after the moment or the day, in milliseconds since 1970: an end date includes that
    /// day.
    pub(crate) fn end_ms(self, now: Timestamp) -> i64 {
        let end = self.0.end(now).as_millis();
        match self.0 {
            Moment::Day(_) => end,
            Moment::At(_) | Moment::Ago(_) => end.saturating_add(1),
        }
    }
}

/// Returns a JSON number as an integer, in any notation, such as `2.0` or `1e3`; `None` if it is not an integer in
/// range.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        // Beyond about 9e15 a float does not represent every integer exactly.
        let float = value
            .as_f64()
            .filter(|f| f.fract() == 0.0 && f.abs() <= 9e15);
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        float.map(|float| float as i64)
    })
}

impl TryFrom<Value> for When {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let moment = match &value {
            Value::String(text) => text.parse::<Moment>(),
            Value::Number(number) => {
                let no_integer =
                    || format!("{number} is no whole number in range; {}", Moment::FORMS);
                Moment::from_millis(integer(&value).ok_or_else(no_integer)?)
            }
            _ => {
                let known = "epoch milliseconds, an ISO 8601 date or time, or how long ago";
                return Err(format!("{value} is none of {known}"));
            }
        };
        moment.map(Self).map_err(|e| e.to_string())
    }
}

impl JsonSchema for When {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "When".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(0);

    fn read(json: &str) -> Result<When, String> {
        serde_json::from_str(json).map_err(|e: serde_json::Error| e.to_string())
    }

    #[test]
    fn times_and_days_are_parsed() {
        let noon = 1_766_923_200_000;
        for json in [
            "1766923200000",
            "1766923200000.0",
            "\"1766923200000\"",
            "\"2025-12-28T12:00:00Z\"",
            "\"2025-12-28T13:00:00+01:00\"",
            "\"2025-12-28T12:00:00\"",
            "\"2025-12-28 12:00\"",
            "\" 2025-12-28T12:00Z \"",
        ] {
            let when = read(json).unwrap();
            assert_eq!(
                (when.start_ms(NOW), when.end_ms(NOW)),
                (noon, noon + 1),
                "{json}"
            );
        }
        for json in ["\"2025-12-28\"", "\"20251228\""] {
            let day = read(json).unwrap();
            let first = noon - 43_200_000;
            assert_eq!(day.start_ms(NOW), first);
            assert_eq!(day.end_ms(NOW), first + 86_400_000);
        }
        assert_eq!(read("0").unwrap().start_ms(NOW), 0);
        assert_eq!(read("-1").unwrap().start_ms(NOW), -1);
        let week = read("\"7d\"").unwrap();
        assert_eq!(week.start_ms(NOW), -7 * 86_400_000);
    }

    #[test]
    fn an_invalid_time_is_refused_with_the_known_forms() {
        for json in [
            "\"28 décembre\"",
            "\"\"",
            "\"tomorrow\"",
            "\"2025-02-30\"",
            "\"2025-13-01T00:00:00Z\"",
            "\"99999999999999999999999\"",
            "18446744073709551615",
            "1.5",
        ] {
            let why = read(json).unwrap_err();
            assert!(why.contains("2025-12-28T14:30:00Z"), "{json}: {why}");
        }
        assert!(read("1766923200").unwrap_err().contains("seconds"));
        assert!(read("true").unwrap_err().contains("ISO 8601"));
    }
}
