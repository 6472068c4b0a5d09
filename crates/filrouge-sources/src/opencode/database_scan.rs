//! Looking through the rows of a database (DESIGN §10).
//!
//! Two threads take ranges of rows. What a query finds is handed on when it has ended: until then it may have to be
//! read again, because somebody wrote meanwhile.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, Reader, Row, Value};
use serde::Deserialize;

use super::database::Place;
use super::generation::Record;
use super::neutral_message::role;
use super::session_message::{columns, form_of};
use super::session_rows::Schema;
use super::sqlite::data_columns;
use super::tree::lock;
use crate::{Role, Scan};

/// Ranges that the rows are cut into: enough that two threads end together.
const RANGES: i64 = 16;

/// What is found is handed on when it has so many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// How many rows are looked at before it is asked whether to stop.
const ROWS_BETWEEN_STOPS: usize = 256;

/// A part, or a message that ended in an error, that may hold it.
struct Candidate {
    session: Box<str>,
    message: Box<str>,
    /// `None` for the message's own text.
    part: Option<Box<str>>,
    role: Option<Role>,
    text: Box<str>,
}

/// What one query has found, and where the next goes on.
struct Batch {
    found: Vec<Candidate>,
    last: i64,
    done: bool,
    /// The session of the last row.
    session: String,
}

/// Which rows are looked through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Those of `part`.
    Parts,
    /// Those of `message` that ended in an error.
    Errors,
    /// Those of `session_message`.
    Newer,
}

impl Rows {
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Parts => "part",
            Self::Errors => "message",
            Self::Newer => "session_message",
        }
    }

    fn columns(self, schema: &Schema) -> String {
        match self {
            Self::Parts => {
                let data = data_columns("part");
                format!("part.rowid, session_id, message_id, id, {data}")
            }
            Self::Errors => {
                let data = data_columns("message");
                format!("message.rowid, session_id, id, NULL, {data}")
            }
            Self::Newer => format!("{}, session_message.rowid", columns(schema)),
        }
    }
}

