//! What of a session in a database is another than an index knows it: one new message is read, not thousands.

use std::collections::HashMap;
use std::ops::ControlFlow;

use filrouge_sqlite::foreign::{ForeignError, Reader, Value};

use super::database::{Database, hashed, read_error};
use super::database_sums::{self, Sums};
use super::generation::{MessageText, ReadSince};
use super::session_rows::{Schema, SessionRow};
use super::sqlite;
use super::talk::Talk;
use crate::{ReadError, Skipped};

/// Of more messages than one of so many the whole session is read: that takes less than to look them up.
const FEW: usize = 8;

/// The states of a session's messages, by their ids, with those of their parts.
type States = HashMap<Box<str>, u64>;

/// What one session says, of one moment.
struct Moment {
    row: SessionRow,
    sums: Sums,
    states: States,
    same: Vec<Box<str>>,
    messages: Vec<MessageText>,
    skipped: Vec<Skipped>,
}

impl Database {
    /// [`super::generation::Generation::read_since`], of sessions whose talk is in `message` and `part` alone.
    pub(super) fn read_since(
        &self,
        id: &str,
        known: &HashMap<&str, u64>,
    ) -> Result<Option<ReadSince>, ReadError> {
        let schema = self.schema().map_err(read_error)?;
        let read = self
            .foreign
            .read(|reader| self.moment(reader, &schema, id, known));
        let read = match read {
            // Damage costs the rows behind it, where it is read as a whole.
            Err(why @ (ForeignError::Corrupt { .. } | ForeignError::TooLarge { .. })) => {
                tracing::debug!(%why, "a session is read as a whole");
                None
            }
            read => read.map_err(read_error)?,
        };
        Ok(read.map(|mut read| {
            for same in &read.same {
                read.states.remove(same);
            }
            ReadSince {
                mark: self.mark_of(&read.row.session.text, &read.sums),
                session: Some(read.row.session),
                messages: read.messages,
                same: read.same,
                states: read.states,
                skipped: read.skipped,
            }
        }))
    }

    fn moment(
        &self,
        reader: &Reader<'_>,
        schema: &Schema,
        id: &str,
        known: &HashMap<&str, u64>,
    ) -> Result<Option<Moment>, ForeignError> {
        let mut skipped = Vec::new();
        let rows = self.rows(reader, schema, sqlite::TABLE, Some(id), &mut skipped)?;
        let row = rows.into_iter().next();
        let Some(row) = row.filter(|row| row.in_message && !row.in_session_message) else {
            return Ok(None);
        };
        let (sums, states) = states(reader, schema, id)?;
        let all = states.iter().map(|(id, state)| (&**id, *state));
        let (same, others): (Vec<_>, Vec<_>) =
            all.partition(|(id, state)| known.get(id) == Some(state));
        let mut talk = Talk::default();
        let is_few = others.len() < states.len() / FEW;
        if is_few {
            for (message, _) in &others {
                sqlite::read_one(reader, schema, self.place(), (id, message), &mut talk)?;
            }
        } else {
            sqlite::read(reader, schema, self.place(), id, &mut talk)?;
        }
        let same = match is_few {
            true => same.into_iter().map(|(id, _)| id.into()).collect(),
            false => Vec::new(),
        };
        let (messages, mut left_out) = talk.finish();
        skipped.append(&mut left_out);
        Ok(Some(Moment {
            row,
            sums,
            states,
            same,
            messages,
            skipped,
        }))
    }
}

/// What the session's rows come to, and the states of its messages: of their own rows, and of those of their parts.
fn states(
    reader: &Reader<'_>,
    schema: &Schema,
    session: &str,
) -> Result<(Sums, States), ForeignError> {
    let (mut sums, mut states) = (Sums::default(), States::new());
    let [message, part, _] = &mut sums;
    let tables = [("message", "id", message), ("part", "message_id", part)];
    for (table, owner, sum) in tables.into_iter().filter(|(table, ..)| schema.has(table)) {
        let sql = format!(
            "SELECT {owner}, id, rowid, time_updated, octet_length(data) FROM {table} \
             WHERE session_id = ?1"
        );
        reader.query(&sql, &[Value::Text(session)], |row| {
            let one = database_sums::of_row(row, 2);
            sum.add(one);
            let (owner, id) = (row.text(0).unwrap_or_default(), row.text(1));
            // In whatever order rows come.
            let number = hashed(&(table, id, one.newest, one.bytes)).0;
            match states.get_mut(owner) {
                Some(state) => *state = state.wrapping_add(number).max(1),
                None if table == "message" => drop(states.insert(owner.into(), number.max(1))),
                None => {}
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok((sums, states))
}
