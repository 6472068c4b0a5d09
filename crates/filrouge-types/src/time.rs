//! Time: microseconds since 1970 in UTC, written as RFC 3339; clocks are injected (DESIGN §13).

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// The error for a text that is not an RFC 3339 time within the supported years.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-11-21T09:30:00Z")]
pub struct TimestampError;

impl Timestamp {
    /// Wraps microseconds since 1970.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Converts milliseconds since 1970; `None` when out of range.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Option<Self> {
        match millis.checked_mul(1000) {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970, rounded down; a moment before 1970 is rounded toward the past too.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(t) => write!(f, "{t:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let t: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        Ok(Self(t.as_microsecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The source of a store's time.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }
}

/// A clock that changes only when it is moved; for tests.
#[derive(Debug)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock fixed at `micros` since 1970.
    #[must_use]
    pub const fn at(micros: i64) -> Self {
        Self(AtomicI64::new(micros))
    }

    /// Moves the clock forward by `micros`, or back by a negative number.
    pub fn advance(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_microseconds() {
        let t: Timestamp = "2026-11-21T10:30:00.25+01:00".parse().unwrap();
        assert_eq!(t.to_string(), "2026-11-21T09:30:00.250000Z");
        assert_eq!("yesterday".parse::<Timestamp>(), Err(TimestampError));
    }

    #[test]
    fn milliseconds_are_rounded_down() {
        for (micros, millis) in [
            (0, 0),
            (999, 0),
            (1000, 1),
            (-1, -1),
            (-1000, -1),
            (-1001, -2),
        ] {
            assert_eq!(Timestamp::from_micros(micros).as_millis(), millis);
        }
    }
}
