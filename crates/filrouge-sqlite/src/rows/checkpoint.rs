//! The table `checkpoint`.

use filrouge_store::rows::{CheckpointRow, SessionPk};
use filrouge_types::Result;
use rusqlite::params;

use super::{Rows, check_order, read_u64, sql_int};
use crate::error::malformed;

pub(super) fn get(rows: &Rows<'_>, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>> {
    let sql = "SELECT seq, data FROM checkpoint WHERE session_pk = ?1 AND seq = ?2";
    let found = rows.query_optional(sql, [sql_int(pk), sql_int(seq)], |row| {
        Ok(CheckpointRow::decode(
            read_u64(row, 0)?,
            row.get_ref(1)?.as_blob()?,
        ))
    })?;
    found
        .map(|row| row.ok_or_else(|| malformed("checkpoint")))
        .transpose()
}

pub(super) fn seqs(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<u64>> {
    let sql = "SELECT seq FROM checkpoint WHERE session_pk = ?1 ORDER BY seq";
    let seqs = rows.query_all(sql, [sql_int(pk)], |row| read_u64(row, 0))?;
    check_order(seqs.iter().copied(), (0, u64::MAX), false, "checkpoints")?;
    Ok(seqs)
}

pub(super) fn put(rows: &Rows<'_>, pk: SessionPk, row: &CheckpointRow) -> Result<()> {
    let sql = "INSERT INTO checkpoint (session_pk, seq, data) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET data = ?3";
    let seq = sql_int(row.checkpoint.seq);
    rows.execute(sql, params![sql_int(pk), seq, row.encode()])
}

pub(super) fn delete(rows: &Rows<'_>, pk: SessionPk, seq: u64) -> Result<()> {
    let sql = "DELETE FROM checkpoint WHERE session_pk = ?1 AND seq = ?2";
    rows.execute(sql, [sql_int(pk), sql_int(seq)])
}
