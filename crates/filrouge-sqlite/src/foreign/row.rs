//! Rows of foreign databases.

use rusqlite::types::ValueRef;

/// A row. Its values are borrowed from SQLite's memory, not copied. A column that does not exist counts as NULL.
pub struct Row<'a>(pub(super) &'a rusqlite::Row<'a>);

impl Row<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.0.get_ref(column).unwrap_or(ValueRef::Null)
    }

    /// Returns a text; `None` for any other type, and for invalid UTF-8.
    pub fn text(&self, column: usize) -> Option<&str> {
        match self.value(column) {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The bytes of a text or a blob; UTF-8 is not checked, so this is cheaper for large values.
    pub fn bytes(&self, column: usize) -> Option<&[u8]> {
        match self.value(column) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns an integer, even if SQLite stores it as `1.0`.
    pub fn integer(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            ValueRef::Integer(number) => Some(number),
            // A real number represents every integer up to 2^53 exactly.
            ValueRef::Real(real)
                if real.fract() == 0.0 && real.abs() <= 9_007_199_254_740_992.0 =>
            {
                Some(real as i64)
            }
            _ => None,
        }
    }

    /// Returns an integer or a real number as a real number.
    pub fn real(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            ValueRef::Integer(number) => Some(number as f64),
            ValueRef::Real(real) => Some(real),
            _ => None,
        }
    }
}
