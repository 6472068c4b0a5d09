//! OpenCode's databases: `opencode*.db`, each with up to three generations in it (DESIGN §10).
//!
//! | table of sessions | talk in | generation | read by |
//! |---|---|---|---|
//! | `session` | `message`, `part` | `sqlite` | `sqlite.rs` |
//! | `session` | `session_message` alone | `session_message` | `session_message.rs`, `newer_form.rs` |
//! | `session_v2` | `session_message` | `session_v2` | `session_v2.rs` |
//!
//! What a session is goes by the rows that exist, not by a version. Never read: `event`, which makes real databases
//! ten times as large, accounts, credentials, and the secrets of shared sessions.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, Mark, Reader, SchemaMark};
use filrouge_types::Clock;

use super::database_headers::Headers;
use super::database_lasting::{Counted, Held};
use super::database_notes::NotedByKind;
use super::database_sums;
use super::generation::SessionText;
use super::open::is_usual_database;
use super::session_rows::{self, Schema, SessionRow};
use super::stored::{Kind, Stored};
use super::talk::Talk;
use super::tree::lock;
use super::{session_message, session_v2, sqlite};
use crate::{ReadError, SkipReason, Skipped, SourceError, Stamp};

/// Where a database is shown to lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a>(pub(super) &'a Path);

impl Place<'_> {
    /// The place of a row: `/path/opencode.db#part/prt_x`.
    pub(super) fn of(self, table: &str, id: &str) -> PathBuf {
        place(self.0, table, id)
    }
}

/// The place of a row.
pub(super) fn place(database: &Path, table: &str, id: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("#");
    name.push(table);
    if !id.is_empty() {
        name.push("/");
        name.push(id);
    }
    name.into()
}

/// Damage costs the rows behind it: it is named at `place`. Everything else is an error.
pub(super) fn tolerate(
    asked: Result<(), ForeignError>,
    place: &Path,
    skipped: &mut Vec<Skipped>,
) -> Result<(), ForeignError> {
    let (reason, why) = match asked {
        Err(why @ ForeignError::Corrupt { .. }) => (SkipReason::Malformed, why),
        Err(why @ ForeignError::TooLarge { .. }) => (SkipReason::TooLarge, why),
        asked => return asked,
    };
    skipped.push(Skipped::new(place, reason, why.to_string()));
    Ok(())
}

pub(super) fn source_error(why: ForeignError) -> SourceError {
    match why {
        ForeignError::Gone { path } => SourceError::NotFound {
            program: "opencode",
            path,
        },
        why => SourceError::Unreadable {
            reason: why.reason(),
            path: why.into_path(),
        },
    }
}

pub(super) fn read_error(why: ForeignError) -> ReadError {
    ReadError::Unavailable(why.to_string())
}

/// Opens the databases at `path`: one file, or all `opencode*.db` of a folder. Gives their generations, the newest
/// first. A file that was asked for has to be a history; one among others is named when it is listed.
///
/// # Errors
/// [`SourceError`] when the folder or the file cannot be read, or the file is no history.
pub(super) fn open(path: &Path, clock: &Arc<dyn Clock>) -> Result<Vec<Stored>, SourceError> {
    let alone = !path.is_dir();
    let files = match alone {
        true => vec![path.to_owned()],
        false => files(path)?.0,
    };
    let mut found: Vec<(Kind, Arc<Database>)> = Vec::new();
    for file in files {
        let database = match ForeignDatabase::open(&file) {
            Ok(foreign) => Arc::new(Database::new(file, foreign, clock.clone())),
            Err(_) if !alone => continue,
            Err(why) => return Err(source_error(why)),
        };
        let kinds = match database.schema() {
            Ok(schema) => Kind::all_in(&schema),
            // It may be locked just now: listing tells.
            Err(_) if !alone => vec![Kind::Sqlite],
            Err(ForeignError::NotADatabase { .. }) => Vec::new(),
            Err(why) => return Err(source_error(why)),
        };
        let kinds = match kinds.is_empty() && !alone {
            true => vec![Kind::Sqlite],
            false => kinds,
        };
        found.extend(kinds.into_iter().map(|kind| (kind, database.clone())));
    }
    found.sort_by_key(|(kind, _)| *kind);
    let stored = |(kind, database)| Stored { kind, database };
    Ok(found.into_iter().map(stored).collect())
}

