//! Reads the table `event`.

use filrouge_store::rows::{EventPosition, EventRow, SessionPk, collect_until_full, event_key};
use filrouge_types::{EventKey, Failure, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, bytes, column, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns number, data and at, of which the first is column `from`. The column `at` must equal the time in
/// `data`.
pub(crate) fn read_event(row: &Row, from: usize) -> Result<EventRow, Failure> {
    let event = EventRow::decode(read_u64(row, from)?, bytes(row, from + 1)?);
    let at = Timestamp::from_micros(column(row, from + 2)?);
    let event = event.filter(|event| event.event.at == at);
    event.ok_or_else(|| malformed("event"))
}

fn read(row: &Row) -> Result<EventRow, Failure> {
    read_event(row, 0)
}

pub(super) fn by_key(
    rows: &Rows<'_>,
    pk: SessionPk,
    key: &EventKey,
) -> Result<Option<EventRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT number, data, at FROM filrouge.event WHERE session_pk = $1 AND key = $2",
        &[Type::INT8, Type::UUID],
    );
    let fetched = rows.query_opt(&SQL, &[&sql_int(pk), &Uuid::from_bytes(event_key(key))])?;
    fetched.as_ref().map(read).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT number, data, at FROM filrouge.event
         WHERE session_pk = $1 AND number > $2 ORDER BY number LIMIT $3",
        &[Type::INT8, Type::INT8, Type::INT8],
    );
    let fetched = rows.query_all(
        &SQL,
        &[&sql_int(pk), &sql_int(after), &sql_int(limit as u64)],
    )?;
    collect_until_full(fetched.iter().map(read), EventRow::content_len)
}

pub(super) fn newest(rows: &Rows<'_>, pk: SessionPk) -> Result<u64, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT number FROM filrouge.event WHERE session_pk = $1 ORDER BY number DESC LIMIT 1",
        &[Type::INT8],
    );
    rows.query_number(&SQL, &[&sql_int(pk)])
}

/// Reads a page of the events of all sessions with a time in `from..to`, after the position `after`.
pub(super) fn by_time(
    rows: &Rows<'_>,
    from: Timestamp,
    to: Timestamp,
    after: Option<EventPosition>,
    limit: usize,
) -> Result<Vec<(SessionPk, EventRow)>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, number, data, at FROM filrouge.event
         WHERE (at, session_pk, number) > ($1, $2, $3) AND at < $4
         ORDER BY at, session_pk, number LIMIT $5",
        &[Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::INT8],
    );
    // The query has a single lower bound, so that the index scan of a later page begins where the previous page ended.
    let position = after.filter(|(at, ..)| *at >= from);
    let (at, pk, number) = position.map_or((from.as_micros(), i64::MIN, i64::MIN), |position| {
        (
            position.0.as_micros(),
            sql_int(position.1),
            sql_int(position.2),
        )
    });
    let (to, limit) = (to.as_micros(), sql_int(limit as u64));
    let fetched = rows.query_all(&SQL, &[&at, &pk, &number, &to, &limit])?;
    let read = |row: &Row| Ok((read_u64(row, 0)?, read_event(row, 1)?));
    collect_until_full(fetched.iter().map(read), |(_, row)| row.content_len())
}
