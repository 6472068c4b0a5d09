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
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError, Mark, Reader, SchemaMark};

use super::generation::SessionText;
use super::kind::Kind;
use super::row_place::{Place, read_error};
use super::row_sums::{self, Sum};
use super::session_rows::{self, SESSION, SESSION_V2, Schema, SessionRow};
use super::talk::Talk;
use super::{session, session_message, session_v2, sqlite};
use crate::locked::locked;
use crate::{Fingerprint, Header, Listing, ReadError, SkipReason, Skipped};

/// One database.
pub(super) struct Database {
    /// As it was found.
    pub(super) shown: PathBuf,
    pub(super) foreign: ForeignDatabase,
    schema: Mutex<Option<(SchemaMark, Arc<Schema>)>>,
    /// All its sessions, as of a mark.
    listed: Mutex<Option<(Mark, Listed)>>,
}

/// The sessions of a database by their kinds.
type Listed = Arc<HashMap<Kind, Arc<Listing>>>;

impl Database {
    pub(super) fn new(shown: PathBuf, foreign: ForeignDatabase) -> Self {
        Self {
            shown,
            foreign,
            schema: Mutex::default(),
            listed: Mutex::default(),
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place(&self.shown)
    }

    /// Its tables and columns.
    pub(super) fn schema(&self) -> Result<Arc<Schema>, ForeignError> {
        let mark = self.foreign.schema_mark()?;
        if let Some((old, schema)) = locked(&self.schema).as_ref()
            && *old == mark
        {
            return Ok(schema.clone());
        }
        let schema = Arc::new(self.foreign.read(Schema::read)?);
        *locked(&self.schema) = Some((mark, schema.clone()));
        Ok(schema)
    }

    /// Whether sessions of this kind are in it as far as is known, so that their loss is reported. When nothing is
    /// known, one kind speaks for all.
    pub(super) fn may_hold(&self, kind: Kind) -> bool {
        let schema = locked(&self.schema)
            .as_ref()
            .map(|(_, schema)| schema.clone());
        let kinds = schema.map_or_else(Vec::new, |schema| Kind::all_in(&schema));
        match kinds.is_empty() {
            true => kind == Kind::Sqlite,
            false => kinds.contains(&kind),
        }
    }

    /// All its sessions of a kind. One scan of all rows, unless nobody has committed since the last one.
    pub(super) fn list(&self, kind: Kind) -> Result<Arc<Listing>, ForeignError> {
        // Before reading: what changes meanwhile is seen by the next call. Held meanwhile: of several who ask one scans.
        let mut listed = locked(&self.listed);
        let mark = self.foreign.mark()?;
        let of_kind = |listed: &Listed| listed.get(&kind).cloned().unwrap_or_default();
        if let Some((old, all)) = listed.as_ref()
            && *old == mark
        {
            return Ok(of_kind(all));
        }
        let before = listed.as_ref().map(|(_, all)| all.clone());
        let schema = self.schema()?;
        let all = Arc::new(self.list_all(&schema, &before.unwrap_or_default())?);
        *listed = Some((mark, all.clone()));
        Ok(of_kind(&all))
    }

    fn list_all(
        &self,
        schema: &Schema,
        before: &Listed,
    ) -> Result<HashMap<Kind, Arc<Listing>>, ForeignError> {
        // Before the rows of sessions, so that no fingerprint is newer than what it stands for.
        let sums = match row_sums::of_all(&self.foreign, schema) {
            // What a damaged page hides may change without a trace: then no session has a fingerprint.
            Err(ForeignError::Corrupt { .. } | ForeignError::TooLarge { .. }) => None,
            sums => Some(sums?),
        };
        let known: HashMap<(Kind, &str), &Arc<Header>> = before
            .iter()
            .flat_map(|(kind, listing)| listing.headers.iter().map(move |one| (*kind, one)))
            .map(|(kind, header)| ((kind, &*header.id), header))
            .collect();
        self.foreign.read(|reader| {
            let mut all: HashMap<Kind, Listing> = HashMap::new();
            if !schema.has(SESSION) && !schema.has(SESSION_V2) {
                let listing = all.entry(Kind::Sqlite).or_default();
                let reason = SkipReason::Database;
                listing
                    .skipped
                    .push(Skipped::new(&self.shown, reason, "no table of sessions"));
            }
            for table in [SESSION, SESSION_V2] {
                let kind = match table {
                    SESSION => Kind::Sqlite,
                    _ => Kind::SessionV2,
                };
                let mut skipped = Vec::new();
                let (rows, mut seen) = (
                    self.rows(reader, schema, table, None, &mut skipped)?,
                    HashSet::new(),
                );
                all.entry(kind).or_default().skipped.append(&mut skipped);
                for mut row in rows {
                    let kind = Kind::of(table, &row, schema);
                    let listing = all.entry(kind).or_default();
                    if !seen.insert(row.session.id.clone()) {
                        let why = Skipped::new(
                            &row.session.place,
                            SkipReason::DuplicateId,
                            "another row has this id",
                        );
                        listing.skipped.push(why);
                        continue;
                    }
                    let rows = sums.as_ref().map(|sums| sums.get(&row.session.id));
                    let fingerprint = rows.map(|rows| fingerprint(&row.session, rows.copied()));
                    if let Some(known) = known.get(&(kind, &*row.session.id))
                        && fingerprint.is_some()
                        && known.fingerprint == fingerprint
                    {
                        listing.headers.push(Arc::clone(known));
                        continue;
                    }
                    session_rows::complete(reader, schema, &mut row)?;
                    match session::header(kind.name(), &row.session) {
                        Ok(header) => listing.headers.push(Arc::new(Header {
                            fingerprint,
                            ..header
                        })),
                        Err(why) => listing.skipped.push(why),
                    }
                }
            }
            Ok(all
                .into_iter()
                .map(|(kind, listing)| (kind, Arc::new(listing.in_order())))
                .collect())
        })
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
        if !schema.has(table) {
            return Ok(Vec::new());
        }
        session_rows::read(reader, schema, (table, &*self.shown), id, skipped)
    }

    /// One session as it is now.
    pub(super) fn row(&self, table: &str, id: &str) -> Result<SessionRow, ReadError> {
        let schema = self.schema().map_err(read_error)?;
        let read = self.foreign.read(|reader| {
            let mut skipped = Vec::new();
            let mut rows = self.rows(reader, &schema, table, Some(id), &mut skipped)?;
            for row in &mut rows {
                session_rows::complete(reader, &schema, row)?;
            }
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
            let rows = self.rows(reader, &schema, table, Some(&session.id), &mut Vec::new())?;
            let Some(row) = rows.first() else {
                return Ok(Talk::default());
            };
            if table == SESSION_V2 {
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
}

/// The fingerprint of a session: of its row, its project and its `rows` of messages and parts. Not of where the database is.
fn fingerprint(session: &SessionText, rows: Option<Sum>) -> Fingerprint {
    let (agent, fork_of) = (&session.agent, &session.fork_of);
    Fingerprint::of(&(&*session.text, &session.project, agent, fork_of, rows))
}
