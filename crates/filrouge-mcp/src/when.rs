//! Moments in parameters: epoch milliseconds, or ISO 8601 (DESIGN §12, MCP).

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// What a moment looks like.
const FORMS: &str = "give epoch milliseconds such as 1766880000000, a date such as 2025-12-28 (UTC), or a time such as 2025-12-28T14:30:00Z";

/// A moment, or a whole day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct When {
    first: i64,
    last: i64,
}

impl When {
    /// Its first millisecond.
    pub(crate) const fn from(self) -> i64 {
        self.first
    }

    /// The millisecond behind it: a day as an end includes that day.
    pub(crate) const fn until(self) -> i64 {
        self.last.saturating_add(1)
    }

    const fn at(millisecond: i64) -> Self {
        Self {
            first: millisecond,
            last: millisecond,
        }
    }

    fn milliseconds(given: i64) -> Result<Self, String> {
        // 1973 in milliseconds is 2001 to 5138 in seconds.
        if (1_000_000_000..100_000_000_000).contains(&given) {
            return Err(format!("{given} looks like seconds; {FORMS}"));
        }
        Ok(Self::at(given))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.strip_prefix('-').unwrap_or(text);
        // Four digits are a year, and `20251228` is a date of ISO 8601.
        if digits.len() > 8 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text
                .parse()
                .map_err(|_| format!("{text} is too large; {FORMS}"));
            return Self::milliseconds(number?);
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::at(moment.as_millisecond()));
        }
        let in_utc = |civil: DateTime| civil.to_zoned(TimeZone::UTC).ok();
        let millisecond = |civil| in_utc(civil).map(|zoned| zoned.timestamp().as_millisecond());
        let found = if text.contains(['T', 't', ' ']) {
            let civil = text.parse::<DateTime>().ok();
            civil.and_then(millisecond).map(Self::at)
        } else {
            text.parse::<Date>().ok().and_then(|day| {
                let first = millisecond(day.at(0, 0, 0, 0))?;
                let last = first + 86_400_000 - 1;
                Some(Self { first, last })
            })
        };
        found.ok_or_else(|| format!("{text:?} is not a moment that is understood; {FORMS}"))
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Moment;
        impl Visitor<'_> for Moment {
            type Value = When;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("epoch milliseconds or an ISO 8601 date or time")
            }

            fn visit_i64<E: de::Error>(self, given: i64) -> Result<When, E> {
                When::milliseconds(given).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, given: u64) -> Result<When, E> {
                let given = i64::try_from(given);
                self.visit_i64(given.map_err(|_| E::custom(format!("too large; {FORMS}")))?)
            }

            fn visit_f64<E: de::Error>(self, given: f64) -> Result<When, E> {
                // Beyond this a float is no whole millisecond any more.
                if given.fract() != 0.0 || given.abs() > 9e15 {
                    return Err(E::custom(format!("not a whole number; {FORMS}")));
                }
                #[allow(clippy::cast_possible_truncation, reason = "looked at above")]
                let whole = given as i64;
                self.visit_i64(whole)
            }

            fn visit_str<E: de::Error>(self, given: &str) -> Result<When, E> {
                When::parse(given).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Moment)
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(json: &str) -> Result<When, String> {
        serde_json::from_str(json).map_err(|e: serde_json::Error| e.to_string())
    }

    #[test]
    fn moments_and_days() {
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
            assert_eq!((when.from(), when.until()), (noon, noon + 1), "{json}");
        }
        for json in ["\"2025-12-28\"", "\"20251228\""] {
            let day = read(json).unwrap();
            let first = noon - 43_200_000;
            assert_eq!((day.from(), day.until()), (first, first + 86_400_000));
        }
        assert_eq!(read("0").unwrap().from(), 0);
        assert_eq!(read("-1").unwrap().from(), -1);
    }

    #[test]
    fn what_is_not_understood_says_what_is() {
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
