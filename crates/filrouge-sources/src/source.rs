//! [`Source`]: the interface through which every history is read (DESIGN §10).

use std::collections::{BTreeSet, HashMap, hash_map};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_types::{Recorded, Timestamp};
use serde_json::{Value, json};

use crate::turns_of::turns_of;
use crate::{Changes, Conversation, LoadedSession, SkipReason, Skipped};

/// A value that changes whenever a session's stored history changes: its record, its messages and their parts. If two
/// fingerprints are equal, a reader gets the same conversation and the same header. Fingerprints are the same in every
/// process and after a restart, so they are used as keys of caches and indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64, pub u64);

impl Fingerprint {
    /// Computes the fingerprint of `value` from everything that its `Hash` implementation covers.
    pub fn compute(value: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let first = hasher.finish();
        // One more byte changes the hash, so that the two halves differ.
        0xf1_u8.hash(&mut hasher);
        Self(first, hasher.finish())
    }
}

/// The header of a session, as its source records it. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Its id; unique in its source.
    pub id: Box<str>,
    /// The program that wrote it: [`Source::name`].
    pub source: &'static str,
    /// The generation of its storage, for example `sqlite`.
    pub generation: &'static str,
    /// The id of the session that started it, for example as a subagent.
    pub parent_id: Option<Box<str>>,
    /// The id of the session from which it was forked, where the program records that.
    pub fork_of: Option<Box<str>>,
    /// Its project's id.
    pub project_id: Option<Box<str>>,
    /// Its project's name.
    pub project_name: Option<Box<str>>,
    /// Its project's main folder.
    pub worktree: Option<Box<str>>,
    /// The folder in which the session ran.
    pub directory: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// Whether the title only repeats the first words of the first question. Such a title is no document for searches.
    pub title_is_derived: bool,
    /// The agent of its first message.
    pub agent: Option<Box<str>>,
    /// All agents that took part, where the source knows them without reading the messages.
    pub agents: Vec<Box<str>>,
    /// The version of the program that wrote it.
    pub version: Option<Box<str>>,
    /// The time of its creation.
    pub created: i64,
    /// The time of its last change.
    pub updated: i64,
    /// The time at which it was archived.
    pub archived: Option<i64>,
    /// The changes it made, as the program's own summary reports them.
    pub changes: Option<Changes>,
    /// Whether its own record is damaged, so that only its messages are known.
    pub damaged: bool,
    /// Its fingerprint when it was listed; `None` if the listing does not compute fingerprints. Callers use
    /// [`Source::fingerprint`] instead, which then computes it.
    pub fingerprint: Option<Fingerprint>,
}

impl Header {
    /// The key by which sessions are ordered: (created, id).
    pub fn sort_key(&self) -> (i64, &str) {
        (self.created, &self.id)
    }

    /// What the metadata of a session of the ledger has no other field for, as an import records it: an object with the
    /// member `origin`.
    pub fn origin(&self) -> Value {
        json!({
            "origin": {
                "source": self.source,
                "created": Timestamp::from_millis(self.created),
                "updated": Timestamp::from_millis(self.updated),
                "archived": self.archived.and_then(Timestamp::from_millis),
                "directory": self.directory,
                "project_name": self.project_name,
                "worktree": self.worktree,
                "agent": self.agent,
                "version": self.version,
            }
        })
    }
}

/// The sessions of a source.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Their headers, each id once, ordered by (created, id).
    pub headers: Vec<Arc<Header>>,
    /// Records that were left out, in a fixed order.
    pub skipped: Vec<Skipped>,
    /// Reports of sessions that are stored in two generations: the newer one is read, and the report names the older
    /// one.
    pub shadowed: Vec<Skipped>,
    /// Storages of the history that cannot be read, each with the reason.
    pub unavailable: Vec<String>,
    /// Whether the source has more sessions than this listing contains.
    pub truncated: bool,
}

impl Listing {
    /// Sorts the listing.
    #[must_use]
    pub(crate) fn sorted(mut self) -> Self {
        self.headers.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        self.skipped.sort();
        self
    }

    /// Adds the listing of an older storage, without damaged sessions. A session whose id was already added is not added
    /// again, but reported as shadowed. `generations` contains the generation of each session added so far.
    pub(crate) fn add_older(
        &mut self,
        older: &Self,
        generations: &mut HashMap<Box<str>, &'static str>,
    ) {
        for header in older.headers.iter().filter(|header| !header.damaged) {
            match generations.entry(header.id.clone()) {
                hash_map::Entry::Occupied(newer) => {
                    self.shadowed.push(shadowed(header, newer.get()));
                }
                hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(header.generation);
                    self.headers.push(header.clone());
                }
            }
        }
        self.skipped.extend_from_slice(&older.skipped);
        self.shadowed.extend_from_slice(&older.shadowed);
        self.unavailable.extend_from_slice(&older.unavailable);
        self.truncated |= older.truncated;
    }

    /// The generations of the listed sessions, separated by commas.
    pub fn generations(&self) -> String {
        let generations: BTreeSet<_> = self.headers.iter().map(|h| h.generation).collect();
        generations.into_iter().collect::<Vec<_>>().join(", ")
    }
}

