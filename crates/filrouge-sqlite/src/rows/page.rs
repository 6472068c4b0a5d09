//! Pages of rows that may be large: rows are read one by one, so that only the rows of one page are in memory.

use filrouge_store::rows::until_full;
use filrouge_types::Failure;
use rusqlite::{Params, Row};

use super::Rows;
use crate::error::failure;

impl Rows<'_> {
    /// Like [`Rows::many`], but stops once the rows have enough bytes, each measured by `len`.
    pub(super) fn page<T, P: Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<Result<T, Failure>>,
        len: impl Fn(&T) -> usize,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.prepare(sql).map_err(failure)?;
        let rows = statement.query_map(params, read).map_err(failure)?;
        until_full(rows.map(|row| row.map_err(failure)?), len)
    }
}
