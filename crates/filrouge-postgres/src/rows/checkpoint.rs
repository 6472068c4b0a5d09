//! Reads the table `checkpoint`.

use filrouge_store::rows::{CheckpointRow, SessionPk};
use filrouge_types::Failure;
use tokio_postgres::types::Type;

use super::{Rows, bytes, int, uint};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the column `data` of the checkpoint at `seq`.
pub(crate) fn read_checkpoint(seq: u64, data: &[u8]) -> Result<CheckpointRow, Failure> {
    CheckpointRow::decode(seq, data).ok_or_else(|| malformed("checkpoint"))
}

pub(super) fn at(
    rows: &Rows<'_>,
    pk: SessionPk,
    seq: u64,
) -> Result<Option<CheckpointRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT data FROM filrouge.checkpoint WHERE session_pk = $1 AND seq = $2",
        &[Type::INT8, Type::INT8],
    );
    let found = rows.one(&SQL, &[&int(pk), &int(seq)])?;
    found
        .map(|row| read_checkpoint(seq, bytes(&row, 0)?))
        .transpose()
}

pub(super) fn seqs(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<u64>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT seq FROM filrouge.checkpoint WHERE session_pk = $1 ORDER BY seq",
        &[Type::INT8],
    );
    let found = rows.many(&SQL, &[&int(pk)])?;
    found.iter().map(|row| uint(row, 0)).collect()
}
