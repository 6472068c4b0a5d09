//! Reads pages of rows that may be large. Rows are read one by one, so that only the rows of one page are in memory.

use filrouge_store::rows::collect_until_full;
use filrouge_types::Failure;
use rusqlite::{Params, Row};

use super::Rows;
use crate::error::failure;

impl Rows<'_> {
    /// Like [`Rows::query_all`], but stops at the maximum number of bytes of a page, as [`collect_until_full`] does.
    /// `len` returns the bytes of a row.
    pub(super) fn page<T, P: Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<Result<T, Failure>>,
        len: impl Fn(&T) -> usize,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.prepare(sql).map_err(failure)?;
        let rows = statement.query_map(params, read).map_err(failure)?;
        collect_until_full(rows.map(|row| row.map_err(failure)?), len)
    }
}
