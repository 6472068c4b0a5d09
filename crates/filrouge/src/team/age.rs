//! Formats how long ago a moment was.

use filrouge_types::Timestamp;
use jiff::tz::TimeZone;

use super::words::{Words, fill};

const MINUTE: i64 = 60_000_000;

/// Formats `at` relative to `now`: within the last hour as minutes ago, else as day and time in the reader's time zone.
pub(crate) fn when(words: &Words, at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let ago = now.as_micros().saturating_sub(at.as_micros());
    match ago / MINUTE {
        // After a clock was set back, a moment slightly ahead of now counts as now.
        ..1 if ago > -MINUTE => return words.just_now.to_owned(),
        n @ 1 => return fill(words.minute_one, &[("n", &n)]),
        n @ 2..60 => return fill(words.minute_many, &[("n", &n)]),
        _ => {}
    }
    let local = |at: Timestamp| {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
        at.to_zoned(zone.clone()).datetime()
    };
    let (then, today) = (local(at), local(now).date());
    let time = format!("{:02}:{:02}", then.hour(), then.minute());
    let yesterday = today.yesterday().ok();
    if then.date() == today {
        fill(words.today, &[("time", &time)])
    } else if Some(then.date()) == yesterday {
        fill(words.yesterday, &[("time", &time)])
    } else {
        fill(words.on_day, &[("date", &then.date()), ("time", &time)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::words::of_locale;

    #[test]
    fn moments_are_in_the_readers_time_zone() {
        let words = of_locale(|_| None);
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = at("2026-03-01T00:30:00Z");
        for (then, expected) in [
            ("2026-03-01T00:30:30Z", "just now"),
            ("2026-03-01T00:29:30Z", "just now"),
            ("2026-03-01T00:28:30Z", "1 minute ago"),
            ("2026-02-28T23:31:00Z", "59 minutes ago"),
            ("2026-02-28T22:10:00Z", "today 00:10"),
            ("2026-02-28T12:00:00Z", "yesterday 14:00"),
            ("2026-02-27T12:00:00Z", "2026-02-27 14:00"),
            ("2026-03-02T12:00:00Z", "2026-03-02 14:00"),
        ] {
            assert_eq!(when(words, at(then), now, &zone), expected, "{then}");
        }
    }
}
