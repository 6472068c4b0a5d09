//! Formats a time relative to the present.

use filrouge_types::Timestamp;
use jiff::tz::TimeZone;

use super::words::{Words, fill};

const MINUTE: i64 = 60_000_000;

/// Formats `at` relative to `now`: in minutes within the last hour, else as day and time in the reader's time zone.
pub(crate) fn format_age(words: &Words, at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let ago = now.as_micros().saturating_sub(at.as_micros());
    match ago / MINUTE {
        // A moment up to a minute after `now` counts as now: the clock may have been set back.
        ..1 if ago > -MINUTE => return words.just_now.to_owned(),
        n @ 1 => return fill(words.minute_one, &[("n", &n)]),
        n @ 2..60 => return fill(words.minute_many, &[("n", &n)]),
        _ => {}
    }
    let to_local = |at: Timestamp| {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
        at.to_zoned(zone.clone()).datetime()
    };
    let (then, today) = (to_local(at), to_local(now).date());
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
    use crate::team::words::for_locale;

    #[test]
    fn ages_use_the_readers_time_zone() {
        let words = for_locale(|_| None);
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
            assert_eq!(format_age(words, at(then), now, &zone), expected, "{then}");
        }
    }
}
