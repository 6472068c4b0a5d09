//! Reads the table `checkpoint`.

use filrouge_store::rows::{CheckpointRow, SessionPk};
use filrouge_types::Result;
use tokio_postgres::types::Type;

use super::{Rows, bytes, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the column `data` of the checkpoint at `seq`.
pub(crate) fn read_checkpoint(seq: u64, data: &[u8]) -> Result<CheckpointRow> {
    CheckpointRow::decode(seq, data).ok_or_else(|| malformed("checkpoint"))
}

pub(super) fn by_seq(rows: &Rows<'_>, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>> {
    static SQL: Sql = Sql::new(
        "SELECT data FROM filrouge.checkpoint WHERE lane = $1 AND session_pk = $2 AND seq = $3",
        &[Type::INT2, Type::INT8, Type::INT8],
    );
    let fetched = rows.query_opt(&SQL, &[&rows.lane_of(pk), &sql_int(pk), &sql_int(seq)])?;
    fetched
        .map(|row| read_checkpoint(seq, bytes(&row, 0)?))
        .transpose()
}

pub(super) fn seqs(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<u64>> {
    static SQL: Sql = Sql::new(
        "SELECT seq FROM filrouge.checkpoint WHERE lane = $1 AND session_pk = $2 ORDER BY seq",
        &[Type::INT2, Type::INT8],
    );
    let fetched = rows.query_all(&SQL, &[&rows.lane_of(pk), &sql_int(pk)])?;
    fetched.iter().map(|row| read_u64(row, 0)).collect()
}
