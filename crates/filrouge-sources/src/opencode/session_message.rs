//! Sessions of OpenCode's newer kind: table `session`, with the talk in `session_message`, ordered by `seq`
//! (DESIGN §10).
//!
//! A session can have rows in `message` too. Then those are its talk, and of `session_message` only what was said
//! before the first or after the last of them: versions that try the newer kind write the same talk into both.

use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignError, Reader, Row};

use super::newer_form::{Form, NewerRow, form};
use super::row_place::{Place, another_row, tolerate};
use super::session_rows::Schema;
use super::sqlite::{data_columns, known_sessions, orphans, row_text};
use super::storage::MessageText;
use super::talk::Talk;

use crate::object::skip;
use crate::{SkipReason, Skipped};

/// The columns that [`form_of`] reads, in its order.
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

/// The message and parts of a row.
pub(super) fn form_of<'a>(
    row: &'a Row<'_>,
    place: Place<'_>,
) -> Result<(NewerRow<'a>, Form), Skipped> {
    let (id, data) = row_text(row, place, "session_message", (0, 1))?;
    let row = NewerRow {
        id,
        kind: row.text(3).unwrap_or("unknown"),
        created: row.integer(5).unwrap_or(i64::MAX),
        data,
    };
    let form = form(row).map_err(|why| skip(&place.of("session_message", id), why))?;
    Ok((row, form))
}

/// Reads the rows of a session.
pub(super) fn read(
    reader: &Reader<'_>,
    schema: &Schema,
    place: Place<'_>,
    session: &str,
    talk: &mut Talk,
) -> Result<(), ForeignError> {
    let columns = columns(schema);
    let sql = format!("SELECT {columns} FROM session_message WHERE session_id = ?1");
    let mut beside = 0;
    let asked = reader.query(&sql, &[session], |row| {
        let created = row.integer(5).unwrap_or(i64::MAX);
        let id = row.text(0).unwrap_or_default();
        let within = talk
            .span
            .is_some_and(|(from, to)| (from..=to).contains(&created));
        if within {
            beside += u64::from(!talk.has(id));
        } else if talk.has(id) {
            let at = place.of("session_message", id);
            talk.skipped.push(another_row(&at));
        } else {
            add(row, place, created, talk);
        }
        ControlFlow::Continue(())
    });
    let at = place.of("session_message", session);
    tolerate(asked, &at, &mut talk.skipped)?;
    if beside > 0 {
        let detail = format!("{beside} rows of a time that is read from table message");
        talk.skipped
            .push(Skipped::new(&at, SkipReason::Shadowed, detail));
    }
    Ok(())
}

fn add(row: &Row<'_>, place: Place<'_>, created: i64, talk: &mut Talk) {
    match form_of(row, place) {
        Ok((newer, form)) => talk.add(
            MessageText {
                id: newer.id.into(),
                text: form.text.into(),
                seq: row.integer(4).and_then(|seq| u64::try_from(seq).ok()),
                copied: false,
                parts: form.parts,
            },
            created,
        ),
        Err(why) => talk.skipped.push(why),
    }
}

/// Names rows that no session leads to.
pub(super) fn strays(
    reader: &Reader<'_>,
    schema: &Schema,
    place: Place<'_>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let known = known_sessions(schema);
    let sql = format!(
        "SELECT session_id, count(*) FROM session_message x WHERE {known} GROUP BY session_id"
    );
    orphans(
        reader,
        &sql,
        (place, "session"),
        SkipReason::OrphanMessages,
        skipped,
    )
}
