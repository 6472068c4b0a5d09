//! Reads the table `commit_log`.

use filrouge_store::rows::LogRow;
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Rows, bytes, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Reads the newest commit.
pub(crate) static NEWEST_LOG: Sql = Sql::new(
    "SELECT commit_no, data FROM filrouge.commit_log ORDER BY commit_no DESC LIMIT 1",
    &[],
);

/// Decodes the columns commit_no and data, of which the first is column `first_column`.
pub(crate) fn read_log(row: &Row, first_column: usize) -> Result<LogRow, Failure> {
    LogRow::decode(read_u64(row, first_column)?, bytes(row, first_column + 1)?)
        .ok_or_else(|| malformed("commit"))
}

pub(super) fn page(rows: &Rows<'_>, after: u64, limit: usize) -> Result<Vec<LogRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT commit_no, data FROM filrouge.commit_log WHERE commit_no > $1 ORDER BY commit_no LIMIT $2",
        &[Type::INT8, Type::INT8],
    );
    let fetched = rows.query_all(&SQL, &[&sql_int(after), &sql_int(limit as u64)])?;
    fetched.iter().map(|row| read_log(row, 0)).collect()
}
