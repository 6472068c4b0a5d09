//! Pages of rows that may be large: read one by one, so that no more of them is held than a page shows.

use filrouge_store::rows::until_full;
use filrouge_types::Failure;
use rusqlite::{Params, Row};

use super::Rows;
use crate::error::failure;

impl Rows<'_> {
    /// As [`Rows::many`], up to where the rows have enough bytes, each counted by `len`.
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
