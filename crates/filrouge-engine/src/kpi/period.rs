//! The weeks and days of a window.

use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::tally::KpiTally;
use super::{DAY, Every, KpiRow, WEEK};

/// The maximum number of rows of a report: more than a year of days.
const ROWS_MAX: usize = 400;
/// The beginning of a week, in microseconds since 1970. 1970 began on a Thursday, so the preceding Monday was three
/// days earlier.
const FIRST_MONDAY: i64 = -3 * DAY;

/// The period of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Period {
    name: Option<Box<str>>,
    since: Timestamp,
    pub(super) until: Timestamp,
}

impl Period {
    pub(super) fn row(self, tally: KpiTally) -> KpiRow {
        KpiRow {
            period: self.name,
            since: self.since,
            until: self.until,
            figures: tally.figures(),
        }
    }
}

/// The periods that a window overlaps. The first and the last one are clipped to the window.
///
/// # Errors
/// `invalid` when the window is empty or has too many periods.
pub(super) fn periods(
    since: Timestamp,
    until: Timestamp,
    by: Option<Every>,
) -> Result<Vec<Period>, Failure> {
    if since >= until {
        let detail = format!("since is {since}, which is not before until, {until}");
        return Err(Failure::new(ErrorCode::Invalid, detail));
    }
    let Some(by) = by else {
        let name = None;
        return Ok(vec![Period { name, since, until }]);
    };
    let (length, origin) = match by {
        Every::Week => (WEEK, FIRST_MONDAY),
        Every::Day => (DAY, 0),
    };
    let (from, to) = (since.as_micros(), until.as_micros());
    let mut periods = Vec::new();
    // Saturating arithmetic: periods at the ends of a window may exceed the range of timestamps.
    let index = from.saturating_sub(origin).div_euclid(length);
    let mut begin = origin.saturating_add(index.saturating_mul(length));
    while begin < to {
        if periods.len() == ROWS_MAX {
            let detail = format!("there would be more than {ROWS_MAX} rows");
            return Err(Failure::new(ErrorCode::Invalid, detail)
                .with_hint("request a shorter window, or one row per week"));
        }
        let end = begin.saturating_add(length);
        periods.push(Period {
            name: Some(period_name(by, begin).into()),
            since: Timestamp::from_micros(begin.max(from)),
            until: Timestamp::from_micros(end.min(to)),
        });
        begin = end;
    }
    Ok(periods)
}

/// The ISO 8601 name of the period that begins at `begin`, in microseconds since 1970.
fn period_name(by: Every, begin: i64) -> String {
    match by {
        Every::Day => date(begin),
        Every::Week => {
            // A week belongs to the year of its Thursday.
            let thursday = begin.saturating_add(3 * DAY);
            let date = date(thursday);
            let year = date.rsplitn(3, '-').nth(2).unwrap_or(&date);
            let new_year: Option<Timestamp> = format!("{year}-01-01T00:00:00Z").parse().ok();
            let new_year = new_year.map_or(thursday, Timestamp::as_micros);
            format!("{year}-W{:02}", (thursday - new_year).div_euclid(WEEK) + 1)
        }
    }
}

fn date(moment: i64) -> String {
    let text = Timestamp::from_micros(moment).to_string();
    text.split('T').next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods_of(since: &str, until: &str, by: Option<Every>) -> Vec<(String, String, String)> {
        let (since, until) = (since.parse().unwrap(), until.parse().unwrap());
        let periods = periods(since, until, by).unwrap().into_iter();
        let short = |t: Timestamp| t.to_string().replace(":00.000000Z", "");
        periods
            .map(|p| {
                let name = p.name.unwrap_or_default().into_string();
                (name, short(p.since), short(p.until))
            })
            .collect()
    }

    fn expected(rows: &[[&str; 3]]) -> Vec<(String, String, String)> {
        let owned = |[a, b, c]: &[&str; 3]| (a.to_string(), b.to_string(), c.to_string());
        rows.iter().map(owned).collect()
    }

    #[test]
    fn weeks_begin_on_monday_and_are_clipped_to_the_window() {
        // 2026-11-22 is a Sunday.
        assert_eq!(
            periods_of(
                "2026-11-22T10:00:00Z",
                "2026-12-01T00:00:00Z",
                Some(Every::Week)
            ),
            expected(&[
                ["2026-W47", "2026-11-22T10:00", "2026-11-23T00:00"],
                ["2026-W48", "2026-11-23T00:00", "2026-11-30T00:00"],
                ["2026-W49", "2026-11-30T00:00", "2026-12-01T00:00"],
            ])
        );
        // The first days of 2027 belong to the 53rd week of 2026.
        assert_eq!(
            periods_of(
                "2026-12-28T00:00:00Z",
                "2027-01-11T00:00:00Z",
                Some(Every::Week)
            ),
            expected(&[
                ["2026-W53", "2026-12-28T00:00", "2027-01-04T00:00"],
                ["2027-W01", "2027-01-04T00:00", "2027-01-11T00:00"],
            ])
        );
        // The last day of 2024 belongs to the first week of 2025.
        let [(name, ..)] = &periods_of(
            "2024-12-31T00:00:00Z",
            "2025-01-01T00:00:00Z",
            Some(Every::Week),
        )[..] else {
            panic!("one week");
        };
        assert_eq!(name, "2025-W01");
    }

    #[test]
    fn days_are_in_utc() {
        assert_eq!(
            periods_of(
                "1969-12-31T23:30:00Z",
                "1970-01-01T01:00:00Z",
                Some(Every::Day)
            ),
            expected(&[
                ["1969-12-31", "1969-12-31T23:30", "1970-01-01T00:00"],
                ["1970-01-01", "1970-01-01T00:00", "1970-01-01T01:00"],
            ])
        );
        assert_eq!(
            periods_of("2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z", None),
            expected(&[["", "2026-11-22T00:00", "2026-11-23T00:00"]])
        );
    }

    #[test]
    fn windows_that_are_empty_or_too_long_are_refused() {
        let moment = |days: i64| Timestamp::from_micros(days * DAY);
        for (since, until) in [(1, 1), (2, 1), (0, 401)] {
            let refused = periods(moment(since), moment(until), Some(Every::Day));
            assert_eq!(refused.unwrap_err().code, ErrorCode::Invalid);
        }
        assert_eq!(
            periods(moment(0), moment(400), Some(Every::Day))
                .unwrap()
                .len(),
            400
        );
        let (earliest, latest) = (
            Timestamp::from_micros(i64::MIN),
            Timestamp::from_micros(i64::MAX),
        );
        for by in [Every::Week, Every::Day] {
            periods(earliest, latest, Some(by)).unwrap_err();
        }
        assert_eq!(periods(earliest, latest, None).unwrap().len(), 1);
    }
}
