//! Days, months and moments as people write them: `28-december`, `monday`, `2025-12`, `7d`, an ISO time.
//!
//! English and French. What names no year is the latest that is not in the future; a day begins and ends where the
//! asker lives.

use filrouge_store::text_index::fold;
use filrouge_types::{Moment, Timestamp};
use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;

/// What can be written, to tell whoever has written something else.
pub(crate) const FORMS: &str = "give a day such as 2025-12-28, 28-december, 28-dec-2025, monday, today or yesterday, a \
     month such as december or 2025-12, a time such as 2025-12-28T14:30:00Z, or how long ago such as 7d";

/// The last moment there is: what [`jiff::Timestamp::MAX`] is.
const LAST: i64 = 253_402_207_200_999;

/// Where days begin and end.
#[derive(Debug, Clone, Default)]
pub enum Zone {
    /// In UTC.
    #[default]
    Utc,
    /// Where this machine is. It is found out for a question with a date alone: that takes longer than many a search.
    System,
    /// There.
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

/// A stretch of time, milliseconds since 1970: from the first until before the second. Of a moment both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) since: i64,
    pub(crate) until: i64,
}

/// From when and where it is asked.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    pub(crate) now: Timestamp,
    pub(crate) zone: Zone,
}

impl Here {
    /// The stretch of time that a text names.
    pub(crate) fn stretch(&self, text: &str) -> Option<Stretch> {
        let word = fold(text.trim());
        let today = self.today()?;
        let day = match &*word {
            "today" | "aujourd'hui" | "aujourdhui" => Some(today),
            "yesterday" | "hier" => today.yesterday().ok(),
            word => weekday(word).and_then(|wanted| last(today, |day| day.weekday() == wanted, 7)),
        };
        if let Some(day) = day {
            return self.days(day, day);
        }
        self.of_parts(&word, today)
            .or_else(|| self.moment(text.trim()))
    }

    /// The whole days that a stretch touches.
    pub(crate) fn whole_days(&self, stretch: Stretch) -> Option<Stretch> {
        let day = |millis| {
            let at = jiff::Timestamp::from_millisecond(millis).ok()?;
            Some(at.to_zoned(self.zone.get()).date())
        };
        let last = stretch.until.max(stretch.since.saturating_add(1)) - 1;
        self.days(day(stretch.since)?, day(last)?)
    }

    fn today(&self) -> Option<Date> {
        let now = jiff::Timestamp::from_microsecond(self.now.as_micros()).ok()?;
        Some(now.to_zoned(self.zone.get()).date())
    }

    fn days(&self, first: Date, last: Date) -> Option<Stretch> {
        Some(Stretch {
            since: self.begin(first)?,
            until: last.tomorrow().map_or(Some(LAST), |day| self.begin(day))?,
        })
    }

    /// When a day begins. Of the last days there are not all are moments everywhere: the last moment then.
    fn begin(&self, day: Date) -> Option<i64> {
        let last = || (day >= Date::MAX.yesterday().ok()?).then_some(LAST);
        self.at(day.at(0, 0, 0, 0)).or_else(last)
    }

    fn at(&self, civil: DateTime) -> Option<i64> {
        let zoned = civil.to_zoned(self.zone.get()).ok()?;
        Some(zoned.timestamp().as_millisecond())
    }

    /// Years, months and days, of which at least the month or the year is named.
    fn of_parts(&self, word: &str, today: Date) -> Option<Stretch> {
        let parts = word.split(['-', '/', ' ']).filter(|part| !part.is_empty());
        let parts: Vec<Part> = parts.map(Part::of).collect::<Option<_>>()?;
        let month_of = |first: Date| self.days(first, first.last_of_month());
        match *parts.as_slice() {
            [Part::Year(year)] => {
                let first = Date::new(year, 1, 1).ok()?;
                self.days(first, first.last_of_year())
            }
            [Part::Month(month)] => {
                let year = today.year() - i16::from(month > today.month());
                month_of(Date::new(year, month, 1).ok()?)
            }
            [Part::Year(year), Part::Month(month)] | [Part::Month(month), Part::Year(year)] => {
                month_of(Date::new(year, month, 1).ok()?)
            }
            [Part::Year(year), Part::Day(month)] => month_of(Date::new(year, month, 1).ok()?),
            [Part::Day(day), Part::Month(month)] | [Part::Month(month), Part::Day(day)] => {
                // The 29th of February comes every eighth year at the latest.
                let years = (0..=8).map(|ago| Date::new(today.year() - ago, month, day));
                let day = years.flatten().find(|day| *day <= today)?;
                self.days(day, day)
            }
            [Part::Year(year), Part::Day(month), Part::Day(day)]
            | [Part::Year(year), Part::Month(month), Part::Day(day)]
            | [Part::Day(day), Part::Month(month), Part::Year(year)]
            | [Part::Month(month), Part::Day(day), Part::Year(year)] => {
                let day = Date::new(year, month, day).ok()?;
                self.days(day, day)
            }
            _ => None,
        }
    }