/// The databases in a folder: `opencode.db`, and `opencode-<channel>.db` of other channels; and what has such a name
/// and is no file.
pub(super) fn files(folder: &Path) -> Result<(Vec<PathBuf>, Vec<Skipped>), SourceError> {
    let failed = |e: std::io::Error| SourceError::Unreadable {
        path: folder.to_owned(),
        reason: e.to_string(),
    };
    let (mut found, mut odd) = (Vec::new(), Vec::new());
    for child in std::fs::read_dir(folder).map_err(failed)? {
        let path = child.map_err(failed)?.path();
        if !path.file_name().is_some_and(is_usual_database) {
            continue;
        }
        match path.metadata() {
            Ok(meta) if meta.is_file() => found.push(path),
            Ok(_) => odd.push(Skipped::new(&path, SkipReason::WrongKind, "not a file")),
            // A link to nothing, or in a circle; one that may not be followed is told as such.
            Err(_) if path.is_symlink() => {
                let detail = "a symbolic link that leads to no file";
                odd.push(Skipped::new(&path, SkipReason::WrongKind, detail));
            }
            // It has gone since the folder was listed.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => found.push(path),
        }
    }
    found.sort();
    odd.sort();
    Ok((found, odd))
}

/// All generations that one database can hold, whichever tables it has now, the newest first.
///
/// # Errors
/// [`SourceError`] when there is no such file.
pub(super) fn all_of(
    file: &Path,
    clock: Arc<dyn Clock>,
) -> Result<(Arc<Database>, Vec<Stored>), SourceError> {
    let foreign = ForeignDatabase::open(file).map_err(source_error)?;
    let database = Arc::new(Database::new(file.to_owned(), foreign, clock));
    let stored = Kind::ALL.map(|kind| Stored {
        kind,
        database: database.clone(),
    });
    Ok((database, stored.into()))
}

/// All sessions of a database.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// [`Database::whole`] before they were read.
    pub(super) whole: Option<Stamp>,
    pub(super) rows: Vec<(Kind, SessionRow)>,
    pub(super) skipped: Vec<(Kind, Skipped)>,
}

/// One database.
pub(super) struct Database {
    /// As it was found.
    pub(super) shown: PathBuf,
    pub(super) foreign: ForeignDatabase,
    pub(super) clock: Arc<dyn Clock>,
    schema: Mutex<Option<(SchemaMark, Arc<Schema>)>>,
    pub(super) listed: Mutex<Option<(Mark, Arc<Listed>)>>,
    /// Agents that only first messages name; they do not change.
    agents: Mutex<HashMap<Box<str>, Box<str>>>,
    stamps: Mutex<HashMap<Box<str>, (Mark, Stamp)>>,
    pub(super) headers: Headers,
    pub(super) noted: NotedByKind,
    /// What all sessions hold, as of a mark.
    pub(super) held: Mutex<Option<(Mark, Arc<Held>)>>,
    /// What a quick look at them compares, as of a mark.
    pub(super) counted: Mutex<Option<(Mark, Arc<Counted>)>>,
}

