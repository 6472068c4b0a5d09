//! Events that are like the one before but for a few values.

use std::ops::Range;

use super::cursor::Cursor;

/// Most bytes of what events have in common.
const SHAPE_BYTES: usize = 4 << 10;

/// What an event has beside `N` values: most events are like the one before but for these, and what is the same need
/// not be looked at again.
#[derive(Default)]
pub(super) struct Shape<const N: usize> {
    /// What stands before each of the values, and which it is.
    before: Vec<(String, usize)>,
    end: String,
}

impl<const N: usize> Shape<N> {
    /// The values of an event of this shape; one that the shape does not have is empty.
    pub(super) fn fit<'a>(&self, data: &'a str) -> Option<[&'a str; N]> {
        if self.before.is_empty() {
            return None;
        }
        let (mut values, mut cursor) = ([""; N], Cursor::new(data));
        for (before, which) in &self.before {
            if !cursor.pass_over(before) {
                return None;
            }
            *values.get_mut(*which)? = cursor.value()?;
        }
        (cursor.ahead() == self.end).then_some(values)
    }

    /// Keeps the shape of an event whose values stand here; an empty range is that of a value that is not there.
    pub(super) fn keep(&mut self, data: &str, values: &[Range<usize>; N]) {
        self.before.clear();
        let values_bytes: usize = values.iter().map(ExactSizeIterator::len).sum();
        if data.len() - values_bytes > SHAPE_BYTES {
            return;
        }
        let mut places: Vec<_> = values
            .iter()
            .zip(0..)
            .filter(|(v, _)| !v.is_empty())
            .collect();
        places.sort_by_key(|(value, _)| value.start);
        let mut at = 0;
        for (value, which) in places {
            let before = data.get(at..value.start).unwrap_or_default();
            self.before.push((before.to_owned(), which));
            at = value.end;
        }
        data.get(at..).unwrap_or_default().clone_into(&mut self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_before_is_fitted() {
        let mut shape = Shape::<3>::default();
        let event = r#"{"n":1,"a":"x","t":"one"}"#;
        assert_eq!(shape.fit(event), None);
        shape.keep(event, &[19..24, 0..0, 5..6]);
        assert_eq!(shape.fit(event), Some([r#""one""#, "", "1"]));
        let other = r#"{"n":22,"a":"x","t":"t\"o"}"#;
        assert_eq!(shape.fit(other), Some([r#""t\"o""#, "", "22"]));
        for odd in [
            r#"{"n":1,"a":"y","t":"one"}"#,
            r#"{"n":1,"a":"x","t":"one","b":1}"#,
            r#"{"n":1,"a":"x","t":"one"} "#,
            r#"{"n":01,"a":"x","t":"one"}"#,
            r#"{"n":1,"a":"x","t":"o"#,
        ] {
            assert_eq!(shape.fit(odd), None, "{odd}");
        }
    }
}
