//! Parses days, months and times as people write them: `28-december`, `monday`, `2025-12`, `7d`, an ISO time.
//!
//! Names may be English or French. A date without a year is the latest such date that is not in the future. Days begin
//! and end in the caller's time zone.

use filrouge_store::text_index::fold;
use filrouge_types::{Moment, Timestamp};
use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;

/// The accepted forms, for error messages.
pub(crate) const FORMS: &str = "give a day such as 2025-12-28, 28-december, 28-dec-2025, monday, today or yesterday, a \
     month such as december or 2025-12, a time such as 2025-12-28T14:30:00Z, or how long ago such as 7d";

/// The last representable time, in milliseconds since 1970: [`jiff::Timestamp::MAX`].
const MAX_MILLIS: i64 = 253_402_207_200_999;

/// The time zone in which days begin and end.
#[derive(Debug, Clone, Default)]
pub enum Zone {
    /// UTC.
    #[default]
    Utc,
    /// This machine's time zone. It is determined only for a query with a date, because determining it can take longer
    /// than a search.
    System,
    /// This zone.
    Of(TimeZone),
}

impl Zone {
    fn get(&self) -> TimeZone {
        match self {
            Self::Utc => TimeZone::UTC,
            Self::System => TimeZone::system(),
            Self::Of(zone) => zone.clone(),
        }
    }
}

/// A time range in milliseconds since 1970. It contains `since`, but not `until`. For a point in time both are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) since: i64,
    pub(crate) until: i64,
}

/// The reference time and the time zone for dates in a query.
#[derive(Debug, Clone)]
pub(crate) struct DateContext {
    pub(crate) now: Timestamp,
    pub(crate) zone: Zone,
}

impl DateContext {
    /// The time range that a text describes; `None` if it describes none.
    pub(crate) fn time_range(&self, text: &str) -> Option<TimeRange> {
        let word = fold(text.trim());
        let today = self.today()?;
        let day = match &*word {
            "today" | "aujourd'hui" | "aujourdhui" => Some(today),
            "yesterday" | "hier" => today.yesterday().ok(),
            word => weekday(word).and_then(|wanted| {
                let mut days = (0_i64..7).filter_map(|ago| today.checked_sub(ago.days()).ok());
                days.find(|day| day.weekday() == wanted)
            }),
        };
        if let Some(day) = day {
            return self.day_range(day, day);
        }
        self.parse_parts(&word, today)
            .or_else(|| self.parse_moment(text.trim()))
    }

    /// Extends a time range to entire days.
    pub(crate) fn whole_days(&self, time_range: TimeRange) -> Option<TimeRange> {
        let day = |millis| {
            let at = jiff::Timestamp::from_millisecond(millis).ok()?;
            Some(at.to_zoned(self.zone.get()).date())
        };
        let last = time_range.until.max(time_range.since.saturating_add(1)) - 1;
        self.day_range(day(time_range.since)?, day(last)?)
    }

    fn today(&self) -> Option<Date> {
        let now = jiff::Timestamp::from_microsecond(self.now.as_micros()).ok()?;
        Some(now.to_zoned(self.zone.get()).date())
    }

    /// The time range of the days from `first` to `last`, inclusive.
    fn day_range(&self, first: Date, last: Date) -> Option<TimeRange> {
        Some(TimeRange {
            since: self.start_of_day(first)?,
            until: last
                .tomorrow()
                .map_or(Some(MAX_MILLIS), |day| self.start_of_day(day))?,
        })
    }

    /// The beginning of a day. In some time zones the beginning of the calendar's last two days is not representable:
    /// then returns [`MAX_MILLIS`].
    fn start_of_day(&self, day: Date) -> Option<i64> {
        let max_if_last = || (day >= Date::MAX.yesterday().ok()?).then_some(MAX_MILLIS);
        self.millis_of(day.at(0, 0, 0, 0)).or_else(max_if_last)
    }

    fn millis_of(&self, civil: DateTime) -> Option<i64> {
        let zoned = civil.to_zoned(self.zone.get()).ok()?;
        Some(zoned.timestamp().as_millisecond())
    }

