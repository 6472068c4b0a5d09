//! The three generations that a database can hold, as [`Generation`]s.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sqlite::foreign::{ForeignError, Reader, Value};

use super::database::{Database, Place, read_error, source_error, tolerate};
use super::database_scan::{Rows, has_error, role_of, scan};
use super::generation::{Generation, Listed, MessageText, ReadSince, Record, SessionText};
use super::session_rows::{Schema, SessionRow};
use super::tree::skip;
use super::{session_message, session_v2, sqlite};
use crate::files::{Files, Folder};
use crate::object::{Writer, check_value};
use crate::{Look, Overlooks, ReadError, Scan, Since, SkipReason, Skipped, SourceError, Stamp};

/// Differences of this size and more are noted, not copied.
const DIFF_BYTES_MAX: i64 = 1 << 20;

/// So few sessions are read one by one; for more it is faster to look through the whole table.
const FEW: usize = 8;

/// Which sessions of a database; the newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Those of `session_v2`.
    SessionV2,
    /// Those of `session` whose talk is in `session_message` alone.
    SessionMessage,
    /// All others of `session`.
    Sqlite,
}

impl Kind {
    /// The newest first.
    pub(super) const ALL: [Self; 3] = [Self::SessionV2, Self::SessionMessage, Self::Sqlite];

    /// The kinds there can be.
    pub(super) fn all_in(schema: &Schema) -> Vec<Self> {
        let mut kinds = Vec::new();
        if schema.has(session_v2::TABLE) {
            kinds.push(Self::SessionV2);
        }
        if schema.has(sqlite::TABLE) && schema.has("session_message") {
            kinds.push(Self::SessionMessage);
        }
        if schema.has(sqlite::TABLE) && (schema.has("message") || kinds.is_empty()) {
            kinds.push(Self::Sqlite);
        }
        kinds
    }

    /// What a row of a table is. One without a message is of the older kind where there is a table for those.
    pub(super) fn of(table: &str, row: &SessionRow, schema: &Schema) -> Self {
        let newer = row.in_session_message || !schema.has("message");
        match table {
            session_v2::TABLE => Self::SessionV2,
            _ if !row.in_message && newer && schema.has("session_message") => Self::SessionMessage,
            _ => Self::Sqlite,
        }
    }

    /// The generation's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SessionV2 => "session_v2",
            Self::SessionMessage => "session_message",
            Self::Sqlite => "sqlite",
        }
    }

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::SessionV2 => session_v2::TABLE,
            Self::SessionMessage | Self::Sqlite => sqlite::TABLE,
        }
    }
}

/// One generation in a database.
pub(super) struct Stored {
    pub(super) kind: Kind,
    pub(super) database: Arc<Database>,
}

impl Generation for Stored {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn news(
        &self,
        known: Option<Stamp>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<Listed>, SourceError> {
        // Before reading: what changes meanwhile is seen by the next call.
        let mark = self.database.mark().map_err(source_error)?;
        if known == Some(mark) {
            return Ok(None);
        }
        if let Some(headers) = self.database.noted_headers(self.kind) {
            return Ok(Some(Listed { mark, headers }));
        }
        let schema = self.database.schema().map_err(source_error)?;
        if self.kind == Kind::Sqlite && !schema.has(sqlite::TABLE) && !schema.has(session_v2::TABLE)
        {
            let shown = &self.database.shown;
            skipped.push(Skipped::new(
                shown,
                SkipReason::Database,
                "no table of sessions",
            ));
        }
        let listed = self.database.listed().map_err(source_error)?;
        let mine = listed.skipped.iter().filter(|(kind, _)| *kind == self.kind);
        skipped.extend(mine.map(|(_, why)| why.clone()));
        let mut seen = HashSet::new();
        let mut headers = Vec::new();
        for (_, row) in listed.rows.iter().filter(|(kind, _)| *kind == self.kind) {
            let at = &row.session.place;
            if seen.insert(&*row.session.id) {
                match self.database.headers.of(self.kind, row) {
                    Ok(header) => headers.push(header),
                    Err(why) => skipped.push(why),
                }
            } else {
                skipped.push(Skipped::new(
                    at,
                    SkipReason::DuplicateId,
                    "another row has this id",
                ));
            }
        }
        let headers_of = &self.database.headers;
        headers_of.retain(self.kind, |id| seen.contains(id));
        Ok(Some(Listed { mark, headers }))
    }

    fn recall(&self, notes: &[u8]) {
        self.database.recall(self.kind, notes);
    }

    fn notes(&self) -> Option<Vec<u8>> {
        self.database.notes(self.kind)
    }

    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        self.database
            .row(self.kind.table(), id)
            .map(|row| row.session)
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let talk = self.database.talk(self.kind.table(), session);
        let (messages, mut left_out) = talk.map_err(read_error)?.finish();
        skipped.append(&mut left_out);
        Ok(messages)
    }

    fn place(&self, _session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        let place = self.database.place();
        match (self.kind, part) {
            // Parts have no row of their own.
            (Kind::SessionV2 | Kind::SessionMessage, _) => place.of("session_message", message),
            (Kind::Sqlite, None) => place.of("message", message),
            (Kind::Sqlite, Some(part)) => place.of("part", part),
        }
    }

    fn beside(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        let read = self
            .database
            .schema()
            .and_then(|schema| match schema.has("todo") {
                true => self
                    .database
                    .foreign
                    .read(|reader| todo(reader, self.database.place(), &session.id)),
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
                let at = self.database.place().of("todo", &session.id);
                skipped.push(Skipped::new(&at, SkipReason::Unreadable, why.to_string()));
            }
        }
        if let Err(why) = self.session_diff(&session.id, metadata) {
            skipped.push(why);
        }
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.database.stamp(self.kind.table(), id).map(Some)
    }

    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.database.lasting(self.kind.table(), id).map(Some)
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError> {
        let since = self.database.since(self.kind, known, look);
        since.map_err(source_error)
    }

