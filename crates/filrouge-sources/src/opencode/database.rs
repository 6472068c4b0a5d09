//! OpenCode's databases: `opencode*.db`, each with up to three generations (DESIGN §10).
//!
//! | table of sessions | messages in | generation | read by |
//! |---|---|---|---|
//! | `session` | `message`, `part` | `sqlite` | `sqlite.rs` |
//! | `session` | only `session_message` | `session_message` | `session_message.rs`, `newer_form.rs` |
//! | `session_v2` | `session_message` | `session_v2` | `session_message.rs`, `newer_form.rs` |
//!
//! The rows that exist decide a session's generation, not the version of OpenCode that wrote it. The following are
//! never read: `event`, which makes real databases ten times as large, accounts, credentials, and the secrets of shared
//! sessions.
//!
//! OpenCode 2.x imports the sessions of older versions once, one after the other. A session whose row is already in
//! `session_v2`, but which has no rows in `session_message`, still has its messages in `message` and `part`. Builds of
//! 2.x before its release used the table name `session`; their sessions have the generation `session_message`.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_sqlite::foreign::{DatabaseFingerprint, ForeignDatabase, ForeignKind, Reader, Result};
use filrouge_types::lock;

use super::gathered::GatheredMessages;
use super::layout::add_diff;
use super::row_place::{duplicate_row, read_error, report_damage, row_path, source_error};
use super::row_sums::{self, RowSum};
use super::session_rows::{self, SESSION, SESSION_V2, SQLITE, Schema};
use super::storage::{MessageText, SessionText, Storage};
use super::{session, session_message, sqlite};
use crate::files::{Files, Folder};
use crate::object::Writer;
use crate::{Fingerprint, Header, Listing, ReadError, SkipReason, Skipped, SourceError};

/// The tables of sessions, the newer one first.
const TABLES: [&str; 2] = [SESSION_V2, SESSION];

/// One database.
pub(super) struct Database {
    /// The path under which the database was found; reports show it.
    path: PathBuf,
    foreign: ForeignDatabase,
    /// The last listing of all sessions, and the database's fingerprint before it was read.
    listed: Mutex<Option<(DatabaseFingerprint, Arc<Listing>)>>,
    /// The schema, and the database's fingerprint when it was read.
    schema: Mutex<Option<(DatabaseFingerprint, Arc<Schema>)>>,
}

impl Database {
    pub(super) fn new(path: PathBuf, foreign: ForeignDatabase) -> Self {
        Self {
            path,
            foreign,
            listed: Mutex::default(),
            schema: Mutex::default(),
        }
    }

    /// The tables in the reader's snapshot; read again only after a commit by another connection.
    fn schema(&self, reader: &Reader<'_>) -> Result<Arc<Schema>> {
        // The snapshot begins before the fingerprint is read. So if the fingerprint is still that of the cached schema,
        // nothing was committed between the two.
        reader.begin()?;
        let fingerprint = self.foreign.fingerprint()?;
        let mut cached = lock(&self.schema);
        if let Some((old, schema)) = cached.as_ref()
            && fingerprint.is_some_and(|fingerprint| *old == fingerprint)
        {
            return Ok(schema.clone());
        }
        let schema = Arc::new(Schema::read(reader)?);
        *cached = fingerprint.map(|fingerprint| (fingerprint, schema.clone()));
        Ok(schema)
    }

    /// Whether the database has a table of sessions.
    pub(super) fn has_session_table(&self) -> Result<bool> {
        let schema = self.foreign.read(|reader| self.schema(reader))?;
        Ok(TABLES.iter().any(|table| schema.has(table)))
    }

    /// Lists all sessions. Scans all rows, unless nothing was committed since the last scan.
    fn listing(&self) -> Result<Arc<Listing>> {
        // The fingerprint is read before the rows, so the next call sees changes made during this one. The lock is held
        // throughout, so that only one of several concurrent callers scans.
        let mut listed = lock(&self.listed);
        let fingerprint = self.foreign.fingerprint()?;
        if let Some((old, listing)) = listed.as_ref()
            && fingerprint.is_some_and(|fingerprint| *old == fingerprint)
        {
            return Ok(listing.clone());
        }
        let listing = Arc::new(self.foreign.read(|reader| self.list_all(reader))?);
        *listed = fingerprint.map(|fingerprint| (fingerprint, listing.clone()));
        Ok(listing)
    }

    fn list_all(&self, reader: &Reader<'_>) -> Result<Listing> {
        let schema = self.schema(reader)?;
        let sums = match row_sums::sums_by_session(reader, &schema) {
            // A damaged page can hide changes, so no session gets a fingerprint.
            Err(why) if matches!(why.kind, ForeignKind::Corrupt | ForeignKind::TooLarge) => None,
            sums => Some(sums?),
        };
        let (mut all, mut generations) = (Listing::default(), HashMap::new());
        if !TABLES.iter().any(|table| schema.has(table)) {
            let (reason, why) = (SkipReason::Database, "no table of sessions");
            all.skipped.push(Skipped::new(&self.path, reason, why));
        }
        for table in TABLES {
            let (mut newer, place) = (Listing::default(), (table, &*self.path));
            let rows = session_rows::read(reader, &schema, place, None, &mut newer.skipped)?;
            let mut ids = HashSet::new();
            for mut row in rows {
                session_rows::add_missing_agent(reader, &schema, &mut row)?;
                let session = &row.session;
                let header = match ids.insert(session.id.clone()) {
                    true => session::header(session),
                    false => Err(duplicate_row(&session.place)),
                };
                let rows = sums.as_ref().map(|sums| sums.get(&session.id).copied());
                match header {
                    Ok(header) => newer.headers.push(Arc::new(Header {
                        fingerprint: rows.map(|rows| fingerprint(session, rows)),
                        ..header
                    })),
                    Err(why) => newer.skipped.push(why),
                }
            }
            all.add_older(&newer, &mut generations);
        }
        Ok(all.sorted())
    }