    /// The time range of a date that consists of a year, a month and a day, or of some of them: at least the year or
    /// the name of the month.
    fn parse_parts(&self, word: &str, today: Date) -> Option<TimeRange> {
        let parts = word.split(['-', '/', ' ']).filter(|part| !part.is_empty());
        let parts: Vec<Part> = parts.map(Part::parse).collect::<Option<_>>()?;
        let month_range = |first: Date| self.day_range(first, first.last_of_month());
        match *parts.as_slice() {
            [Part::Year(year)] => {
                let first = Date::new(year, 1, 1).ok()?;
                self.day_range(first, first.last_of_year())
            }
            [Part::Month(month)] => {
                let year = today.year() - i16::from(month > today.month());
                month_range(Date::new(year, month, 1).ok()?)
            }
            [Part::Year(year), Part::Month(month)] | [Part::Month(month), Part::Year(year)] => {
                month_range(Date::new(year, month, 1).ok()?)
            }
            [Part::Year(year), Part::Day(month)] => month_range(Date::new(year, month, 1).ok()?),
            [Part::Day(day), Part::Month(month)] | [Part::Month(month), Part::Day(day)] => {
                // 29 February occurs at least once in eight years.
                let years = (0..=8).map(|ago| Date::new(today.year() - ago, month, day));
                let day = years.flatten().find(|day| *day <= today)?;
                self.day_range(day, day)
            }
            [Part::Year(year), Part::Day(month), Part::Day(day)]
            | [Part::Year(year), Part::Month(month), Part::Day(day)]
            | [Part::Day(day), Part::Month(month), Part::Year(year)]
            | [Part::Month(month), Part::Day(day), Part::Year(year)] => {
                let day = Date::new(year, month, day).ok()?;
                self.day_range(day, day)
            }
            _ => None,
        }
    }

    /// The time range of a point in time, which is in the caller's time zone if the text contains no offset, or of
    /// another form that [`Self::parse_other_form`] accepts.
    fn parse_moment(&self, text: &str) -> Option<TimeRange> {
        let is_time = text.contains(['T', 't', ' ', ':']);
        let civil = || text.parse::<DateTime>().ok().filter(|_| is_time);
        let since = match text.parse::<jiff::Timestamp>() {
            Ok(at) => at.as_millisecond(),
            Err(_) => match civil() {
                Some(civil) => self.millis_of(civil)?,
                None => return self.parse_other_form(text),
            },
        };
        let until = since;
        Some(TimeRange { since, until })
    }

    /// The time range of a text in one of the other forms that [`Moment`] accepts: `20251228`, `7d`, or milliseconds
    /// since 1970.
    fn parse_other_form(&self, text: &str) -> Option<TimeRange> {
        let moment: Moment = text.parse().ok()?;
        if let Moment::Day(_) = moment {
            let day: Date = text.parse().ok()?;
            return self.day_range(day, day);
        }
        let since = moment.start(self.now).as_millis();
        let until = since;
        Some(TimeRange { since, until })
    }
}

/// A part of a date.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Four digits.
    Year(i16),
    /// A month by its name.
    Month(i8),
    /// One or two digits. After a year, this may be the number of a month.
    Day(i8),
}

impl Part {
    fn parse(word: &str) -> Option<Self> {
        if let Some(month) = month(word.trim_end_matches('.')) {
            return Some(Self::Month(month));
        }
        let ordinals = ["st", "nd", "rd", "th", "er"];
        let digits = ordinals.iter().find_map(|end| word.strip_suffix(end));
        let digits = digits.unwrap_or(word);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        match digits.len() {
            1 | 2 => digits.parse().ok().map(Self::Day),
            4 if digits == word => digits.parse().ok().map(Self::Year),
            _ => None,
        }
    }
}

/// The number of the month with this name, which must be folded: in lower case and without accents.
fn month(name: &str) -> Option<i8> {
    Some(match name {
        "jan" | "january" | "janv" | "janvier" => 1,
        "feb" | "february" | "fev" | "fevr" | "fevrier" => 2,
        "mar" | "march" | "mars" => 3,
        "apr" | "april" | "avr" | "avril" => 4,
        "may" | "mai" => 5,
        "jun" | "june" | "juin" => 6,
        "jul" | "july" | "juil" | "juillet" => 7,
        "aug" | "august" | "aout" => 8,
        "sep" | "sept" | "september" | "septembre" => 9,
        "oct" | "october" | "octobre" => 10,
        "nov" | "november" | "novembre" => 11,
        "dec" | "december" | "decembre" => 12,
        _ => return None,
    })
}

