//! Times as these programs write them.

use filrouge_types::Timestamp;

/// Milliseconds since 1970 of an RFC 3339 text. The one form both programs write, `2026-09-12T20:37:51.627Z`, is read
/// here; every other by the general reader.
pub(super) fn millis(text: &str) -> Option<i64> {
    common(text.as_bytes()).or_else(|| {
        let time: Timestamp = text.parse().ok()?;
        Some(time.as_millis())
    })
}

fn common(text: &[u8]) -> Option<i64> {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        b'.',
        f1,
        f2,
        f3,
        b'Z',
    ] = text
    else {
        return None;
    };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let (month, day) = (number(&[*m1, *m2])?, number(&[*d1, *d2])?);
    let (hour, minute) = (number(&[*h1, *h2])?, number(&[*n1, *n2])?);
    let (second, milli) = (number(&[*s1, *s2])?, number(&[*f1, *f2, *f3])?);
    // Days that not every month has are left to the general reader.
    let usual = (1..=12).contains(&month) && (1..=28).contains(&day);
    if !usual || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1000 + milli)
}

fn number(digits: &[u8]) -> Option<i64> {
    let add = |sum: i64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        Some(sum * 10 + digit)
    };
    digits.iter().try_fold(0, add)
}

/// Days from 1970-01-01, by counting years from March on, so that a leap day ends its year.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_agrees_with_the_long_one() {
        for year in [1970, 1999, 2000, 2024, 2026, 2100, 2400] {
            for month in 1..=12 {
                for day in [1, 2, 27, 28, 29, 30, 31] {
                    let text = format!("{year}-{month:02}-{day:02}T23:05:59.007Z");
                    let long: Option<Timestamp> = text.parse().ok();
                    let long = long.map(Timestamp::as_millis);
                    assert_eq!(millis(&text), long, "{text}");
                    assert_eq!(common(text.as_bytes()).is_some(), day <= 28, "{text}");
                }
            }
        }
        assert_eq!(millis("2026-09-12T20:37:51Z"), Some(1_789_245_471_000));
        assert_eq!(millis("2026-09-12T20:37:51.6275Z"), Some(1_789_245_471_627));
        for bad in [
            "",
            "2026-13-12T20:37:51.627Z",
            "2026-09-12T25:37:51.627Z",
            "yesterday",
        ] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }
}
