//! Reads the table `turn`.

use filrouge_store::rows::{SessionPk, TurnRow};
use filrouge_types::{Result, Timestamp, TurnId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, bytes, column, is_open, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns session_pk, place, turn_id, open, open_since and data.
fn read(row: &Row) -> Result<(SessionPk, TurnRow)> {
    Ok((read_u64(row, 0)?, read_turn(row, 1)?))
}

/// Decodes the columns place, turn_id, open, open_since and data, of which the first is column `first_column`.
pub(crate) fn read_turn(row: &Row, first_column: usize) -> Result<TurnRow> {
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

pub(super) fn by_id(rows: &Rows<'_>, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE lane = $1 AND turn_id = $3 AND session_pk + 0 = $2",
        &[Type::INT2, Type::INT8, Type::UUID],
    );
    let (lane, id) = (rows.lane_of(pk), Uuid::from_bytes(*id.as_bytes()));
    let fetched = rows.query_opt(&SQL, &[&lane, &sql_int(pk), &id])?;
    Ok(fetched
        .as_ref()
        .map(read)
        .transpose()?
        .map(|(_, turn)| turn))
}

// No index contains the sum `session_pk + 0`, so PostgreSQL must find the turn by its id, and cannot scan turns in the
// order of their sessions instead.
pub(super) fn session_of(rows: &Rows<'_>, id: &TurnId) -> Result<Option<SessionPk>> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk FROM filrouge.turn WHERE lane = $1 AND turn_id = $2 ORDER BY session_pk + 0 LIMIT 1",
        &[Type::INT2, Type::UUID],
    );
    let fetched = rows.query_lanes(&SQL, &[&Uuid::from_bytes(*id.as_bytes())])?;
    let pks = fetched.iter().flatten().map(|row| read_u64(row, 0));
    let pks: Vec<SessionPk> = pks.collect::<Result<_, _>>()?;
    Ok(pks.into_iter().min())
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    from: u64,
    to: u64,
    descending: bool,
    limit: usize,
) -> Result<Vec<TurnRow>> {
    static ASCENDING: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE lane = $1 AND session_pk = $2 AND place BETWEEN $3 AND $4 ORDER BY place LIMIT $5",
        PAGE_TYPES,
    );
    static DESCENDING: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE lane = $1 AND session_pk = $2 AND place BETWEEN $3 AND $4 ORDER BY place DESC LIMIT $5",
        PAGE_TYPES,
    );
    const PAGE_TYPES: &[Type] = &[Type::INT2, Type::INT8, Type::INT8, Type::INT8, Type::INT8];
    let sql = if descending { &DESCENDING } else { &ASCENDING };
    let (lane, pk, limit) = (rows.lane_of(pk), sql_int(pk), sql_int(limit as u64));
    let fetched = rows.query_all(sql, &[&lane, &pk, &sql_int(from), &sql_int(to), &limit])?;
    fetched.iter().map(|row| Ok(read(row)?.1)).collect()
}

pub(super) fn idle(
    rows: &Rows<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<(SessionPk, TurnRow)>> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, place, turn_id, open, open_since, data FROM filrouge.turn
         WHERE lane = $1 AND open AND open_since < $2 ORDER BY open_since LIMIT $3",
        &[Type::INT2, Type::INT8, Type::INT8],
    );
    let fetched = rows.query_lanes(&SQL, &[&before.as_micros(), &sql_int(limit as u64)])?;
    let fetched: Vec<Row> = fetched.into_iter().flatten().collect();
    let mut turns: Vec<_> = fetched.iter().filter_map(|row| read(row).ok()).collect();
    if turns.len() < fetched.len() {
        let malformed = fetched.len() - turns.len();
        tracing::error!(
            malformed,
            "stored open turns are malformed; `verify` names them"
        );
    }
    turns.sort_by_key(|(_, turn)| turn.last_write_at);
    turns.truncate(limit);
    Ok(turns)
}