fn weekday(name: &str) -> Option<Weekday> {
    Some(match name {
        "mon" | "monday" | "lundi" => Weekday::Monday,
        "tue" | "tuesday" | "mardi" => Weekday::Tuesday,
        "wed" | "wednesday" | "mercredi" => Weekday::Wednesday,
        "thu" | "thursday" | "jeudi" => Weekday::Thursday,
        "fri" | "friday" | "vendredi" => Weekday::Friday,
        "sat" | "saturday" | "samedi" => Weekday::Saturday,
        "sun" | "sunday" | "dimanche" => Weekday::Sunday,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context at Saturday, 21 November 2026, 22:30 UTC, in the time zone UTC+`hours`. In UTC+2 it is already Sunday.
    fn date_context(hours: i8) -> DateContext {
        DateContext {
            now: Timestamp::from_millis(1_795_300_200_000).unwrap(),
            zone: Zone::Of(TimeZone::fixed(jiff::tz::offset(hours))),
        }
    }

    fn parsed_range(text: &str, hours: i8) -> Option<(String, String)> {
        let time_range = date_context(hours).time_range(text)?;
        let at = |millis| {
            let at = jiff::Timestamp::from_millisecond(millis).unwrap();
            at.to_zoned(date_context(hours).zone.get())
                .strftime("%F %H:%M")
                .to_string()
        };
        Some((at(time_range.since), at(time_range.until)))
    }

    #[test]
    fn days_months_and_years_are_read_as_people_write_them() {
        for (text, since, until) in [
            ("2026-11-21", "2026-11-21", "2026-11-22"),
            ("20261121", "2026-11-21", "2026-11-22"),
            ("2026/11/21", "2026-11-21", "2026-11-22"),
            ("today", "2026-11-21", "2026-11-22"),
            ("Hier", "2026-11-20", "2026-11-21"),
            ("28-december", "2025-12-28", "2025-12-29"),
            ("december-28", "2025-12-28", "2025-12-29"),
            ("28 décembre", "2025-12-28", "2025-12-29"),
            ("Dec-28th", "2025-12-28", "2025-12-29"),
            ("28-dec-2024", "2024-12-28", "2024-12-29"),
            ("december-28-2024", "2024-12-28", "2024-12-29"),
            ("2024-dec-28", "2024-12-28", "2024-12-29"),
            ("21-november", "2026-11-21", "2026-11-22"),
            ("22-november", "2025-11-22", "2025-11-23"),
            ("29-february", "2024-02-29", "2024-03-01"),
            ("1er août", "2026-08-01", "2026-08-02"),
            ("dec", "2025-12-01", "2026-01-01"),
            ("novembre", "2026-11-01", "2026-12-01"),
            ("2025-12", "2025-12-01", "2026-01-01"),
            ("december-2024", "2024-12-01", "2025-01-01"),
            ("2025", "2025-01-01", "2026-01-01"),
            ("monday", "2026-11-16", "2026-11-17"),
            ("9999-12-29", "9999-12-29", "9999-12-30"),
            ("samedi", "2026-11-21", "2026-11-22"),
            ("sun", "2026-11-15", "2026-11-16"),
        ] {
            let expected = (format!("{since} 00:00"), format!("{until} 00:00"));
            assert_eq!(parsed_range(text, 0), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_last_days_of_the_calendar_are_accepted() {
        assert_eq!(jiff::Timestamp::MAX.as_millisecond(), MAX_MILLIS);
        for hours in [-12, 0, 14] {
            for text in ["9999-12-31", "9999-12-30", "9999-12", "9999"] {
                let time_range = date_context(hours).time_range(text).unwrap();
                assert!(
                    time_range.until <= MAX_MILLIS && time_range.since <= time_range.until,
                    "{text}"
                );
                assert!(time_range.until > 253_402_000_000_000, "{text}");
            }
        }
    }

    #[test]
    fn days_follow_the_time_zone_of_the_caller() {
        assert_eq!(parsed_range("today", 2).unwrap().0, "2026-11-22 00:00");
        assert_eq!(
            parsed_range("22-november", 2).unwrap().0,
            "2026-11-22 00:00"
        );
        assert_eq!(
            date_context(2).time_range("today").unwrap().since,
            date_context(0)
                .time_range("2026-11-21T22:00")
                .unwrap()
                .since
        );
        let noon = ("2026-11-21 12:00".to_owned(), "2026-11-21 12:00".to_owned());
        for text in [
            "2026-11-21T12:00",
            "2026-11-21 12:00:00",
            "2026-11-21T10:00:00Z",
        ] {
            assert_eq!(parsed_range(text, 2), Some(noon.clone()), "{text}");
        }
        assert_eq!(parsed_range("7d", 0).unwrap().0, "2026-11-14 22:30");
        assert_eq!(
            parsed_range("1795300200000", 0).unwrap().0,
            "2026-11-21 22:30"
        );
        let day = date_context(0)
            .whole_days(date_context(0).time_range("7d").unwrap())
            .unwrap();
        assert_eq!(Some(day), date_context(0).time_range("2026-11-14"));
        let month = date_context(0).time_range("dec").unwrap();
        assert_eq!(date_context(0).whole_days(month), Some(month));
    }

    #[test]
    fn a_day_on_which_clocks_change_is_shorter() {
        // Daylight saving begins on the last Sunday of March at 2:00.
        let rule = "CET-1CEST,M3.5.0,M10.5.0/3";
        let zone = Zone::Of(TimeZone::posix(rule).unwrap());
        let date_context = DateContext {
            zone,
            ..date_context(0)
        };
        let day = date_context.time_range("2026-03-29").unwrap();
        assert_eq!(day.until - day.since, 23 * 3_600_000);
    }

    #[test]
    fn text_that_is_no_date_is_refused() {
        for text in [
            "",
            "foo",
            "2026-13",
            "31-february",
            "32-dec",
            "0-dec",
            "28-dec-25",
            "1-2-3",
            "12",
            "-",
            "tomorrow",
            "28-28",
            "99999-12-01",
            "2025-12-28T25:00",
        ] {
            assert_eq!(parsed_range(text, 0), None, "{text}");
        }
    }
}
