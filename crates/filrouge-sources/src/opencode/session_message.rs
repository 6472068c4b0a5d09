//! Sessions of OpenCode's newer kind: table `session`, with the messages in `session_message`, ordered by `seq` (DESIGN
//! §10).
//!
//! A session can have rows in both `message` and `session_message`, because versions that try the newer kind write the
//! same messages into both tables. Then the rows in `message` are read; of those in `session_message`, only rows before
//! or after the time span of the rows in `message` are used.

use std::ops::ControlFlow;
use std::path::Path;

use filrouge_sqlite::foreign::{Reader, Result, Row};

use super::gathered::GatheredMessages;
use super::newer_form::{NewerRow, convert_row};
use super::row_place::{duplicate_row, report_damage, row_path};
use super::session_rows::{SESSION_MESSAGE as TABLE, Schema};
use super::sqlite::{data_columns, row_text};
use super::storage::MessageText;

use crate::object::refusal_report;
use crate::{SkipReason, Skipped};

/// Converts a row to a message and its parts.
fn convert(row: &Row<'_>, database: &Path, created: i64) -> Result<MessageText, Skipped> {
    let (id, data) = row_text(row, database, TABLE)?;
    let newer = NewerRow {
        id,
        kind: row.text(3).unwrap_or("unknown"),
        created,
        data,
    };
    let mut message =
        convert_row(newer).map_err(|why| refusal_report(&row_path(database, TABLE, id), why))?;
    message.seq = row.integer(4).and_then(|seq| u64::try_from(seq).ok());
    Ok(message)
}

/// Reads the rows of a session in `session_message`. The rows in `message`, if any, must have been gathered before.
pub(super) fn read(
    reader: &Reader<'_>,
    schema: &Schema,
    database: &Path,
    session: &str,
    gathered: &mut GatheredMessages,
) -> Result<()> {
    let seq = match schema.has_column(TABLE, "seq") {
        true => "seq",
        false => "NULL",
    };
    let sql = format!(
        "SELECT id, {}, type, {seq}, time_created FROM {TABLE} WHERE session_id = ?1",
        data_columns(TABLE)
    );
    let mut shadowed = 0;
    let result = reader.query(&sql, &[session], |row| {
        let created = row.integer(5).unwrap_or(i64::MAX);
        let id = row.text(0).unwrap_or_default();
        let is_in_span = gathered
            .span
            .is_some_and(|(from, to)| (from..=to).contains(&created));
        if is_in_span {
            shadowed += u64::from(!gathered.has(id));
        } else if gathered.has(id) {
            let path = row_path(database, TABLE, id);
            gathered.skipped.push(duplicate_row(&path));
        } else {
            gathered.add(convert(row, database, created), created);
        }
        ControlFlow::Continue(())
    });
    let path = row_path(database, TABLE, session);
    report_damage(result, &path, &mut gathered.skipped)?;
    if shadowed > 0 {
        let detail = format!("{shadowed} rows from a time span that is read from table message");
        let report = Skipped::new(&path, SkipReason::Shadowed, detail);
        gathered.skipped.push(report);
    }
    Ok(())
}