    /// The messages of a session, from one snapshot.
    fn gather_messages(&self, session: &SessionText) -> Result<GatheredMessages> {
        let (id, database) = (&*session.id, &*self.path);
        self.foreign.read(|reader| {
            let (schema, mut gathered) = (self.schema(reader)?, GatheredMessages::default());
            let is_newest = session.generation == SESSION_V2;
            let table = if is_newest { SESSION_V2 } else { SESSION };
            let place = (table, database);
            let rows = session_rows::read(reader, &schema, place, Some(id), &mut Vec::new())?;
            let Some(row) = rows.first() else {
                return Ok(gathered);
            };
            // Copies in a fork have the creation times of the originals, so they are older than the fork.
            let is_fork = is_newest && row.session.fork_of.is_some();
            gathered.copied_before = is_fork.then_some(row.created);
            if row.in_message && !(is_newest && row.in_session_message) {
                sqlite::read(reader, &schema, database, id, &mut gathered)?;
            }
            if row.in_session_message {
                session_message::read(reader, &schema, database, id, &mut gathered)?;
            }
            Ok(gathered)
        })
    }

    /// Adds the content of a session's file of differences (`session_diff`) to its metadata. Some versions of OpenCode
    /// since 1.2 still write them to a file, for some sessions.
    fn add_session_diff(&self, session: &str, metadata: &mut Writer) -> Result<(), Skipped> {
        let root = self.path.parent().map(Path::to_owned);
        let root = root.filter(|root| !root.as_os_str().is_empty());
        let files = Files {
            root: root.unwrap_or_else(|| PathBuf::from(".")),
        };
        let folder = files.folder(Path::new("storage/session_diff"))?;
        // Only a file that a listing names is opened.
        let is_listed =
            |folder: &Folder| folder.ids(&mut Vec::new()).iter().any(|id| id == session);
        let folder = folder.filter(is_listed);
        folder.map_or(Ok(()), |folder| add_diff(&folder, session, metadata))
    }
}

impl Storage for Database {
    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.listing().map_err(source_error)
    }

    /// Reads the current row of one session, from the newer table if both have it.
    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        let read = self.foreign.read(|reader| {
            let (schema, mut reports) = (self.schema(reader)?, Vec::new());
            for table in TABLES {
                let place = (table, &*self.path);
                for mut row in session_rows::read(reader, &schema, place, Some(id), &mut reports)? {
                    session_rows::add_missing_agent(reader, &schema, &mut row)?;
                    match session::header(&row.session) {
                        Ok(_) => return Ok(Ok(row.session)),
                        Err(why) => reports.push(why),
                    }
                }
            }
            Ok(Err(reports))
        });
        let session = read.map_err(read_error)?;
        session.map_err(|reports| {
            let why = reports.into_iter().next();
            why.map_or(ReadError::Gone, Into::into)
        })
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let mut gathered = self.gather_messages(session).map_err(read_error)?;
        skipped.append(&mut gathered.skipped);
        Ok(gathered.messages)
    }

    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        let (table, id) = match part {
            // In `session_message`, parts have no rows of their own.
            _ if session.generation != SQLITE => ("session_message", message),
            None => ("message", message),
            Some(part) => ("part", part),
        };
        row_path(&self.path, table, id)
    }

    fn add_extras(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        let place = row_path(&self.path, "todo", &session.id);
        let read = self
            .foreign
            .read(|reader| match self.schema(reader)?.has("todo") {
                true => read_todo(reader, &place, &session.id),
                false => Ok((None, Vec::new())),
            });
        match read {
            Ok((todo, mut left_out)) => {
                metadata.optional_raw("todo", todo.as_deref());
                skipped.append(&mut left_out);
            }
            Err(why) => {
                let reason = SkipReason::Unreadable;
                skipped.push(Skipped::new(&place, reason, why.to_string()));
            }
        }
        if let Err(why) = self.add_session_diff(&session.id, metadata) {
            skipped.push(why);
        }
    }

    fn add_orphans(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        let read = self.foreign.read(|reader| {
            let (schema, mut reports) = (self.schema(reader)?, Vec::new());
            sqlite::find_orphans(reader, &schema, &self.path, &mut reports)?;
            Ok(reports)
        });
        skipped.append(&mut read.map_err(source_error)?);
        Ok(())
    }
}

/// The fingerprint of a session: a hash of its row, its project, and the sum over its rows of messages and parts. The
/// path of the database is not included.
fn fingerprint(session: &SessionText, rows: Option<RowSum>) -> Fingerprint {
    let (agent, fork_of) = (&session.agent, &session.fork_of);
    Fingerprint::compute(&(&*session.text, &session.project, agent, fork_of, rows))
}

/// A session's to-do list as JSON, in the form that the file storage has.
fn read_todo(
    reader: &Reader<'_>,
    place: &Path,
    session: &str,
) -> Result<(Option<String>, Vec<Skipped>)> {
    let mut entries = Vec::new();
    let mut skipped = Vec::new();
    let sql = "SELECT content, status, priority FROM todo WHERE session_id = ?1 ORDER BY position";
    let result = reader.query(sql, &[session], |row| {
        let mut entry = Writer::default();
        for (column, key) in ["content", "status", "priority"].into_iter().enumerate() {
            entry.optional_text(key, row.text(column));
        }
        entries.push(entry.finish());
        ControlFlow::Continue(())
    });
    report_damage(result, place, &mut skipped)?;
    let list = (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")));
    Ok((list, skipped))
}
