//! Reads the table `turn`.

use filrouge_store::rows::{SessionPk, TurnRow};
use filrouge_types::{Failure, Timestamp, TurnId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, bytes, column, is_open, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns session_pk, place, turn_id, open, open_since and data.
fn read(row: &Row) -> Result<(SessionPk, TurnRow), Failure> {
    Ok((read_u64(row, 0)?, read_turn(row, 1)?))
}

/// Decodes the columns place, turn_id, open, open_since and data, of which the first is column `first_column`.
pub(crate) fn read_turn(row: &Row, first_column: usize) -> Result<TurnRow, Failure> {
    let id: Uuid = column(row, first_column + 1)?;
    let turn = TurnRow::decode(
        TurnId::from_bytes(*id.as_bytes()),
        read_u64(row, first_column)?,
        bytes(row, first_column + 4)?,
    );
    // The columns open and open_since exist only so that idle turns can be found. They must agree with the data.
    let (open, since): (bool, Option<i64>) = (
        column(row, first_column + 2)?,
        column(row, first_column + 3)?,
    );
    turn.filter(|t| is_open(t) == open && open_since(t) == since)
        .ok_or_else(|| malformed("turn"))
}

/// Returns the time of an open turn's last write, in microseconds since 1970; `None` for a turn that is not open.
pub(crate) fn open_since(row: &TurnRow) -> Option<i64> {
    is_open(row).then(|| row.last_write_at.as_micros())
}

pub(super) fn by_id(
    rows: &Rows<'_>,
    pk: SessionPk,
    id: &TurnId,
) -> Result<Option<TurnRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE turn_id = $2 AND session_pk + 0 = $1",
        &[Type::INT8, Type::UUID],
    );
    let fetched = rows.query_opt(&SQL, &[&sql_int(pk), &Uuid::from_bytes(*id.as_bytes())])?;
    Ok(fetched
        .as_ref()
        .map(read)
        .transpose()?
        .map(|(_, turn)| turn))
}

// No index contains the sum `session_pk + 0`, so PostgreSQL must find the turn by its id, and cannot scan turns in the
// order of their sessions instead.
pub(super) fn session_of(rows: &Rows<'_>, id: &TurnId) -> Result<Option<SessionPk>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk FROM filrouge.turn WHERE turn_id = $1 ORDER BY session_pk + 0 LIMIT 1",
        &[Type::UUID],
    );
    let fetched = rows.query_opt(&SQL, &[&Uuid::from_bytes(*id.as_bytes())])?;
    fetched.map(|row| read_u64(&row, 0)).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    from: u64,
    to: u64,
    descending: bool,
    limit: usize,
) -> Result<Vec<TurnRow>, Failure> {
    static ASCENDING: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE session_pk = $1 AND place BETWEEN $2 AND $3 ORDER BY place LIMIT $4",
        &[Type::INT8, Type::INT8, Type::INT8, Type::INT8],
    );
    static DESCENDING: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE session_pk = $1 AND place BETWEEN $2 AND $3 ORDER BY place DESC LIMIT $4",
        &[Type::INT8, Type::INT8, Type::INT8, Type::INT8],
    );
    let sql = if descending { &DESCENDING } else { &ASCENDING };
    let params = (
        sql_int(pk),
        sql_int(from),
        sql_int(to),
        sql_int(limit as u64),
    );
    let fetched = rows.query_all(sql, &[&params.0, &params.1, &params.2, &params.3])?;
    fetched.iter().map(|row| Ok(read(row)?.1)).collect()
}

pub(super) fn idle(
    rows: &Rows<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<(SessionPk, TurnRow)>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE open AND open_since < $1 ORDER BY open_since LIMIT $2",
        &[Type::INT8, Type::INT8],
    );
    let fetched = rows.query_all(&SQL, &[&before.as_micros(), &sql_int(limit as u64)])?;
    let turns: Vec<_> = fetched.iter().filter_map(|row| read(row).ok()).collect();
    if turns.len() < fetched.len() {
        let malformed = fetched.len() - turns.len();
        tracing::error!(
            malformed,
            "stored open turns are malformed; `verify` names them"
        );
    }
    Ok(turns)
}
