//! OpenCode's databases: `opencode*.db`, each with up to three generations in it (DESIGN §10).
//!
//! | table of sessions | talk in | generation | read by |
//! |---|---|---|---|
//! | `session` | `message`, `part` | `sqlite` | `sqlite.rs` |
//! | `session` | `session_message` alone | `session_message` | `session_message.rs`, `newer_form.rs` |
//! | `session_v2` | `session_message` | `session_v2` | the same |
//!
//! What a session is goes by the rows that exist, not by a version. Never read: `event`, which makes real databases
//! ten times as large, accounts, credentials, and the secrets of shared sessions.
//!
//! The import of 2.x runs once, session after session: one whose row is in `session_v2` and whose talk is not yet has it
//! in `message` and `part` still. Builds before the release kept the name `session` for their table; those sessions are
//! of the newer kind, and read like it.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, ForeignKind, Mark, Reader};

use super::layout::add_diff;
use super::row_place::{Place, another_row, read_error, source_error, tolerate};
use super::row_sums::{self, Sum};
use super::session_rows::{self, SESSION, SESSION_V2, SQLITE, Schema, SessionRow};
use super::storage::{MessageText, SessionText, Storage};
use super::talk::Talk;
use super::{session, session_message, sqlite};
use crate::files::{Files, Folder};
use crate::locked::locked;
use crate::object::Writer;
use crate::{Fingerprint, Header, Listing, ReadError, SkipReason, Skipped, SourceError};

/// The tables of sessions, the newer one first.
const TABLES: [&str; 2] = [SESSION_V2, SESSION];

/// One database.
pub(super) struct Database {
    /// As it was found.
    shown: PathBuf,
    foreign: ForeignDatabase,
    /// All its sessions, as of a mark.
    listed: Mutex<Option<(Mark, Arc<Listing>)>>,
}

impl Database {
    pub(super) fn new(shown: PathBuf, foreign: ForeignDatabase) -> Self {
        Self {
            shown,
            foreign,
            listed: Mutex::default(),
        }
    }

    fn shown(&self) -> Place<'_> {
        Place(&self.shown)
    }

    /// Whether there is a table of sessions in it.
    pub(super) fn holds_sessions(&self) -> Result<bool, ForeignError> {
        let schema = self.foreign.read(Schema::read)?;
        Ok(TABLES.iter().any(|table| schema.has(table)))
    }

    /// All its sessions. One scan of all rows, unless nobody has committed since the last one.
    fn listing(&self) -> Result<Arc<Listing>, ForeignError> {
        // Before reading: what changes meanwhile is seen by the next call. Held meanwhile: of several who ask one scans.
        let mut listed = locked(&self.listed);
        let mark = self.foreign.mark()?;
        if let Some((old, listing)) = listed.as_ref()
            && mark.is_some_and(|mark| *old == mark)
        {
            return Ok(listing.clone());
        }
        let listing = Arc::new(self.foreign.read(|reader| self.list_all(reader))?);
        *listed = mark.map(|mark| (mark, listing.clone()));
        Ok(listing)
    }

    fn list_all(&self, reader: &Reader<'_>) -> Result<Listing, ForeignError> {
        let schema = Schema::read(reader)?;
        let sums = match row_sums::of_all(reader, &schema) {
            // What a damaged page hides may change without a trace: then no session has a fingerprint.
            Err(why) if matches!(why.kind, ForeignKind::Corrupt | ForeignKind::TooLarge) => None,
            sums => Some(sums?),
        };
        let (mut all, mut seen) = (Listing::default(), HashMap::new());
        if !TABLES.iter().any(|table| schema.has(table)) {
            let (reason, why) = (SkipReason::Database, "no table of sessions");
            all.skipped.push(Skipped::new(&self.shown, reason, why));
        }
        for table in TABLES {
            let mut newer = Listing::default();
            let rows = self.rows(reader, &schema, table, None, &mut newer.skipped)?;
            let mut ids = HashSet::new();
            for mut row in rows {
                session_rows::complete(reader, &schema, &mut row)?;
                let own = &row.session;
                let header = match ids.insert(own.id.clone()) {
                    true => session::header(own),
                    false => Err(another_row(&own.place)),
                };
                let rows = sums.as_ref().map(|sums| sums.get(&own.id).copied());
                match header {
                    Ok(header) => newer.headers.push(Arc::new(Header {
                        fingerprint: rows.map(|rows| fingerprint(own, rows)),
                        ..header
                    })),
                    Err(why) => newer.skipped.push(why),
                }
            }
            all.add(&newer, &mut seen);
        }
        Ok(all.in_order())
    }

    /// The rows of a table of sessions; `id` for one alone.
    fn rows(
        &self,
        reader: &Reader<'_>,
        schema: &Schema,
        table: &str,
        id: Option<&str>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<SessionRow>, ForeignError> {
        match schema.has(table) {
            true => session_rows::read(reader, schema, (table, &*self.shown), id, skipped),
            false => Ok(Vec::new()),
        }
    }

    /// One session as it is now.
    fn row(&self, id: &str) -> Result<SessionText, ReadError> {
        let read = self.foreign.read(|reader| {
            let (schema, mut refused) = (Schema::read(reader)?, Vec::new());
            for table in TABLES {
                for mut row in self.rows(reader, &schema, table, Some(id), &mut refused)? {
                    session_rows::complete(reader, &schema, &mut row)?;
                    match session::header(&row.session) {
                        Ok(_) => return Ok(Ok(row.session)),
                        Err(why) => refused.push(why),
                    }
                }
            }
            Ok(Err(refused))
        });
        let found = read.map_err(read_error)?;
        found.map_err(|refused| match refused.into_iter().next() {
            Some(why) => why.into(),
            None => ReadError::Gone,
        })
    }

    /// The messages of a session, all of one moment.
    fn talk(&self, session: &SessionText) -> Result<Talk, ForeignError> {
        let (id, place) = (&*session.id, self.shown());
        self.foreign.read(|reader| {
            let (schema, mut talk) = (Schema::read(reader)?, Talk::default());
            let is_newest = session.generation == SESSION_V2;
            let table = if is_newest { SESSION_V2 } else { SESSION };
            let rows = self.rows(reader, &schema, table, Some(id), &mut Vec::new())?;
            let Some(row) = rows.first() else {
                return Ok(talk);
            };
            if row.in_message && !(is_newest && row.in_session_message) {
                sqlite::read(reader, &schema, place, id, &mut talk)?;
            }
            if row.in_session_message {
                session_message::read(reader, &schema, place, id, &mut talk)?;
            }
            if is_newest && row.session.fork_of.is_some() {
                // A fork is given copies, with the times of what they are copies of.
                talk.mark_copies(row.created);
            }
            Ok(talk)
        })
    }

    /// OpenCode 1.2 and later still write a session's differences as a file, some versions for some sessions.
    fn session_diff(&self, session: &str, metadata: &mut Writer) -> Result<(), Skipped> {
        let root = self.shown.parent().map(Path::to_owned);
        let root = root.filter(|root| !root.as_os_str().is_empty());
        let files = Files {
            root: root.unwrap_or_else(|| PathBuf::from(".")),
        };
        let folder = files.folder(Path::new("storage/session_diff"))?;
        // Only what a listing names is opened.
        let is_listed =
            |folder: &Folder| folder.ids(&mut Vec::new()).iter().any(|id| id == session);
        match folder.filter(is_listed) {
            Some(folder) => add_diff(&folder, session, metadata),
            None => Ok(()),
        }
    }
}