    /// A time; without an offset it is of the asker's zone.
    fn moment(&self, text: &str) -> Option<Stretch> {
        let is_time = text.contains(['T', 't', ' ', ':']);
        let civil = || text.parse::<DateTime>().ok().filter(|_| is_time);
        let since = match text.parse::<jiff::Timestamp>() {
            Ok(at) => at.as_millisecond(),
            Err(_) => match civil() {
                Some(civil) => self.at(civil)?,
                None => return self.other(text),
            },
        };
        let until = since;
        Some(Stretch { since, until })
    }

    /// What else is a moment elsewhere: `20251228`, `7d`, milliseconds since 1970.
    fn other(&self, text: &str) -> Option<Stretch> {
        let moment: Moment = text.parse().ok()?;
        if let Moment::Day(_) = moment {
            let day: Date = text.parse().ok()?;
            return self.days(day, day);
        }
        let since = moment.start(self.now).as_millis();
        let until = since;
        Some(Stretch { since, until })
    }
}

/// The latest day not behind `today` that is `wanted`, of so many.
fn last(today: Date, wanted: impl Fn(Date) -> bool, days: i64) -> Option<Date> {
    let mut before = (0..days).filter_map(|ago| today.checked_sub(ago.days()).ok());
    before.find(|day| wanted(*day))
}

/// A part of a date.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Four digits.
    Year(i16),
    /// By its name.
    Month(i8),
    /// One or two digits; behind a year also a month.
    Day(i8),
}

impl Part {
    fn of(word: &str) -> Option<Self> {
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

/// The number of a month by its folded name.
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

    /// Saturday, 21 November 2026, 22:30 in UTC; Sunday already two hours further east.
    fn here(hours: i8) -> Here {
        Here {
            now: Timestamp::from_millis(1_795_300_200_000).unwrap(),
            zone: Zone::Of(TimeZone::fixed(jiff::tz::offset(hours))),
        }
    }

    fn read(text: &str, hours: i8) -> Option<(String, String)> {
        let stretch = here(hours).stretch(text)?;
        let at = |millis| {
            let at = jiff::Timestamp::from_millisecond(millis).unwrap();
            at.to_zoned(here(hours).zone.get())
                .strftime("%F %H:%M")
                .to_string()
        };
        Some((at(stretch.since), at(stretch.until)))
    }

    #[test]
    fn days_months_and_years_as_people_write_them() {
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
            assert_eq!(read(text, 0), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_last_day_is_one() {
        assert_eq!(jiff::Timestamp::MAX.as_millisecond(), LAST);
        for hours in [-12, 0, 14] {
            for text in ["9999-12-31", "9999-12-30", "9999-12", "9999"] {
                let stretch = here(hours).stretch(text).unwrap();
                assert!(
                    stretch.until <= LAST && stretch.since <= stretch.until,
                    "{text}"
                );
                assert!(stretch.until > 253_402_000_000_000, "{text}");
            }
        }
    }

    #[test]
    fn days_are_those_of_the_asker() {
        assert_eq!(read("today", 2).unwrap().0, "2026-11-22 00:00");
        assert_eq!(read("22-november", 2).unwrap().0, "2026-11-22 00:00");
        assert_eq!(
            here(2).stretch("today").unwrap().since,
            here(0).stretch("2026-11-21T22:00").unwrap().since
        );
        let noon = ("2026-11-21 12:00".to_owned(), "2026-11-21 12:00".to_owned());
        for text in [
            "2026-11-21T12:00",
            "2026-11-21 12:00:00",
            "2026-11-21T10:00:00Z",
        ] {
            assert_eq!(read(text, 2), Some(noon.clone()), "{text}");
        }
        assert_eq!(read("7d", 0).unwrap().0, "2026-11-14 22:30");
        assert_eq!(read("1795300200000", 0).unwrap().0, "2026-11-21 22:30");
        let day = here(0).whole_days(here(0).stretch("7d").unwrap()).unwrap();
        assert_eq!(Some(day), here(0).stretch("2026-11-14"));
        let month = here(0).stretch("dec").unwrap();
        assert_eq!(here(0).whole_days(month), Some(month));
    }

    #[test]
    fn where_clocks_are_changed_days_are_shorter() {
        // Daylight saving begins on the last Sunday of March at 2:00.
        let rule = "CET-1CEST,M3.5.0,M10.5.0/3";
        let zone = Zone::Of(TimeZone::posix(rule).unwrap());
        let here = Here { zone, ..here(0) };
        let day = here.stretch("2026-03-29").unwrap();
        assert_eq!(day.until - day.since, 23 * 3_600_000);
    }

    #[test]
    fn what_is_no_date_is_none() {
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
            assert_eq!(read(text, 0), None, "{text}");
        }
    }
}
