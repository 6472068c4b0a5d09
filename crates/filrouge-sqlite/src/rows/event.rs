//! The table `event`. Its column `at` repeats the time of the event, so that events can be found by time; each read
//! compares the two.

use filrouge_store::rows::{EventPosition, EventRow, SessionPk, event_key};
use filrouge_types::{ErrorCode, EventKey, Failure, Result, Timestamp};
use rusqlite::{Row, params};

use super::{Rows, read_u64, sql_int};
use crate::error::malformed;

/// Decodes the columns number, data, at; `None` if the event is malformed or has another time than `at`.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<EventRow>> {
    let event = EventRow::decode(read_u64(row, 0)?, row.get_ref(1)?.as_blob()?);
    let at: Option<i64> = row.get(2)?;
    Ok(event.filter(|e| Some(e.event.at.as_micros()) == at))
}

fn require_decoded(row: Option<EventRow>) -> Result<EventRow> {
    row.ok_or_else(|| malformed("event"))
}

pub(super) fn by_key(rows: &Rows<'_>, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>> {
    let sql = "SELECT number, data, at FROM event WHERE session_pk = ?1 AND key = ?2";
    let found = rows.query_optional(sql, params![sql_int(pk), event_key(key)], read)?;
    found.map(require_decoded).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>> {
    let sql = "SELECT number, data, at FROM event WHERE session_pk = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let params = [sql_int(pk), sql_int(after), sql_int(limit as u64)];
    let read = |row: &Row<'_>| read(row).map(require_decoded);
    rows.page(sql, params, read, EventRow::content_len)
}

/// The session and number that sort before every event with the same time; both are counted from 1.
const FIRST: (SessionPk, u64) = (0, 0);

pub(super) fn page_at(
    rows: &Rows<'_>,
    from: Timestamp,
    to: Timestamp,
    after: Option<EventPosition>,
    limit: usize,
) -> Result<Vec<(SessionPk, EventRow)>> {
    let sql = "SELECT number, data, at, session_pk FROM event
         WHERE (at, session_pk, number) > (?1, ?2, ?3) AND at < ?4
         ORDER BY at, session_pk, number LIMIT ?5";
    let first = (from, FIRST.0, FIRST.1);
    let after = after.map_or(first, |after| after.max(first));
    let params = [
        after.0.as_micros(),
        sql_int(after.1),
        sql_int(after.2),
        to.as_micros(),
        sql_int(limit as u64),
    ];
    let read = |row: &Row<'_>| {
        let pk = read_u64(row, 3)?;
        Ok(require_decoded(read(row)?).map(|event| (pk, event)))
    };
    let found = rows.page(sql, params, read, |(_, row)| row.content_len())?;
    // A damaged B-tree can contain cycles.
    let mut previous = after;
    for (pk, row) in &found {
        let position = (row.event.at, *pk, row.number);
        if position <= previous || position.0 >= to {
            let detail = "the stored events are out of order";
            return Err(Failure::new(ErrorCode::IntegrityError, detail));
        }
        previous = position;
    }
    Ok(found)
}

pub(super) fn newest(rows: &Rows<'_>, pk: SessionPk) -> Result<u64> {
    let sql = "SELECT number FROM event WHERE session_pk = ?1 ORDER BY number DESC LIMIT 1";
    rows.query_number(sql, [sql_int(pk)])
}

pub(super) fn insert(rows: &Rows<'_>, pk: SessionPk, row: &EventRow) -> Result<()> {
    let sql = "INSERT INTO event (session_pk, number, key, data, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let (key, at) = (event_key(&row.event.key), row.event.at.as_micros());
    rows.execute(
        sql,
        params![sql_int(pk), sql_int(row.number), key, row.encode(), at],
    )
}
