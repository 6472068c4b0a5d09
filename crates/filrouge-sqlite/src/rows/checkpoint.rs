//! The table `checkpoint`.

use filrouge_store::rows::{CheckpointRow, SessionPk};
use filrouge_types::Failure;
use rusqlite::params;

use super::{Rows, in_order, int, uint};
use crate::error::malformed;

pub(super) fn get(
    rows: &Rows<'_>,
    pk: SessionPk,
    seq: u64,
) -> Result<Option<CheckpointRow>, Failure> {
    let sql = "SELECT seq, data FROM checkpoint WHERE session_pk = ?1 AND seq = ?2";
    let found = rows.one(sql, [int(pk), int(seq)], |row| {
        Ok(CheckpointRow::decode(
            uint(row, 0)?,
            row.get_ref(1)?.as_blob()?,
        ))
    })?;
    found
        .map(|row| row.ok_or_else(|| malformed("checkpoint")))
        .transpose()
}

pub(super) fn seqs(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<u64>, Failure> {
    let sql = "SELECT seq FROM checkpoint WHERE session_pk = ?1 ORDER BY seq";
    let seqs = rows.many(sql, [int(pk)], |row| uint(row, 0))?;
    in_order(seqs.iter().copied(), (0, u64::MAX), false, "checkpoints")?;
    Ok(seqs)
}

pub(super) fn put(rows: &Rows<'_>, pk: SessionPk, row: &CheckpointRow) -> Result<(), Failure> {
    let sql = "INSERT INTO checkpoint (session_pk, seq, data) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET data = ?3";
    let seq = int(row.checkpoint.seq);
    rows.run(sql, params![int(pk), seq, row.encode()])
}

pub(super) fn delete(rows: &Rows<'_>, pk: SessionPk, seq: u64) -> Result<(), Failure> {
    let sql = "DELETE FROM checkpoint WHERE session_pk = ?1 AND seq = ?2";
    rows.run(sql, [int(pk), int(seq)])
}
