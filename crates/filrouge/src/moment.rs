//! Moments as a command line names them: a time, or how far from now.

use std::time::Duration;

use filrouge_types::Timestamp;

use crate::exit::Usage;

/// How long: a number with s, m, h, d or w.
pub(crate) fn duration(text: &str) -> Option<Duration> {
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

/// The moment so long after `now`.
pub(crate) fn after(now: Timestamp, duration: Duration) -> Option<Timestamp> {
    let micros = i64::try_from(duration.as_micros()).ok()?;
    now.as_micros()
        .checked_add(micros)
        .map(Timestamp::from_micros)
}

/// The moment so long before `now`; none before there were years.
pub(crate) fn before(now: Timestamp, duration: Duration) -> Option<Timestamp> {
    let micros = i64::try_from(duration.as_micros()).ok()?;
    let moment = now.as_micros().checked_sub(micros)?;
    (moment >= FIRST_MICROS).then(|| Timestamp::from_micros(moment))
}

/// The first moment of the year 1, in microseconds.
const FIRST_MICROS: i64 = -62_135_596_800_000_000;

/// What an option says: a time, or how long before `now`.
pub(crate) fn moment(option: &str, text: &str, now: Timestamp) -> Result<Timestamp, Usage> {
    let ago = || duration(text).and_then(|ago| before(now, ago));
    text.parse().ok().or_else(ago).ok_or_else(|| {
        Usage::new(format!("{option}: {text:?} is no time"))
            .with_hint("write a time such as 2027-01-31T00:00:00Z, or how long ago: 12h, 7d, 8w")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_how_long_ago() {
        let now = Timestamp::from_micros(100_000_000);
        for (text, seconds) in [("10s", 90), ("1m", 40), ("1970-01-01T00:00:07Z", 7)] {
            let read = moment("--since", text, now);
            let expected = Timestamp::from_micros(seconds * 1_000_000);
            assert_eq!(read.ok(), Some(expected), "{text}");
        }
        for wrong in ["", "yesterday", "-1d", "9999999w", "99999999999999d"] {
            let refused = moment("--since", wrong, now).err();
            assert!(refused.is_some_and(|u| u.detail.starts_with("--since: ")));
        }
    }

    #[test]
    fn how_long() {
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
        for wrong in [
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
            assert_eq!(duration(wrong), None, "{wrong:?}");
        }
    }
}
