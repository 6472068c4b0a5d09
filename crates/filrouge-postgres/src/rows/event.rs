//! The event table.

use filrouge_store::rows::{EventRow, SessionPk, until_full};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, bytes, int, uint};
use crate::error::malformed;
use crate::session::Sql;

/// number, data.
fn read(row: &Row) -> Result<EventRow, Failure> {
    EventRow::decode(uint(row, 0)?, bytes(row, 1)?).ok_or_else(|| malformed("event"))
}

pub(super) fn by_key(
    rows: &Rows<'_>,
    pk: SessionPk,
    key: [u8; 16],
) -> Result<Option<EventRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT number, data FROM filrouge.event WHERE session_pk = $1 AND key = $2",
        &[Type::INT8, Type::UUID],
    );
    let found = rows.one(&SQL, &[&int(pk), &Uuid::from_bytes(key)])?;
    found.as_ref().map(read).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT number, data FROM filrouge.event
         WHERE session_pk = $1 AND number > $2 ORDER BY number LIMIT $3",
        &[Type::INT8, Type::INT8, Type::INT8],
    );
    let found = rows.many(&SQL, &[&int(pk), &int(after), &int(limit as u64)])?;
    until_full(found.iter().map(read), EventRow::content_len)
}

pub(super) fn newest(rows: &Rows<'_>, pk: SessionPk) -> Result<u64, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT number FROM filrouge.event WHERE session_pk = $1 ORDER BY number DESC LIMIT 1",
        &[Type::INT8],
    );
    rows.number(&SQL, &[&int(pk)])
}
