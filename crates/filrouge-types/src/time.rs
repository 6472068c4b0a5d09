//! Time: microseconds since 1970 in UTC, written as RFC 3339; clocks are injected (DESIGN §13).

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::lock;

/// The longest duration of a lease. A lease that ends later than this from now was granted while a clock was wrong, and
/// counts as ended.
pub const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// A moment, in microseconds since 1970-01-01T00:00:00Z, which is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// The error for a text that is not an RFC 3339 time within the supported years.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-11-21T09:30:00Z")]
pub struct TimestampError;

impl Timestamp {
    /// Wraps microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Converts milliseconds since 1970; `None` when out of range.
    pub const fn from_millis(millis: i64) -> Option<Self> {
        match millis.checked_mul(1000) {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment that is `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Milliseconds since 1970, rounded down; a moment before 1970 is rounded toward the past too.
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

    /// The present moment by which leases end: [`Self::now`], unless that would prolong leases because the clock was
    /// set back.
    fn lease_now(&self) -> Timestamp {
        self.now()
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }

    /// In this process, never behind the monotonic clock.
    fn lease_now(&self) -> Timestamp {
        LEASE_TIME.advance(self.now(), Instant::now())
    }
}

/// The time by which leases end in this process.
static LEASE_TIME: LeaseTime = LeaseTime(Mutex::new(None));

/// The machine's time, continued monotonically when the machine's clock is set back.
///
/// Contains the newest time, and the instant at which it was returned.
struct LeaseTime(Mutex<Option<(Timestamp, Instant)>>);

impl LeaseTime {
    /// The time at the instant `at`, when the machine's clock shows `wall`. It follows a clock that is further back
    /// than the longest lease: then every lease granted before ends too far in the future, and counts as ended.
    fn advance(&self, wall: Timestamp, at: Instant) -> Timestamp {
        let mut newest = lock(&self.0);
        let (time, since) = newest.unwrap_or((wall, at));
        let continued = time.after(at.saturating_duration_since(since));
        let is_far_back = continued > wall.after(LONGEST_LEASE);
        let time = if is_far_back {
            wall
        } else {
            wall.max(continued)
        };
        // Another thread may have stored a later instant.
        *newest = Some((time, at.max(since)));
        time
    }
}

/// A clock that changes only when it is moved; for tests.
#[derive(Debug)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock fixed at `micros` since 1970.
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
    fn the_time_of_leases_does_not_go_back_with_the_clock() {
        let (time, begin) = (LeaseTime(Mutex::new(None)), Instant::now());
        let day = 24 * 60 * 60;
        let advance = |wall: i64, elapsed: u64| {
            let wall = Timestamp::from_micros(wall * 1_000_000);
            let at = begin + Duration::from_secs(elapsed);
            time.advance(wall, at).as_micros() / 1_000_000
        };
        assert_eq!(advance(10 * day, 0), 10 * day);
        // Set back by an hour, twice.
        assert_eq!(advance(10 * day - 3600, 60), 10 * day + 60);
        assert_eq!(advance(10 * day - 7200, 90), 10 * day + 90);
        // A thread that was slower to lock.
        assert_eq!(advance(10 * day - 7200, 80), 10 * day + 90);
        assert_eq!(advance(10 * day - 7200, 91), 10 * day + 91);
        // Set forward, then back by two days.
        assert_eq!(advance(11 * day, 100), 11 * day);
        assert_eq!(advance(9 * day, 110), 9 * day);
        assert_eq!(advance(9 * day + 1, 111), 9 * day + 1);
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
