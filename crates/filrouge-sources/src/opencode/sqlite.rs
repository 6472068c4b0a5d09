//! OpenCode 1.2 and later: tables `session`, `message`, `part` (DESIGN §10).
//!
//! `data` is the JSON of the tree's files without the ids, which are columns.

use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignError, Reader, Row};

use super::row_place::{Place, another_row, tolerate};
use super::session_rows::{SESSION, SESSION_V2, Schema};
use super::storage::{MessageText, PartText};
use super::talk::Talk;
use crate::files::{FILE_BYTES_MAX, is_id};
use crate::{SkipReason, Skipped};

/// `data` and its size, unless it is larger than what is read: then its size alone, which costs nothing.
pub(super) fn data_columns(table: &str) -> String {
    let size = format!("octet_length({table}.data)");
    format!("{size}, CASE WHEN {size} <= {FILE_BYTES_MAX} THEN {table}.data END")
}

/// An id of a row and its data as text.
pub(super) fn row_text<'a>(
    row: &'a Row<'_>,
    place: Place<'_>,
    table: &str,
    (id, size): (usize, usize),
) -> Result<(&'a str, &'a str), Skipped> {
    let found = row.text(id).filter(|id| is_id(id));
    let at = place.of(table, found.unwrap_or("?"));
    let skip = |reason, detail: &str| Skipped::new(&at, reason, detail);
    let found = found.ok_or_else(|| skip(SkipReason::BadName, "a row without a usable id"))?;
    let Some(bytes) = row.bytes(size + 1) else {
        let bytes = row.integer(size).and_then(|n| u64::try_from(n).ok());
        return Err(match bytes {
            Some(bytes) if bytes > FILE_BYTES_MAX => {
                skip(SkipReason::TooLarge, &format!("data has {bytes} bytes"))
            }
            _ => skip(SkipReason::BadField, "data is not a text"),
        });
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((found, text)),
        Err(e) => {
            let detail = format!("not UTF-8 at byte {}", e.valid_up_to());
            Err(skip(SkipReason::NotUtf8, &detail))
        }
    }
}

/// Reads the messages and parts of a session.
pub(super) fn read(
    reader: &Reader<'_>,
    schema: &Schema,
    place: Place<'_>,
    session: &str,
    talk: &mut Talk,
) -> Result<(), ForeignError> {
    let sql = format!(
        "SELECT id, {}, time_created, time_updated FROM message WHERE session_id = ?1",
        data_columns("message")
    );
    let asked = reader.query(&sql, &[session], |row| {
        add_message(row, place, talk);
        ControlFlow::Continue(())
    });
    tolerate(asked, &place.of("message", session), &mut talk.skipped)?;
    match schema.has("part") {
        true => parts(reader, place, talk),
        false => Ok(()),
    }
}

fn add_message(row: &Row<'_>, place: Place<'_>, talk: &mut Talk) {
    let created = row.integer(3).unwrap_or(i64::MAX);
    let updated = row.integer(4).unwrap_or(created).max(created);
    let (from, to) = talk.span.unwrap_or((created, updated));
    talk.span = Some((from.min(created), to.max(updated)));
    match row_text(row, place, "message", (0, 1)) {
        Ok((id, _)) if talk.has(id) => talk.skipped.push(another_row(&place.of("message", id))),
        Ok((id, text)) => talk.add(
            MessageText {
                id: id.into(),
                text: text.into(),
                seq: None,
                copied: false,
                parts: Vec::new(),
            },
            created,
        ),
        Err(why) => talk.skipped.push(why),
    }
}

/// By their messages, as OpenCode does: what a part says of its session is not asked. A damaged page costs the parts on it,
/// not those of other messages.
fn parts(reader: &Reader<'_>, place: Place<'_>, talk: &mut Talk) -> Result<(), ForeignError> {
    let sql = format!(
        "SELECT id, {} FROM part WHERE message_id = ?1 ORDER BY id",
        data_columns("part")
    );
    let skipped = &mut talk.skipped;
    for message in &mut talk.messages {
        let asked = reader.query(&sql, &[&message.id], |row| {
            match row_text(row, place, "part", (0, 1)) {
                Ok((id, text)) => message.parts.push(PartText {
                    id: id.into(),
                    text: text.into(),
                }),
                Err(why) => skipped.push(why),
            }
            ControlFlow::Continue(())
        });
        tolerate(asked, &place.of("message", &message.id), skipped)?;
    }
    Ok(())
}

/// Names messages and parts that nothing leads to.
pub(super) fn strays(
    reader: &Reader<'_>,
    schema: &Schema,
    place: Place<'_>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let known = known_sessions(schema);
    if schema.has("message") {
        let sql =
            format!("SELECT session_id, count(*) FROM message x WHERE {known} GROUP BY session_id");
        let reason = SkipReason::OrphanMessages;
        orphans(reader, &sql, (place, "session"), reason, skipped)?;
    }
    if schema.has("part") && schema.has("message") {
        let sql = "SELECT message_id, count(*) FROM part x WHERE NOT EXISTS \
                   (SELECT 1 FROM message m WHERE m.id = x.message_id) GROUP BY message_id";
        let reason = SkipReason::OrphanParts;
        orphans(reader, sql, (place, "message"), reason, skipped)?;
    }
    Ok(())
}

/// The condition for rows `x` of no session.
pub(super) fn known_sessions(schema: &Schema) -> String {
    let tables = [SESSION, SESSION_V2];
    let conditions: Vec<String> = tables
        .iter()
        .filter(|table| schema.has(table))
        .map(|table| format!("NOT EXISTS (SELECT 1 FROM {table} s WHERE s.id = x.session_id)"))
        .collect();
    match conditions.is_empty() {
        true => "1 = 1".to_owned(),
        false => conditions.join(" AND "),
    }
}

/// Rows of (owner that is not there, how many).
pub(super) fn orphans(
    reader: &Reader<'_>,
    sql: &str,
    (place, table): (Place<'_>, &str),
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let asked = reader.query(sql, &[], |row| {
        let at = place.of(table, row.text(0).unwrap_or("?"));
        let count = row.integer(1).unwrap_or(0);
        let detail = format!("{count} rows, and none for what they belong to");
        skipped.push(Skipped::new(&at, reason, detail));
        ControlFlow::Continue(())
    });
    tolerate(asked, &place.of(table, ""), skipped)
}