    fn overlooks(&self) -> Overlooks {
        Overlooks::Together
    }

    fn read_since(
        &self,
        id: &str,
        known: &HashMap<&str, u64>,
    ) -> Result<Option<ReadSince>, ReadError> {
        match self.kind {
            Kind::Sqlite => self.database.read_since(id, known),
            Kind::SessionV2 | Kind::SessionMessage => Ok(None),
        }
    }

    fn whole(&self) -> Option<Stamp> {
        self.database.whole()
    }

    fn scan(
        &self,
        scan: &Scan<'_>,
        each: &(dyn Fn(&Record<'_>) + Sync),
    ) -> Result<(), SourceError> {
        self.look_through(scan, each).map_err(source_error)
    }

    fn strays(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        let schema = self.database.schema().map_err(source_error)?;
        let newer = match schema.has(session_v2::TABLE) {
            true => Kind::SessionV2,
            false => Kind::SessionMessage,
        };
        let place = self.database.place();
        let read = self.database.foreign.read(|reader| {
            let mut found = Vec::new();
            if self.kind == Kind::Sqlite {
                sqlite::strays(reader, &schema, place, &mut found)?;
            }
            if self.kind == newer && schema.has("session_message") {
                session_message::strays(reader, &schema, place, &mut found)?;
            }
            Ok(found)
        });
        skipped.append(&mut read.map_err(source_error)?);
        Ok(())
    }
}

impl Stored {
    fn look_through(
        &self,
        all: &Scan<'_>,
        each: &(dyn Fn(&Record<'_>) + Sync),
    ) -> Result<(), ForeignError> {
        let listed = self.database.listed()?;
        let rows = listed.rows.iter().filter(|(kind, _)| *kind == self.kind);
        let wanted: Vec<&SessionRow> = rows
            .map(|(_, row)| row)
            .filter(|row| (all.wanted)(&row.session.id))
            .collect();
        let table = match self.kind {
            Kind::Sqlite => Rows::Parts,
            Kind::SessionMessage | Kind::SessionV2 => Rows::Newer,
        };
        // Those whose talk is elsewhere, or in both places.
        let apart = |row: &&SessionRow| match table {
            Rows::Parts | Rows::Errors => row.in_session_message,
            Rows::Newer => {
                row.in_message && (self.kind == Kind::SessionMessage || !row.in_session_message)
            }
        };
        let few = wanted.len() <= FEW && wanted.len() * 4 < listed.rows.len();
        let (one_by_one, mut together): (Vec<&SessionRow>, Vec<_>) =
            wanted.into_iter().partition(|row| few || apart(row));
        for row in one_by_one {
            if !(all.stopped)() {
                self.look_through_one(&row.session, all, each)?;
            }
        }
        together.retain(|row| row.in_message || row.in_session_message);
        if together.is_empty() {
            return Ok(());
        }
        let ids: HashSet<&str> = together.iter().map(|row| &*row.session.id).collect();
        let mine = Scan {
            wanted: &|id| ids.contains(id),
            ..*all
        };
        let schema = self.database.schema()?;
        let (foreign, place) = (&self.database.foreign, self.database.place());
        let tables: &[Rows] = match table {
            Rows::Newer => &[Rows::Newer],
            _ => &[Rows::Parts, Rows::Errors],
        };
        for rows in tables.iter().filter(|rows| schema.has(rows.table())) {
            scan(foreign, &schema, (*rows, place), &mine, each)?;
        }
        Ok(())
    }

    fn look_through_one(
        &self,
        session: &SessionText,
        scan: &Scan<'_>,
        each: &(dyn Fn(&Record<'_>) + Sync),
    ) -> Result<(), ForeignError> {
        let talk = self.database.talk(self.kind.table(), session)?;
        let (messages, skipped) = talk.finish();
        if !skipped.is_empty() {
            (scan.unread)(&session.id);
        }
        for message in messages {
            let own = message.text.as_bytes();
            let role = if scan.roles { role_of(own) } else { None };
            let give = |part, text| {
                each(&Record {
                    session: &session.id,
                    message: &message.id,
                    role,
                    part,
                    text,
                });
            };
            if has_error(own) && (scan.may_hold)(own) {
                give(None, &message.text);
            }
            for part in &message.parts {
                if (scan.may_hold)(part.text.as_bytes()) {
                    give(Some(&part.id), &part.text);
                }
            }
        }
        Ok(())
    }

    /// OpenCode 1.2 and later still write a session's differences as a file, some versions for some sessions.
    fn session_diff(&self, session: &str, metadata: &mut Writer) -> Result<(), Skipped> {
        let Some(folder) = self.diffs()? else {
            return Ok(());
        };
        // Only what a listing names is opened.
        if !folder.ids(&mut Vec::new()).iter().any(|id| id == session) {
            return Ok(());
        }
        let bytes = folder.stat(session).map_or(0, |stat| stat.st_size);
        if bytes >= DIFF_BYTES_MAX {
            metadata.raw("session_diff_bytes", &bytes.to_string());
            return Ok(());
        }
        let text = folder.text(session)?;
        let value = check_value(&text).map_err(|why| skip(&folder.file(session), why))?;
        metadata.raw("session_diff", value);
        Ok(())
    }

    fn diffs(&self) -> Result<Option<Folder>, Skipped> {
        let Some(root) = self.database.shown.parent() else {
            return Ok(None);
        };
        let root = match root.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => root.to_owned(),
        };
        Files { root }.folder(Path::new("storage/session_diff"))
    }
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
    let asked = reader.query(sql, &[Value::Text(session)], |row| {
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
