//! Rows that are looked at in place.

use rusqlite::types::ValueRef;

/// A row; its values are those in SQLite's own memory, not copied. A column that is not there is NULL.
pub struct Row<'a>(pub(super) &'a rusqlite::Row<'a>);

impl Row<'_> {
    /// Where the column of a name is; behind all others when there is none.
    #[must_use]
    pub fn column(&self, name: &str) -> usize {
        self.0.as_ref().column_index(name).unwrap_or(usize::MAX)
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        self.0.get_ref(column).unwrap_or(ValueRef::Null)
    }

    /// A text; `None` for anything else, and for what is not UTF-8.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<&str> {
        match self.value(column) {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The bytes of a text or a blob; not looked at, so this is the cheaper way for large values.
    #[must_use]
    pub fn bytes(&self, column: usize) -> Option<&[u8]> {
        match self.value(column) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A whole number, also where SQLite holds it as `1.0`.
    #[must_use]
    pub fn integer(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            ValueRef::Integer(number) => Some(number),
            // 2^53: up to there every whole number is exact.
            ValueRef::Real(real)
                if real.fract() == 0.0 && real.abs() <= 9_007_199_254_740_992.0 =>
            {
                Some(real as i64)
            }
            _ => None,
        }
    }

    /// A number.
    #[must_use]
    pub fn real(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            ValueRef::Integer(number) => Some(number as f64),
            ValueRef::Real(real) => Some(real),
            _ => None,
        }
    }
}
