//! OpenCode 1.2 and later: tables `session`, `message`, `part` (DESIGN §10).
//!
//! The column `data` contains the JSON of the corresponding file of the file storage, without the ids, which are
//! columns.

use std::ops::ControlFlow;
use std::path::Path;

use filrouge_sqlite::foreign::{Reader, Result, Row};

use super::gathered::GatheredMessages;
use super::row_place::{duplicate_row, report_damage, row_path};
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

/// The id and the data of a row, as text. The first column of the row is its id; [`data_columns`] follow.
pub(super) fn row_text<'a>(
    row: &'a Row<'_>,
    database: &Path,
    table: &str,
) -> Result<(&'a str, &'a str), Skipped> {
    let id = row.text(0).filter(|id| is_id(id));
    let path = row_path(database, table, id.unwrap_or("?"));
    let skip = |reason, detail: &str| Skipped::new(&path, reason, detail);
    let id = id.ok_or_else(|| skip(SkipReason::BadName, "a row without a usable id"))?;
    let Some(bytes) = row.bytes(2) else {
        let bytes = row.integer(1).and_then(|n| u64::try_from(n).ok());
        return Err(match bytes {
            Some(bytes) if bytes > FILE_BYTES_MAX => {
                skip(SkipReason::TooLarge, &format!("data has {bytes} bytes"))
            }
            _ => skip(SkipReason::BadField, "data is not a text"),
        });
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((id, text)),
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
    database: &Path,
    session: &str,
    gathered: &mut GatheredMessages,
) -> Result<()> {
    let sql = format!(
        "SELECT id, {}, time_created, time_updated FROM message WHERE session_id = ?1",
        data_columns("message")
    );
    let result = reader.query(&sql, &[session], |row| {
        add_message(row, database, gathered);
        ControlFlow::Continue(())
    });
    let place = row_path(database, "message", session);
    report_damage(result, &place, &mut gathered.skipped)?;
    match schema.has("part") {
        true => read_parts(reader, database, gathered),
        false => Ok(()),
    }
}

/// Adds a message, and extends the time span even if the row cannot be used.
fn add_message(row: &Row<'_>, database: &Path, gathered: &mut GatheredMessages) {
    let created = row.integer(3).unwrap_or(i64::MAX);
    let updated = row.integer(4).unwrap_or(created).max(created);
    let (from, to) = gathered.span.unwrap_or((created, updated));
    gathered.span = Some((from.min(created), to.max(updated)));
    let message = row_text(row, database, "message").and_then(|(id, text)| {
        if gathered.has(id) {
            return Err(duplicate_row(&row_path(database, "message", id)));
        }
        Ok(MessageText::new(id, text.to_owned(), Vec::new()))
    });
    gathered.add(message, created);
}

/// Reads the parts of the gathered messages by their message id, as OpenCode does; the session that a part's row names
/// is ignored. Damage loses only parts of the message in whose parts it is found.
fn read_parts(reader: &Reader<'_>, database: &Path, gathered: &mut GatheredMessages) -> Result<()> {
    let sql = format!(
        "SELECT id, {} FROM part WHERE message_id = ?1 ORDER BY id",
        data_columns("part")
    );
    let skipped = &mut gathered.skipped;
    for message in &mut gathered.messages {
        let result = reader.query(&sql, &[&message.id], |row| {
            match row_text(row, database, "part") {
                Ok((id, text)) => message.parts.push(PartText {
                    id: id.into(),
                    text: text.into(),
                }),
                Err(why) => skipped.push(why),
            }
            ControlFlow::Continue(())
        });
        let place = row_path(database, "message", &message.id);
        report_damage(result, &place, skipped)?;
    }
    Ok(())
}

/// Reports messages without a session, and parts without a message.
pub(super) fn find_orphans(
    reader: &Reader<'_>,
    schema: &Schema,
    database: &Path,
    skipped: &mut Vec<Skipped>,
) -> Result<()> {
    let is_orphan = session_is_missing(schema);
    let report_messages = |table: &str, skipped: &mut Vec<Skipped>| {
        let sql = format!(
            "SELECT session_id, count(*) FROM {table} x WHERE {is_orphan} GROUP BY session_id"
        );
        let reason = SkipReason::OrphanMessages;
        match schema.has(table) {
            true => report_orphans(reader, &sql, (database, "session"), reason, skipped),
            false => Ok(()),
        }
    };
    report_messages("message", skipped)?;
    if schema.has("part") && schema.has("message") {
        let sql = "SELECT message_id, count(*) FROM part x WHERE NOT EXISTS \
                   (SELECT 1 FROM message m WHERE m.id = x.message_id) GROUP BY message_id";
        let reason = SkipReason::OrphanParts;
        report_orphans(reader, sql, (database, "message"), reason, skipped)?;
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
    (database, table): (&Path, &str),
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Result<()> {
    let result = reader.query(sql, &[], |row| {
        let path = row_path(database, table, row.text(0).unwrap_or("?"));
        let count = row.integer(1).unwrap_or(0);
        let detail = format!("{count} rows whose owner has no row");
        skipped.push(Skipped::new(&path, reason, detail));
        ControlFlow::Continue(())
    });
    report_damage(result, &row_path(database, table, ""), skipped)
}
