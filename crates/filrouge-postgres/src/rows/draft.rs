//! Reads the tables `draft` and `draft_chunk`. A draft's `place` is the place of its turn in the session.

use filrouge_store::rows::{DraftChunk, DraftRow, SessionPk};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Rows, bytes, int, uint};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns session_pk, place and data. The draft is `None` if `data` is malformed.
fn read(row: &Row) -> Result<(SessionPk, Option<DraftRow>), Failure> {
    let place = uint(row, 1)?;
    Ok((uint(row, 0)?, DraftRow::decode(place, bytes(row, 2)?)))
}

/// Decodes the column `data` of the draft at `place`.
pub(crate) fn read_draft(place: u64, data: &[u8]) -> Result<DraftRow, Failure> {
    DraftRow::decode(place, data).ok_or_else(|| malformed("draft"))
}

fn well_formed<T>(row: Option<T>) -> Result<T, Failure> {
    row.ok_or_else(|| malformed("draft"))
}

pub(super) fn get(rows: &Rows<'_>, pk: SessionPk, place: u64) -> Result<Option<DraftRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, data FROM filrouge.draft WHERE session_pk = $1 AND place = $2",
        &[Type::INT8, Type::INT8],
    );
    let found = rows.one(&SQL, &[&int(pk), &int(place)])?;
    found.map(|row| well_formed(read(&row)?.1)).transpose()
}

pub(super) fn of_session(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<DraftRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, data FROM filrouge.draft WHERE session_pk = $1 ORDER BY place",
        &[Type::INT8],
    );
    let found = rows.many(&SQL, &[&int(pk)])?;
    found.iter().map(|row| well_formed(read(row)?.1)).collect()
}

pub(super) fn all(rows: &Rows<'_>) -> Result<Vec<(SessionPk, DraftRow)>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, data FROM filrouge.draft ORDER BY session_pk, place",
        &[],
    );
    let found = rows.many(&SQL, &[])?;
    let drafts: Vec<_> = found
        .iter()
        .filter_map(|row| read(row).ok())
        .filter_map(|(pk, row)| row.map(|row| (pk, row)))
        .collect();
    if drafts.len() < found.len() {
        let malformed = found.len() - drafts.len();
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
    static SQL: Sql = Sql::new(
        "SELECT number, data FROM filrouge.draft_chunk
         WHERE session_pk = $1 AND place = $2 AND number > $3 ORDER BY number",
        &[Type::INT8, Type::INT8, Type::INT8],
    );
    let found = rows.many(&SQL, &[&int(pk), &int(place), &int(after)])?;
    let read = |row: &Row| well_formed(DraftChunk::decode(uint(row, 0)?, bytes(row, 1)?));
    found.iter().map(read).collect()
}
