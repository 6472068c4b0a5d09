//! Moments as people and agents write them (DESIGN §12); the command line and MCP use the same parser.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::Timestamp;

/// The maximum duration before now: a thousand years. A longer duration is a typing error.
const AGO_MAX: Duration = Duration::from_secs(1_000 * 31_557_600);
const DAY_MICROS: i64 = 86_400_000_000;

/// A moment as a person or an agent wrote it. A time without an offset is in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// `2025-12-28T14:30:00Z`, also without seconds or `Z`; or milliseconds since 1970.
    At(Timestamp),
    /// `2025-12-28`: an entire day, stored as its first moment.
    Day(Timestamp),
    /// `7d`: this long before now; at most a thousand years.
    Ago(Duration),
}

/// The reason why a text or number is not a moment. The message lists the accepted forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// The text has none of the accepted forms.
    #[error("{0:?} is not a moment that is understood; {FORMS}", FORMS = Moment::FORMS)]
    Unknown(String),
    /// The number is probably in seconds since 1970 instead of milliseconds.
    #[error("{0} looks like seconds; {FORMS}", FORMS = Moment::FORMS)]
    Seconds(i64),
    /// The number is out of range.
    #[error("{0} is too large; {FORMS}", FORMS = Moment::FORMS)]
    TooLarge(String),
}

impl Moment {
    /// The accepted forms, for error messages.
    pub const FORMS: &'static str = "give a time such as 2025-12-28T14:30:00Z, a date such as 2025-12-28 (UTC), \
         how long ago such as 12h, 7d or 8w, or epoch milliseconds such as 1766880000000";

    /// Reads milliseconds since 1970.
    ///
    /// # Errors
    /// [`MomentError`] for a number that looks like seconds or is too large.
    pub fn from_millis(millis: i64) -> Result<Self, MomentError> {
        // As seconds, these numbers are moments from 2001 to 5138. As milliseconds, they are moments from 1970 to 1973,
        // which callers hardly mean.
        if (1_000_000_000..100_000_000_000).contains(&millis) {
            return Err(MomentError::Seconds(millis));
        }
        let at = Timestamp::from_millis(millis).map(Self::At);
        at.ok_or_else(|| MomentError::TooLarge(millis.to_string()))
    }

    /// The moment as the start of a range (inclusive).
    pub fn start(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) | Self::Day(at) => at,
            Self::Ago(ago) => {
                let ago = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
                Timestamp::from_micros(now.as_micros().saturating_sub(ago))
            }
        }
    }

    /// The moment as the end of a range (exclusive); a day as an end includes that day.
    pub fn end(self, now: Timestamp) -> Timestamp {
        let start = self.start(now);
        match self {
            Self::Day(_) => Timestamp::from_micros(start.as_micros().saturating_add(DAY_MICROS)),
            Self::At(_) | Self::Ago(_) => start,
        }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let text = text.trim();
        let digits = text.strip_prefix('-').unwrap_or(text);
        // Only a number of more than eight digits is in milliseconds. A shorter number can be a year, or an ISO 8601
        // date such as `20251228`.
        if digits.len() > 8 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse();
            return Self::from_millis(number.map_err(|_| MomentError::TooLarge(text.into()))?);
        }
        let moment = match text.parse() {
            Ok(at) => Some(Self::At(at)),
            Err(_) if text.contains(['T', 't', ' ']) => {
                text.parse().ok().and_then(in_utc).map(Self::At)
            }
            Err(_) => {
                let day = text.parse::<Date>().ok();
                let day = day.and_then(|day| in_utc(day.at(0, 0, 0, 0)));
                let ago = || duration(text).filter(|ago| *ago <= AGO_MAX);
                day.map(Self::Day).or_else(|| ago().map(Self::Ago))
            }
        };
        moment.ok_or_else(|| MomentError::Unknown(text.to_owned()))
    }
}

/// The moment of a civil time in UTC; `None` if it is out of range.
fn in_utc(civil: DateTime) -> Option<Timestamp> {
    // A time at the end of the year 9999 can be after jiff's last moment. Then the last moment is used instead.
    let at = match civil.to_zoned(TimeZone::UTC) {
        Ok(zoned) => zoned.timestamp(),
        Err(_) if civil.year() == DateTime::MAX.year() => jiff::Timestamp::MAX,
        Err(_) => return None,
    };
    Some(Timestamp::from_micros(at.as_microsecond()))
}

/// Parses a duration: a whole number followed by s, m, h, d or w. `None` for any other text.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1))?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    let digits = number.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits)?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Moment, String> {
        text.parse().map_err(|e: MomentError| e.to_string())
    }

    #[test]
    fn times_days_and_durations_are_parsed() {
        let now = Timestamp::from_micros(1_766_923_200_000_000);
        let at = |text: &str| (read(text).unwrap().start(now), read(text).unwrap().end(now));
        for noon in [
            "1766923200000",
            "2025-12-28T12:00:00Z",
            "2025-12-28T13:00:00+01:00",
            "2025-12-28T12:00:00",
            "2025-12-28 12:00",
            " 2025-12-28T12:00Z ",
            "0s",
        ] {
            assert_eq!(at(noon), (now, now), "{noon}");
        }
        let hours = |n: i64| Timestamp::from_micros(now.as_micros() + n * 3_600_000_000);
        for day in ["2025-12-28", "20251228"] {
            assert_eq!(at(day), (hours(-12), hours(12)), "{day}");
        }
        assert_eq!(at("7d"), (hours(-7 * 24), hours(-7 * 24)));
        assert_eq!(
            at("90m").0.as_micros(),
            hours(-1).as_micros() - 1_800_000_000
        );
        // Microseconds are not rounded.
        assert_eq!(at("1970-01-01T00:00:00.000007Z").0.as_micros(), 7);
    }

    #[test]
    fn errors_list_the_accepted_forms() {
        for invalid in [
            "28 décembre",
            "",
            "tomorrow",
            "2025-02-30",
            "2025-13-01T00:00:00Z",
            "99999999999999999999999",
            "9999999999999999",
            "-1d",
            "1y",
            "9999999w",
            "99999999999999d",
        ] {
            let why = read(invalid).unwrap_err();
            assert!(why.ends_with(Moment::FORMS), "{invalid:?}: {why}");
        }
        assert_eq!(
            "1766923200".parse::<Moment>(),
            Err(MomentError::Seconds(1_766_923_200))
        );
    }

    #[test]
    fn durations_are_parsed() {
        for (text, seconds) in [
            ("1s", 1),
            ("90m", 5400),
            ("12h", 43_200),
            ("30d", 2_592_000),
            ("2w", 1_209_600),
            ("0d", 0),
        ] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for invalid in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5d",
            "30 d",
            "1y",
            "99999999999999999999d",
            "é",
            "1é",
        ] {
            assert_eq!(duration(invalid), None, "{invalid:?}");
        }
    }
}