impl Storage for Database {
    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.listing().map_err(source_error)
    }

    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        self.row(id)
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let (messages, mut left_out) = self.talk(session).map_err(read_error)?.finish();
        skipped.append(&mut left_out);
        Ok(messages)
    }

    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        match part {
            // Parts have no row of their own.
            _ if session.generation != SQLITE => self.shown().of("session_message", message),
            None => self.shown().of("message", message),
            Some(part) => self.shown().of("part", part),
        }
    }

    fn beside(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        let read = self
            .foreign
            .read(|reader| match Schema::read(reader)?.has("todo") {
                true => todo(reader, self.shown(), &session.id),
                false => Ok((None, Vec::new())),
            });
        match read {
            Ok((todo, mut left_out)) => {
                if let Some(todo) = todo {
                    metadata.raw("todo", &todo);
                }
                skipped.append(&mut left_out);
            }
            Err(why) => {
                let at = self.shown().of("todo", &session.id);
                skipped.push(Skipped::new(&at, SkipReason::Unreadable, why.to_string()));
            }
        }
        if let Err(why) = self.session_diff(&session.id, metadata) {
            skipped.push(why);
        }
    }

    fn strays(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        let read = self.foreign.read(|reader| {
            let (schema, mut found) = (Schema::read(reader)?, Vec::new());
            sqlite::strays(reader, &schema, self.shown(), &mut found)?;
            if schema.has("session_message") {
                session_message::strays(reader, &schema, self.shown(), &mut found)?;
            }
            Ok(found)
        });
        skipped.append(&mut read.map_err(source_error)?);
        Ok(())
    }
}

/// The fingerprint of a session: of its row, its project and its `rows` of messages and parts. Not of where the database is.
fn fingerprint(session: &SessionText, rows: Option<Sum>) -> Fingerprint {
    let (agent, fork_of) = (&session.agent, &session.fork_of);
    Fingerprint::of(&(&*session.text, &session.project, agent, fork_of, rows))
}

/// A session's list of things to do, as the tree keeps it.
fn todo(
    reader: &Reader<'_>,
    place: Place<'_>,
    session: &str,
) -> Result<(Option<String>, Vec<Skipped>), ForeignError> {
    let mut entries = Vec::new();
    let mut skipped = Vec::new();
    let sql = "SELECT content, status, priority FROM todo WHERE session_id = ?1 ORDER BY position";
    let asked = reader.query(sql, &[session], |row| {
        let mut entry = Writer::default();
        for (column, key) in ["content", "status", "priority"].into_iter().enumerate() {
            if let Some(text) = row.text(column) {
                entry.text(key, text);
            }
        }
        entries.push(entry.finish());
        ControlFlow::Continue(())
    });
    tolerate(asked, &place.of("todo", session), &mut skipped)?;
    let list = (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")));
    Ok((list, skipped))
}