impl Database {
    fn new(shown: PathBuf, foreign: ForeignDatabase, clock: Arc<dyn Clock>) -> Self {
        Self {
            shown,
            foreign,
            clock,
            schema: Mutex::default(),
            listed: Mutex::default(),
            agents: Mutex::default(),
            stamps: Mutex::default(),
            headers: Headers::default(),
            noted: NotedByKind::default(),
            held: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place(&self.shown)
    }

    /// A mark of everything in it.
    pub(super) fn mark(&self) -> Result<Stamp, ForeignError> {
        Ok(hashed(&self.foreign.mark()?))
    }

    /// Its tables and columns.
    pub(super) fn schema(&self) -> Result<Arc<Schema>, ForeignError> {
        let mark = self.foreign.schema_mark()?;
        if let Some((old, schema)) = lock(&self.schema).as_ref()
            && *old == mark
        {
            return Ok(schema.clone());
        }
        let schema = Arc::new(self.foreign.read(Schema::read)?);
        *lock(&self.schema) = Some((mark, schema.clone()));
        Ok(schema)
    }

    /// Whether sessions of this kind are in it as far as is known, so that their loss is to be told. When nothing is
    /// known, one kind speaks for all.
    pub(super) fn may_hold(&self, kind: Kind) -> bool {
        let schema = lock(&self.schema)
            .as_ref()
            .map(|(_, schema)| schema.clone());
        let kinds = schema.map_or_else(Vec::new, |schema| Kind::all_in(&schema));
        match kinds.is_empty() {
            true => kind == Kind::Sqlite,
            false => kinds.contains(&kind),
        }
    }

    /// All its sessions.
    pub(super) fn listed(&self) -> Result<Arc<Listed>, ForeignError> {
        // Before reading: what changes meanwhile is seen by the next call.
        let mark = self.foreign.mark()?;
        if let Some((old, listed)) = lock(&self.listed).as_ref()
            && *old == mark
        {
            return Ok(listed.clone());
        }
        let whole = self.whole();
        let schema = self.schema()?;
        let mut listed = self.foreign.read(|reader| self.list(reader, &schema))?;
        listed.whole = whole;
        let ids: HashSet<&str> = listed
            .rows
            .iter()
            .map(|(_, row)| &*row.session.id)
            .collect();
        lock(&self.agents).retain(|id, _| ids.contains(&**id));
        lock(&self.stamps).retain(|id, _| ids.contains(&**id));
        let listed = Arc::new(listed);
        *lock(&self.listed) = Some((mark, listed.clone()));
        Ok(listed)
    }

    fn list(&self, reader: &Reader<'_>, schema: &Schema) -> Result<Listed, ForeignError> {
        let mut listed = Listed::default();
        for (table, kind) in [
            (sqlite::TABLE, Kind::Sqlite),
            (session_v2::TABLE, Kind::SessionV2),
        ] {
            let mut skipped = Vec::new();
            let rows = self.rows(reader, schema, table, None, &mut skipped)?;
            let of_row = |row: SessionRow| (Kind::of(table, &row, schema), row);
            listed.rows.extend(rows.into_iter().map(of_row));
            listed
                .skipped
                .extend(skipped.into_iter().map(|why| (kind, why)));
        }
        Ok(listed)
    }

    /// The rows of a table of sessions; `id` for one alone.
    pub(super) fn rows(
        &self,
        reader: &Reader<'_>,
        schema: &Schema,
        table: &str,
        id: Option<&str>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<SessionRow>, ForeignError> {
        if !schema.has(table) {
            return Ok(Vec::new());
        }
        let at = (table, &*self.shown);
        let mut rows = session_rows::read(reader, schema, at, id, skipped)?;
        for row in &mut rows {
            if row.session.agent.is_none() {
                row.session.agent = self.agent(reader, schema, row)?;
            }
        }
        Ok(rows)
    }

    fn agent(
        &self,
        reader: &Reader<'_>,
        schema: &Schema,
        row: &SessionRow,
    ) -> Result<Option<Box<str>>, ForeignError> {
        if let Some(agent) = lock(&self.agents).get(&row.session.id) {
            return Ok(Some(agent.clone()));
        }
        let agent = session_rows::first_agent(reader, schema, row)?;
        if let Some(agent) = &agent {
            let id = row.session.id.clone();
            lock(&self.agents).insert(id, agent.clone());
        }
        Ok(agent)
    }

    /// One session as it is now.
    pub(super) fn row(&self, table: &str, id: &str) -> Result<SessionRow, ReadError> {
        let schema = self.schema().map_err(read_error)?;
        let read = self.foreign.read(|reader| {
            let mut skipped = Vec::new();
            let rows = self.rows(reader, &schema, table, Some(id), &mut skipped)?;
            Ok((rows, skipped))
        });
        let (rows, skipped) = read.map_err(read_error)?;
        match (rows.into_iter().next(), skipped.into_iter().next()) {
            (Some(row), _) => Ok(row),
            (None, Some(why)) => Err(why.into()),
            (None, None) => Err(ReadError::Gone),
        }
    }

    /// The messages of a session, all of one moment.
    pub(super) fn talk(&self, table: &str, session: &SessionText) -> Result<Talk, ForeignError> {
        let schema = self.schema()?;
        let place = self.place();
        self.foreign.read(|reader| {
            let mut unread = Vec::new();
            let at = (table, &*self.shown);
            let rows = session_rows::read(reader, &schema, at, Some(&session.id), &mut unread)?;
            let Some(row) = rows.first() else {
                return Ok(Talk::default());
            };
            if table == session_v2::TABLE {
                return session_v2::read(reader, &schema, place, row);
            }
            let (id, mut talk) = (&session.id, Talk::default());
            if row.in_message {
                sqlite::read(reader, &schema, place, id, &mut talk)?;
            }
            if row.in_session_message {
                session_message::read(reader, &schema, place, id, &mut talk)?;
            }
            Ok(talk)
        })
    }

    /// The mark of one session. While nobody writes, that of the whole database, which costs nothing.
    pub(super) fn stamp(&self, table: &str, id: &str) -> Result<Stamp, ReadError> {
        let mark = self.foreign.mark().map_err(read_error)?;
        if mark.is_quiet() {
            return Ok(hashed(&mark));
        }
        if let Some((old, stamp)) = lock(&self.stamps).get(id)
            && *old == mark
        {
            return Ok(*stamp);
        }
        let row = self.row(table, id)?;
        let schema = self.schema().map_err(read_error)?;
        let sums = self
            .foreign
            .read(|reader| database_sums::of_one(reader, &schema, id));
        let sums = sums.map_err(read_error)?;
        let stamp = hashed(&(&*row.session.text, sums));
        lock(&self.stamps).insert(id.into(), (mark, stamp));
        Ok(stamp)
    }
}

pub(super) fn hashed(value: &impl Hash) -> Stamp {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let first = hasher.finish();
    0xf1_u8.hash(&mut hasher);
    Stamp(first, hasher.finish())
}
