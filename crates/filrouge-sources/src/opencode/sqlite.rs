//! OpenCode 1.2 and later: tables `session`, `message`, `part` (DESIGN §10).
//!
//! The column `data` contains the JSON of the corresponding file of the file storage, without the ids, which are
//! columns.

use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignError, Reader, Row};

use super::gathered::GatheredMessages;
use super::row_place::{ReportPath, duplicate_row, report_damage};
use super::session_rows::{SESSION, SESSION_V2, Schema};
use super::storage::{MessageText, PartText};
use crate::files::{FILE_BYTES_MAX, is_id};
use crate::{SkipReason, Skipped};

/// Two columns for a query: the size of `data`, and `data` itself, which is NULL if it is larger than the limit.
/// Reading the size alone is cheap.
pub(super) fn data_columns(table: &str) -> String {
    let size = format!("octet_length({table}.data)");
    format!("{size}, CASE WHEN {size} <= {FILE_BYTES_MAX} THEN {table}.data END")
}

/// The id and the data of a row, as text. `id` and `size` are the indexes of their columns; the data is in the column
/// after the size.
pub(super) fn row_text<'a>(
    row: &'a Row<'_>,
    place: ReportPath<'_>,
    table: &str,
    (id, size): (usize, usize),
) -> Result<(&'a str, &'a str), Skipped> {
    let row_id = row.text(id).filter(|id| is_id(id));
    let path = place.row_path(table, row_id.unwrap_or("?"));
    let skip = |reason, detail: &str| Skipped::new(&path, reason, detail);
    let row_id = row_id.ok_or_else(|| skip(SkipReason::BadName, "a row without a usable id"))?;
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
        Ok(text) => Ok((row_id, text)),
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
    place: ReportPath<'_>,
    session: &str,
    gathered: &mut GatheredMessages,
) -> Result<(), ForeignError> {
    let sql = format!(
        "SELECT id, {}, time_created, time_updated FROM message WHERE session_id = ?1",
        data_columns("message")
    );
    let result = reader.query(&sql, &[session], |row| {
        add_message(row, place, gathered);
        ControlFlow::Continue(())
    });
    report_damage(
        result,
        &place.row_path("message", session),
        &mut gathered.skipped,
    )?;
    match schema.has("part") {
        true => read_parts(reader, place, gathered),
        false => Ok(()),
    }
}

/// Adds a message, and extends the time span even if the row cannot be used.
fn add_message(row: &Row<'_>, place: ReportPath<'_>, gathered: &mut GatheredMessages) {
    let created = row.integer(3).unwrap_or(i64::MAX);
    let updated = row.integer(4).unwrap_or(created).max(created);
    let (from, to) = gathered.span.unwrap_or((created, updated));
    gathered.span = Some((from.min(created), to.max(updated)));
    match row_text(row, place, "message", (0, 1)) {
        Ok((id, _)) if gathered.has(id) => gathered
            .skipped
            .push(duplicate_row(&place.row_path("message", id))),
        Ok((id, text)) => gathered.add(
            MessageText {
                id: id.into(),
                text: text.into(),
                seq: None,
                copied: false,
                parts: Vec::new(),
            },
            created,
        ),
        Err(why) => gathered.skipped.push(why),
    }
}

/// Reads the parts of the gathered messages by their message id, as OpenCode does; the session that a part's row names
/// is ignored. Damage loses only parts of the message in whose parts it is found.
fn read_parts(
    reader: &Reader<'_>,
    place: ReportPath<'_>,
    gathered: &mut GatheredMessages,
) -> Result<(), ForeignError> {
    let sql = format!(
        "SELECT id, {} FROM part WHERE message_id = ?1 ORDER BY id",
        data_columns("part")
    );
    let skipped = &mut gathered.skipped;
    for message in &mut gathered.messages {
        let result = reader.query(&sql, &[&message.id], |row| {
            match row_text(row, place, "part", (0, 1)) {
                Ok((id, text)) => message.parts.push(PartText {
                    id: id.into(),
                    text: text.into(),
                }),
                Err(why) => skipped.push(why),
            }
            ControlFlow::Continue(())
        });
        report_damage(result, &place.row_path("message", &message.id), skipped)?;
    }
    Ok(())
}

/// Reports messages without a session, and parts without a message.
pub(super) fn find_orphans(
    reader: &Reader<'_>,
    schema: &Schema,
    place: ReportPath<'_>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let is_orphan = session_is_missing(schema);
    let report_messages = |table: &str, skipped: &mut Vec<Skipped>| {
        let sql = format!(
            "SELECT session_id, count(*) FROM {table} x WHERE {is_orphan} GROUP BY session_id"
        );
        let reason = SkipReason::OrphanMessages;
        match schema.has(table) {
            true => report_orphans(reader, &sql, (place, "session"), reason, skipped),
            false => Ok(()),
        }
    };
    report_messages("message", skipped)?;
    if schema.has("part") && schema.has("message") {
        let sql = "SELECT message_id, count(*) FROM part x WHERE NOT EXISTS \
                   (SELECT 1 FROM message m WHERE m.id = x.message_id) GROUP BY message_id";
        let reason = SkipReason::OrphanParts;
        report_orphans(reader, sql, (place, "message"), reason, skipped)?;
    }
    report_messages("session_message", skipped)
}

/// The SQL condition that selects rows `x` whose session does not exist.
fn session_is_missing(schema: &Schema) -> String {
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

/// Runs a query for pairs of a missing owner and its number of rows, and reports each pair.
fn report_orphans(
    reader: &Reader<'_>,
    sql: &str,
    (place, table): (ReportPath<'_>, &str),
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let result = reader.query(sql, &[], |row| {
        let path = place.row_path(table, row.text(0).unwrap_or("?"));
        let count = row.integer(1).unwrap_or(0);
        let detail = format!("{count} rows whose owner has no row");
        skipped.push(Skipped::new(&path, reason, detail));
        ControlFlow::Continue(())
    });
    report_damage(result, &place.row_path(table, ""), skipped)
}