/// Looks through all rows of a table.
pub(super) fn scan(
    database: &ForeignDatabase,
    schema: &Schema,
    (rows, place): (Rows, Place<'_>),
    scan: &Scan<'_>,
    each: &(dyn Fn(&Record<'_>) + Sync),
) -> Result<(), ForeignError> {
    let table = rows.table();
    let (first, last) = database.read(|reader| {
        let mut ends = (0, -1);
        let sql = format!("SELECT min(rowid), max(rowid) FROM {table}");
        reader.query(&sql, &[], |row| {
            ends = (row.integer(0).unwrap_or(0), row.integer(1).unwrap_or(-1));
            ControlFlow::Continue(())
        })?;
        Ok(ends)
    })?;
    let step = (last.saturating_sub(first) / RANGES).saturating_add(1);
    let sql = format!(
        "SELECT {} FROM {table} WHERE {table}.rowid >= ?1 AND {table}.rowid <= ?2 ORDER BY {table}.rowid",
        rows.columns(schema)
    );
    let work = Work {
        database,
        rows,
        place,
        sql,
        scan,
        each,
    };
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let run = || {
        loop {
            let index = i64::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(i64::MAX);
            let from = first.saturating_add(index.saturating_mul(step));
            if index > RANGES || from > last || (scan.stopped)() {
                return;
            }
            let to = from.saturating_add(step - 1).min(last);
            if let Err(why) = work.range(from, to) {
                *lock(&failed) = Some(why);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(run);
        run();
    });
    let failed = lock(&failed).take();
    failed.map_or(Ok(()), Err)
}

struct Work<'a> {
    database: &'a ForeignDatabase,
    rows: Rows,
    place: Place<'a>,
    sql: String,
    scan: &'a Scan<'a>,
    each: &'a (dyn Fn(&Record<'_>) + Sync),
}

impl Work<'_> {
    fn range(&self, mut from: i64, to: i64) -> Result<(), ForeignError> {
        let (mut jump, mut before) = (1_i64, String::new());
        while from <= to && !(self.scan.stopped)() {
            let mut damaged = false;
            let batch = self.database.read(|reader| {
                let (batch, outcome) = self.batch(reader, from, to);
                match outcome {
                    // What is on the damaged page is passed over; where it ends can only be tried.
                    Err(ForeignError::Corrupt { .. } | ForeignError::TooLarge { .. }) => {
                        damaged = true;
                        Ok(batch)
                    }
                    Err(why) => Err(why),
                    Ok(()) => {
                        damaged = false;
                        Ok(batch)
                    }
                }
            })?;
            self.hand_on(&batch.found);
            if batch.done && !damaged {
                return Ok(());
            }
            let read_some = batch.last >= from;
            from = batch.last.max(from.saturating_sub(1)).saturating_add(1);
            if damaged {
                // Rows of one session stand together: what is lost is most likely of this one.
                if !batch.session.is_empty() {
                    before.clone_from(&batch.session);
                }
                match before.is_empty() {
                    false => (self.scan.unread)(&before),
                    // Nothing tells whose rows they were: any session's.
                    true => self.any_unread(),
                }
                jump = if read_some { 1 } else { jump.saturating_mul(2) };
                from = from.saturating_add(jump);
            }
        }
        Ok(())
    }

    fn any_unread(&self) {
        let ids = self.scan.ids.unwrap_or_default();
        for id in ids.iter().filter(|id| (self.scan.wanted)(id)) {
            (self.scan.unread)(id);
        }
    }

    fn batch(&self, reader: &Reader<'_>, from: i64, to: i64) -> (Batch, Result<(), ForeignError>) {
        let mut batch = Batch {
            found: Vec::new(),
            last: from.saturating_sub(1),
            done: true,
            session: String::new(),
        };
        let (mut bytes, mut count) = (0, 0_usize);
        let mut session = Session::default();
        let values = [Value::Integer(from), Value::Integer(to)];
        let outcome = reader.query(&self.sql, &values, |row| {
            count += 1;
            bytes += match self.rows {
                Rows::Parts | Rows::Errors => self.part(row, &mut session, &mut batch),
                Rows::Newer => self.newer(row, &mut session, &mut batch),
            };
            let full = bytes >= BATCH_BYTES;
            if full || (count.is_multiple_of(ROWS_BETWEEN_STOPS) && (self.scan.stopped)()) {
                batch.done = false;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let outcome = outcome.and_then(|()| match self.scan.roles && self.rows != Rows::Newer {
            true => roles(reader, &mut batch.found),
            false => Ok(()),
        });
        batch.session = session.id;
        (batch, outcome)
    }

    /// Takes a row of `part` when it may hold it; gives how much memory that takes.
    fn part(&self, row: &Row<'_>, session: &mut Session, batch: &mut Batch) -> usize {
        batch.last = row.integer(0).unwrap_or(batch.last);
        let Some(id) = row.text(1) else { return 0 };
        if !session.wanted(id, self.scan) {
            return 0;
        }
        let errors = self.rows == Rows::Errors;
        let holds = |bytes: &&[u8]| (!errors || has_error(bytes)) && (self.scan.may_hold)(bytes);
        let text = row
            .bytes(5)
            .filter(holds)
            .and_then(|b| std::str::from_utf8(b).ok());
        let (Some(message), part, Some(text)) = (row.text(2), row.text(3), text) else {
            // A value that is too large, or no text at all.
            if row
                .bytes(5)
                .is_none_or(|bytes| std::str::from_utf8(bytes).is_err())
            {
                (self.scan.unread)(id);
            }
            return 0;
        };
        if part.is_none() && !errors {
            return 0;
        }
        batch.found.push(Candidate {
            session: id.into(),
            message: message.into(),
            part: part.map(Into::into),
            role: None,
            text: text.into(),
        });
        text.len() + 160
    }

    /// Takes the parts of a row of `session_message` that may hold it.
    fn newer(&self, row: &Row<'_>, session: &mut Session, batch: &mut Batch) -> usize {
        batch.last = row.integer(8).unwrap_or(batch.last);
        let Some(id) = row.text(7) else { return 0 };
        let holds = |bytes: &[u8]| (self.scan.may_hold)(bytes);
        if !session.wanted(id, self.scan) {
            return 0;
        }
        if row.bytes(2).is_none() {
            (self.scan.unread)(id);
        }
        if !row.bytes(2).is_some_and(holds) {
            return 0;
        }
        let Ok((newer, form)) = form_of(row, self.place) else {
            (self.scan.unread)(id);
            return 0;
        };
        let role = role_of(form.text.as_bytes());
        let mut bytes = 0;
        if has_error(form.text.as_bytes()) && holds(form.text.as_bytes()) {
            bytes += form.text.len() + 160;
            batch.found.push(Candidate {
                session: id.into(),
                message: newer.id.into(),
                part: None,
                role,
                text: form.text.into(),
            });
        }
        for part in form.parts {
            if holds(part.text.as_bytes()) {
                bytes += part.text.len() + 160;
                batch.found.push(Candidate {
                    session: id.into(),
                    message: newer.id.into(),
                    part: Some(part.id),
                    role,
                    text: part.text,
                });
            }
        }
        bytes
    }

    fn hand_on(&self, found: &[Candidate]) {
        for one in found {
            (self.each)(&Record {
                session: &one.session,
                message: &one.message,
                role: one.role,
                part: one.part.as_deref(),
                text: &one.text,
            });
        }
    }
}

/// The session of the last row: rows of one session stand together.
#[derive(Default)]
struct Session {
    id: String,
    wanted: bool,
}

impl Session {
    fn wanted(&mut self, id: &str, scan: &Scan<'_>) -> bool {
        if self.id != id || id.is_empty() {
            id.clone_into(&mut self.id);
            self.wanted = (scan.wanted)(id);
        }
        self.wanted
    }
}

/// Whether a message's JSON may say that it ended in an error.
pub(super) fn has_error(data: &[u8]) -> bool {
    memchr::memmem::find(data, b"\"error\"").is_some()
}

#[derive(Deserialize)]
struct Speaker<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
}

/// The role that a message's JSON says.
pub(super) fn role_of(data: &[u8]) -> Option<Role> {
    let speaker: Speaker<'_> = serde_json::from_slice(data).ok()?;
    role(&speaker.role)
}

/// Looks up who the candidates are from, each message once.
fn roles(reader: &Reader<'_>, found: &mut [Candidate]) -> Result<(), ForeignError> {
    let mut known: HashMap<Box<str>, Option<Role>> = HashMap::new();
    let sql = format!(
        "SELECT {} FROM message WHERE message.id = ?1",
        data_columns("message")
    );
    for one in found {
        if let Some(role) = known.get(&one.message) {
            one.role = *role;
            continue;
        }
        let mut role = None;
        reader.query(&sql, &[Value::Text(&one.message)], |row| {
            role = row.bytes(1).and_then(role_of);
            ControlFlow::Break(())
        })?;
        known.insert(one.message.clone(), role);
        one.role = role;
    }
    Ok(())
}
