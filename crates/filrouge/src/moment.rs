//! Moments on the command line: a time, a day, or a duration before or after now.

use std::time::Duration;

use filrouge_types::{Moment, Timestamp};

use crate::exit::Usage;

/// The moment `duration` after `now`; `None` if it cannot be represented.
pub(crate) fn after(now: Timestamp, duration: Duration) -> Option<Timestamp> {
    let micros = i64::try_from(duration.as_micros()).ok()?;
    now.as_micros()
        .checked_add(micros)
        .map(Timestamp::from_micros)
}

/// The period from `--since` to `--until`; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    /// The first moment.
    pub(crate) since: Option<Timestamp>,
    /// The first moment after the period. If `--until` is a day, the period includes that day.
    pub(crate) until: Option<Timestamp>,
}

impl Period {
    /// Reads both options; `7d` means seven days before `now`.
    ///
    /// # Errors
    /// [`Usage`] naming the option, for a text that is not a moment or that RFC 3339 cannot express.
    pub(crate) fn parse(
        since: Option<&str>,
        until: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Usage> {
        let since = since.map(|text| parse_moment("--since", text, |moment| moment.start(now)));
        let until = until.map(|text| parse_moment("--until", text, |moment| moment.end(now)));
        Ok(Self {
            since: since.transpose()?,
            until: until.transpose()?,
        })
    }
}

fn parse_moment(
    option: &str,
    text: &str,
    bound: impl Fn(Moment) -> Timestamp,
) -> Result<Timestamp, Usage> {
    let parsed = text.parse::<Moment>().map(bound);
    // A number of milliseconds can be a moment in a year above 9999, which RFC 3339 cannot express.
    let writable = parsed.ok().filter(|at| at.to_string().parse() == Ok(*at));
    writable.ok_or_else(|| {
        Usage::new(format!("{option}: {text:?} is no time")).with_hint(Moment::FORMS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_a_day_or_a_duration() {
        let now = Timestamp::from_micros(100_000_000);
        let read = |text| Period::parse(Some(text), Some(text), now).ok();
        for (text, since, until) in [
            ("10s", 90, 90),
            ("1m", 40, 40),
            ("1970-01-01T00:00:07Z", 7, 7),
            ("1970-01-02T00:00", 86_400, 86_400),
            ("1970-01-02", 86_400, 2 * 86_400),
            ("2000000000000", 2_000_000_000, 2_000_000_000),
        ] {
            let second = |seconds: i64| Some(Timestamp::from_micros(seconds * 1_000_000));
            let period = Period {
                since: second(since),
                until: second(until),
            };
            assert_eq!(read(text), Some(period), "{text}");
        }
        for invalid in [
            "",
            "yesterday",
            "-1d",
            "9999999w",
            "99999999999999d",
            "9007199254740991",
        ] {
            let refused = Period::parse(Some(invalid), None, now).err();
            assert!(refused.is_some_and(|u| u.detail.starts_with("--since: ")));
            let refused = Period::parse(None, Some(invalid), now).err();
            assert!(refused.is_some_and(|u| u.detail.starts_with("--until: ")));
        }
    }
}