/// The report for a session that is not read from this storage, because the storage of generation `newer` has it too.
pub(crate) fn shadowed(header: &Header, newer: &str) -> Skipped {
    Skipped {
        path: format!("{} in {}", header.id, header.generation).into(),
        reason: SkipReason::Shadowed,
        detail: format!("read from {newer}"),
    }
}

/// A history that is read in place and never written to (DESIGN §10): all storages of a program at one path.
///
/// All methods block and can be called from several threads. The files may change at any moment: each result describes
/// one moment, and a record that cannot be read affects no other record.
pub trait Source: Send + Sync {
    /// The program that wrote the history: `opencode`, `claude-code`, `codex`, or `ledger`.
    fn name(&self) -> &'static str;

    /// The canonical path of the history; the absolute path if nothing exists there. The search index of the history is
    /// named after it. `None` if the history has no such index, as the ledger; each query then lists the history anew.
    fn path(&self) -> Option<&Path>;

    /// Lists the current sessions.
    ///
    /// # Errors
    /// [`SourceError`] when the entire history has become unreadable.
    fn list(&self) -> Result<Arc<Listing>, SourceError>;

    /// The fingerprint of a listed session. It can be older than the state that a later [`Source::read`] returns, but
    /// never newer. If it is `None`, the session is read anew for every query, and is neither cached nor indexed by its
    /// fingerprint.
    fn fingerprint(&self, header: &Header) -> Option<Fingerprint> {
        header.fingerprint
    }

    /// Reads the current state of a session with all its messages.
    ///
    /// # Errors
    /// [`ReadError::Gone`] for an id that the source does not have; [`ReadError::Skipped`] when the session's own
    /// record can no longer be used.
    fn read(&self, id: &str) -> Result<Conversation, ReadError>;

    /// As [`Source::read`], for a page of the conversation: a source may keep the conversation for the next page, but
    /// returns it only while it is current.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::read`].
    fn read_shared(&self, id: &str) -> Result<Arc<Conversation>, ReadError> {
        self.read(id).map(Arc::new)
    }

    /// Reads a session in the ledger's form, as turns and items; `None` for a source of another program.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::read`].
    fn recorded(&self, _: &str) -> Result<Option<Recorded>, ReadError> {
        Ok(None)
    }

    /// Reads what the program keeps of a session beside its messages, as an import records it: a JSON object with its
    /// members `todo`, `session_diff`, `session` and so on, which is empty if there is nothing; and the records that were
    /// left out.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::read`].
    fn metadata(&self, _: &str) -> Result<(String, Vec<Skipped>), ReadError> {
        Ok(("{}".to_owned(), Vec::new()))
    }

    /// Reads a session as turns, for `filrouge import`. Needs memory for that session only.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::read`].
    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let listing = self.list().map_err(ReadError::from)?;
        let header = listing.headers.iter().find(|header| *header.id == *id);
        let header = header.ok_or(ReadError::Gone)?;
        let path = self.path().unwrap_or(Path::new(""));
        Ok(turns_of(header, &self.read(id)?, path))
    }

    /// Reports records that belong to no listed session. Reads the entire history: call it once per import.
    ///
    /// # Errors
    /// [`SourceError`] when the entire history has become unreadable.
    fn orphans(&self) -> Result<Vec<Skipped>, SourceError> {
        Ok(Vec::new())
    }
}

/// The reason why a session cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The source does not have the session, or no longer has it.
    #[error("there is no such session")]
    Gone,
    /// The session's own record cannot be used.
    #[error(transparent)]
    Skipped(#[from] Skipped),
    /// The source does not answer at all; the text is for people.
    #[error("{0}")]
    Unavailable(String),
}

impl From<SourceError> for ReadError {
    fn from(error: SourceError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// The reason why a history cannot be opened or listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing exists at the path.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// The requested path.
        path: PathBuf,
    },
    /// The path contains no history of that program.
    #[error("{} holds no history of {program}", path.display())]
    Unrecognized {
        /// The program whose history was expected.
        program: &'static str,
        /// The requested path.
        path: PathBuf,
    },
    /// The operating system or the database refuses to read it.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The path that cannot be read.
        path: PathBuf,
        /// The reason, as the operating system or the database reports it.
        reason: String,
    },
}

impl SourceError {
    /// Converts an I/O error for a path.
    pub(crate) fn from_io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Unreadable {
                path,
                reason: error.to_string(),
            },
        }
    }

    /// The error for a path that contains no history of the program.
    pub(crate) fn unrecognized(program: &'static str, path: &Path) -> Self {
        let path = path.to_owned();
        Self::Unrecognized { program, path }
    }
}
