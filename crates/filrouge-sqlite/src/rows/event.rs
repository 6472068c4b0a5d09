//! The event table.

use filrouge_store::rows::{EventRow, SessionPk, event_key};
use filrouge_types::{EventKey, Failure};
use rusqlite::{Row, params};

use super::{Rows, int, uint};
use crate::error::malformed;

/// number, data.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<EventRow>> {
    Ok(EventRow::decode(uint(row, 0)?, row.get_ref(1)?.as_blob()?))
}

fn known(row: Option<EventRow>) -> Result<EventRow, Failure> {
    row.ok_or_else(|| malformed("event"))
}

pub(super) fn by_key(
    rows: &Rows<'_>,
    pk: SessionPk,
    key: &EventKey,
) -> Result<Option<EventRow>, Failure> {
    let sql = "SELECT number, data FROM event WHERE session_pk = ?1 AND key = ?2";
    let found = rows.one(sql, params![int(pk), event_key(key)], read)?;
    found.map(known).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>, Failure> {
    let sql = "SELECT number, data FROM event WHERE session_pk = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let params = [int(pk), int(after), int(limit as u64)];
    let read = |row: &Row<'_>| read(row).map(known);
    rows.page(sql, params, read, EventRow::content_len)
}

pub(super) fn newest(rows: &Rows<'_>, pk: SessionPk) -> Result<u64, Failure> {
    let sql = "SELECT number FROM event WHERE session_pk = ?1 ORDER BY number DESC LIMIT 1";
    Ok(rows.one(sql, [int(pk)], |row| uint(row, 0))?.unwrap_or(0))
}

pub(super) fn insert(rows: &Rows<'_>, pk: SessionPk, row: &EventRow) -> Result<(), Failure> {
    let sql = "INSERT INTO event (session_pk, number, key, data) VALUES (?1, ?2, ?3, ?4)";
    let key = event_key(&row.event.key);
    rows.run(sql, params![int(pk), int(row.number), key, row.encode()])
}
