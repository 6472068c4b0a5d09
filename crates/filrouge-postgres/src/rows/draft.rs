//! Reads the tables `draft` and `draft_chunk`. A draft's `place` is the place of its turn in the session.

use filrouge_store::rows::{DraftChunk, DraftRow, SessionPk};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Rows, bytes, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns session_pk, place and data. The draft is `None` if `data` is malformed.
fn read(row: &Row) -> Result<(SessionPk, Option<DraftRow>), Failure> {
    let place = read_u64(row, 1)?;
    Ok((read_u64(row, 0)?, DraftRow::decode(place, bytes(row, 2)?)))
}

/// Decodes the column `data` of the draft at `place`.
pub(crate) fn read_draft(place: u64, data: &[u8]) -> Result<DraftRow, Failure> {
    DraftRow::decode(place, data).ok_or_else(|| malformed("draft"))
}

fn require_decoded<T>(row: Option<T>) -> Result<T, Failure> {
    row.ok_or_else(|| malformed("draft"))
}

pub(super) fn get(rows: &Rows<'_>, pk: SessionPk, place: u64) -> Result<Option<DraftRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, data FROM filrouge.draft
         WHERE lane = $1 AND session_pk = $2 AND place = $3",
        &[Type::INT2, Type::INT8, Type::INT8],
    );
    let (lane, place) = (rows.lane_of(pk), sql_int(place));
    let fetched = rows.query_opt(&SQL, &[&lane, &sql_int(pk), &place])?;
    fetched
        .map(|row| require_decoded(read(&row)?.1))
        .transpose()
}

pub(super) fn for_session(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<DraftRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, data FROM filrouge.draft
         WHERE lane = $1 AND session_pk = $2 ORDER BY place",
        &[Type::INT2, Type::INT8],
    );
    let fetched = rows.query_all(&SQL, &[&rows.lane_of(pk), &sql_int(pk)])?;
    fetched
        .iter()
        .map(|row| require_decoded(read(row)?.1))
        .collect()
}

pub(super) fn all(rows: &Rows<'_>) -> Result<Vec<(SessionPk, DraftRow)>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, data FROM filrouge.draft WHERE lane = $1 ORDER BY session_pk, place",
        &[Type::INT2],
    );
    let fetched: Vec<Row> = rows.query_lanes(&SQL, &[])?.into_iter().flatten().collect();
    let drafts: Vec<_> = fetched
        .iter()
        .filter_map(|row| read(row).ok())
        .filter_map(|(pk, row)| row.map(|row| (pk, row)))
        .collect();
    if drafts.len() < fetched.len() {
        let malformed = fetched.len() - drafts.len();
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
         WHERE lane = $1 AND session_pk = $2 AND place = $3 AND number > $4 ORDER BY number",
        &[Type::INT2, Type::INT8, Type::INT8, Type::INT8],
    );
    let (lane, place, after) = (rows.lane_of(pk), sql_int(place), sql_int(after));
    let fetched = rows.query_all(&SQL, &[&lane, &sql_int(pk), &place, &after])?;
    let read = |row: &Row| require_decoded(DraftChunk::decode(read_u64(row, 0)?, bytes(row, 1)?));
    fetched.iter().map(read).collect()
}
