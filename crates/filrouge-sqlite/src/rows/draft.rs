//! The tables `draft` (one row for each open turn with a draft) and `draft_chunk` (the draft's pieces of text).

use filrouge_store::rows::{DraftChunk, DraftRow, SessionPk};
use filrouge_types::Failure;
use rusqlite::{Row, params};

use super::{Rows, read_u64, sql_int, turn_row_id};
use crate::error::malformed;

/// Decodes the columns turn, data: the session's number and the draft, `None` if the draft is malformed.
fn read(row: &Row<'_>) -> rusqlite::Result<(SessionPk, Option<DraftRow>)> {
    let turn = read_u64(row, 0)?;
    let place = turn & u64::from(u32::MAX);
    let draft = DraftRow::decode(place, row.get_ref(1)?.as_blob()?);
    Ok((turn >> 32, draft))
}

fn require_decoded<T>(row: Option<T>) -> Result<T, Failure> {
    row.ok_or_else(|| malformed("draft"))
}

pub(super) fn get(rows: &Rows<'_>, pk: SessionPk, place: u64) -> Result<Option<DraftRow>, Failure> {
    if rows
        .in_cache(|cache| cache.has_no_draft(pk, place).then_some(()))
        .is_some()
    {
        return Ok(None);
    }
    let sql = "SELECT turn, data FROM draft WHERE turn = ?1";
    let found = rows.query_optional(sql, [turn_row_id(pk, place)], read)?;
    if found.is_none() {
        rows.update_cache(|cache| cache.set_without_draft(pk, Some(place)));
    }
    found.map(|(_, row)| require_decoded(row)).transpose()
}

pub(super) fn for_session(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<DraftRow>, Failure> {
    let sql = "SELECT turn, data FROM draft WHERE turn BETWEEN ?1 AND ?2 ORDER BY turn";
    let found = rows.query_all(sql, [turn_row_id(pk, 0), turn_row_id(pk, u64::MAX)], read)?;
    found
        .into_iter()
        .map(|(_, row)| require_decoded(row))
        .collect()
}

pub(super) fn all(rows: &Rows<'_>) -> Result<Vec<(SessionPk, DraftRow)>, Failure> {
    let found = rows.query_all("SELECT turn, data FROM draft ORDER BY turn", [], read)?;
    let row_count = found.len();
    let drafts = found.into_iter();
    let drafts: Vec<_> = drafts
        .filter_map(|(pk, row)| row.map(|row| (pk, row)))
        .collect();
    if drafts.len() < row_count {
        let malformed = row_count - drafts.len();
        tracing::error!(
            malformed,
            "stored drafts are malformed; `verify` names them"
        );
    }
    Ok(drafts)
}

pub(super) fn chunks(
    rows: &Rows<'_>,
    pk: SessionPk,
    place: u64,
    after: u64,
) -> Result<Vec<DraftChunk>, Failure> {
    let sql =
        "SELECT number, data FROM draft_chunk WHERE turn = ?1 AND number > ?2 ORDER BY number";
    let found = rows.query_all(sql, [turn_row_id(pk, place), sql_int(after)], |row| {
        Ok(DraftChunk::decode(
            read_u64(row, 0)?,
            row.get_ref(1)?.as_blob()?,
        ))
    })?;
    found.into_iter().map(require_decoded).collect()
}

pub(super) fn put(rows: &Rows<'_>, pk: SessionPk, row: &DraftRow) -> Result<(), Failure> {
    let sql = "INSERT INTO draft (turn, data) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = ?2";
    rows.execute(sql, params![turn_row_id(pk, row.place), row.encode()])
}

pub(super) fn insert_chunk(
    rows: &Rows<'_>,
    pk: SessionPk,
    place: u64,
    chunk: &DraftChunk,
) -> Result<(), Failure> {
    let sql = "INSERT INTO draft_chunk (turn, number, data) VALUES (?1, ?2, ?3)";
    rows.execute(
        sql,
        params![
            turn_row_id(pk, place),
            sql_int(chunk.number),
            chunk.encode()
        ],
    )
}

/// Deletes the pieces of text of a draft, but not the draft itself.
pub(super) fn delete_chunks(rows: &Rows<'_>, pk: SessionPk, place: u64) -> Result<(), Failure> {
    let sql = "DELETE FROM draft_chunk WHERE turn = ?1";
    rows.execute(sql, [turn_row_id(pk, place)])
}

pub(super) fn delete(rows: &Rows<'_>, pk: SessionPk, place: u64) -> Result<(), Failure> {
    delete_chunks(rows, pk, place)?;
    let sql = "DELETE FROM draft WHERE turn = ?1";
    rows.execute(sql, [turn_row_id(pk, place)])
}
