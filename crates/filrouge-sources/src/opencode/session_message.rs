//! Sessions of OpenCode's newer kind: table `session`, with the messages in `session_message`, ordered by `seq` (DESIGN
//! §10).
//!
//! A session can have rows in both `message` and `session_message`, because versions that try the newer kind write the
//! same messages into both tables. Then the rows in `message` are read; of those in `session_message`, only rows before
//! or after the time span of the rows in `message` are used.

use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignError, Reader, Row};

use super::gathered::GatheredMessages;
use super::newer_form::{ConvertedRow, NewerRow, convert_row};
use super::row_place::{ReportPath, duplicate_row, report_damage};
use super::session_rows::Schema;
use super::sqlite::{data_columns, row_text};
use super::storage::MessageText;

use crate::object::refusal_report;
use crate::{SkipReason, Skipped};

/// The columns that [`convert`] reads, in the order in which it expects them.
pub(super) fn columns(schema: &Schema) -> String {
    let seq = match schema.has_column("session_message", "seq") {
        true => "seq",
        false => "NULL",
    };
    format!(
        "id, {}, type, {seq}, time_created, time_updated, session_id",
        data_columns("session_message")
    )
}

/// Converts a row to a message and its parts.
pub(super) fn convert<'a>(
    row: &'a Row<'_>,
    place: ReportPath<'_>,
) -> Result<(NewerRow<'a>, ConvertedRow), Skipped> {
    let (id, data) = row_text(row, place, "session_message", (0, 1))?;
    let row = NewerRow {
        id,
        kind: row.text(3).unwrap_or("unknown"),
        created: row.integer(5).unwrap_or(i64::MAX),
        data,
    };
    let converted = convert_row(row)
        .map_err(|why| refusal_report(&place.row_path("session_message", id), why))?;
    Ok((row, converted))
}

/// Reads the rows of a session in `session_message`. The rows in `message`, if any, must have been gathered before.
pub(super) fn read(
    reader: &Reader<'_>,
    schema: &Schema,
    place: ReportPath<'_>,
    session: &str,
    gathered: &mut GatheredMessages,
) -> Result<(), ForeignError> {
    let columns = columns(schema);
    let sql = format!("SELECT {columns} FROM session_message WHERE session_id = ?1");
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
            let path = place.row_path("session_message", id);
            gathered.skipped.push(duplicate_row(&path));
        } else {
            add_row(row, place, created, gathered);
        }
        ControlFlow::Continue(())
    });
    let path = place.row_path("session_message", session);
    report_damage(result, &path, &mut gathered.skipped)?;
    if shadowed > 0 {
        let detail = format!("{shadowed} rows from a time span that is read from table message");
        gathered
            .skipped
            .push(Skipped::new(&path, SkipReason::Shadowed, detail));
    }
    Ok(())
}

fn add_row(row: &Row<'_>, place: ReportPath<'_>, created: i64, gathered: &mut GatheredMessages) {
    match convert(row, place) {
        Ok((newer, converted)) => gathered.add(
            MessageText {
                id: newer.id.into(),
                text: converted.text.into(),
                seq: row.integer(4).and_then(|seq| u64::try_from(seq).ok()),
                copied: false,
                parts: converted.parts,
            },
            created,
        ),
        Err(why) => gathered.skipped.push(why),
    }
}
