//! Reads the table `event`.

use filrouge_store::rows::{EventPosition, EventRow, SessionPk, collect_until_full, event_key};
use filrouge_types::{EventKey, Failure, Result, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, bytes, column, read_u64, sql_int};
use crate::error::malformed;
use crate::session::Sql;

/// Decodes the columns number, data and at, of which the first is column `from`. The column `at` must equal the time in
/// `data`.
pub(crate) fn read_event(row: &Row, from: usize) -> Result<EventRow> {
    let event = EventRow::decode(read_u64(row, from)?, bytes(row, from + 1)?);
    let at = Timestamp::from_micros(column(row, from + 2)?);
    let event = event.filter(|event| event.event.at == at);
    event.ok_or_else(|| malformed("event"))
}

fn read(row: &Row) -> Result<EventRow> {
    read_event(row, 0)
}

pub(super) fn by_key(rows: &Rows<'_>, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>> {
    static SQL: Sql = Sql::new(
        "SELECT number, data, at FROM filrouge.event WHERE lane = $1 AND session_pk = $2 AND key = $3",
        &[Type::INT2, Type::INT8, Type::UUID],
    );
    let (lane, key) = (rows.lane_of(pk), Uuid::from_bytes(event_key(key)));
    let fetched = rows.query_opt(&SQL, &[&lane, &sql_int(pk), &key])?;
    fetched.as_ref().map(read).transpose()
}

pub(super) fn page(
    rows: &Rows<'_>,
    pk: SessionPk,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>> {
    static SQL: Sql = Sql::new(
        "SELECT number, data, at FROM filrouge.event
         WHERE lane = $1 AND session_pk = $2 AND number > $3 ORDER BY number LIMIT $4",
        &[Type::INT2, Type::INT8, Type::INT8, Type::INT8],
    );
    let (lane, after, limit) = (rows.lane_of(pk), sql_int(after), sql_int(limit as u64));
    let fetched = rows.query_all(&SQL, &[&lane, &sql_int(pk), &after, &limit])?;
    collect_until_full(fetched.iter().map(read), EventRow::content_len)
}

pub(super) fn newest(rows: &Rows<'_>, pk: SessionPk) -> Result<u64> {
    static SQL: Sql = Sql::new(
        "SELECT number FROM filrouge.event WHERE lane = $1 AND session_pk = $2 ORDER BY number DESC LIMIT 1",
        &[Type::INT2, Type::INT8],
    );
    rows.query_number(&SQL, &[&rows.lane_of(pk), &sql_int(pk)])
}

/// Reads a page of the events of all sessions with a time in `from..to`, after the position `after`.
pub(super) fn by_time(
    rows: &Rows<'_>,
    from: Timestamp,
    to: Timestamp,
    after: Option<EventPosition>,
    limit: usize,
) -> Result<Vec<(SessionPk, EventRow)>> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, number, data, at FROM filrouge.event
         WHERE lane = $1 AND (at, session_pk, number) > ($2, $3, $4) AND at < $5
         ORDER BY at, session_pk, number LIMIT $6",
        &[
            Type::INT2,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
        ],
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
    // Each lane contributes its share of the page, so that few rows are read in vain. A lane whose share is full may have
    // more events, so the page ends with the last event of this share.
    let share = limit.div_ceil(usize::from(rows.lanes.count()));
    let (to, max_rows) = (to.as_micros(), sql_int(share as u64));
    let read = |row: &Row| Ok::<_, Failure>((read_u64(row, 0)?, read_event(row, 1)?));
    let (mut events, mut end) = (Vec::new(), None);
    for fetched in rows.query_lanes(&SQL, &[&at, &pk, &number, &to, &max_rows])? {
        let lane = fetched.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if let Some(last) = lane.last().filter(|_| lane.len() == share) {
            let last = position_of(last);
            end = Some(end.map_or(last, |end: EventPosition| end.min(last)));
        }
        events.extend(lane);
    }
    events.retain(|event| end.is_none_or(|end| position_of(event) <= end));
    events.sort_by_key(position_of);
    let events = events.into_iter().take(limit).map(Ok);
    collect_until_full(events, |(_, row)| row.content_len())
}

fn position_of((pk, row): &(SessionPk, EventRow)) -> EventPosition {
    (row.event.at, *pk, row.number)
}
