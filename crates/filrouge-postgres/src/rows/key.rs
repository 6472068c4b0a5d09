//! Reads the table `item_key`: the idempotency keys of items and requests.

use filrouge_store::rows::{KeyRow, SessionPk};
use filrouge_types::Failure;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, column, read_u64, sql_int};
use crate::session::Sql;

pub(super) fn seq(rows: &Rows<'_>, pk: SessionPk, key: [u8; 16]) -> Result<Option<u64>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT seq FROM filrouge.item_key WHERE session_pk = $1 AND key = $2",
        &[Type::INT8, Type::UUID],
    );
    let row = rows.query_opt(&SQL, &[&sql_int(pk), &Uuid::from_bytes(key)])?;
    row.map(|row| read_u64(&row, 0)).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: Option<[u8; 16]>,
    limit: usize,
) -> Result<Vec<KeyRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT key, seq FROM filrouge.item_key
         WHERE session_pk = $1 AND key >= $2 AND ($4 OR key > $2) ORDER BY key LIMIT $3",
        &[Type::INT8, Type::UUID, Type::INT8, Type::BOOL],
    );
    let (from, from_start) = (Uuid::from_bytes(after.unwrap_or_default()), after.is_none());
    let fetched = rows.query_all(
        &SQL,
        &[&sql_int(pk), &from, &sql_int(limit as u64), &from_start],
    )?;
    let read = |row: &tokio_postgres::Row| {
        let key: Uuid = column(row, 0)?;
        Ok(KeyRow {
            key: key.into_bytes(),
            seq: read_u64(row, 1)?,
        })
    };
    fetched.iter().map(read).collect()
}
