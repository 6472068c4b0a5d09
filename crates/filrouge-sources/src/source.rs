//! The port every history is read through (DESIGN §10).

use std::collections::{BTreeSet, HashMap, hash_map};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_types::Recorded;

use crate::turns_of::turns_of;
use crate::{Changes, Conversation, LoadedSession, SkipReason, Skipped};

/// A value that changes whenever a session's stored history changes: its record, its messages and their parts. Equal
/// fingerprints mean that a reader gets the same conversation and the same header; they are the same in every process and after
/// a restart, so that caches and indexes are keyed by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64, pub u64);

impl Fingerprint {
    /// The fingerprint of what hashes like `value`.
    #[must_use]
    pub fn of(value: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let first = hasher.finish();
        0xf1_u8.hash(&mut hasher);
        Self(first, hasher.finish())
    }
}

/// The header of a session, as its source tells it. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its id; unique in its source.
    pub id: Box<str>,
    /// The program it is of: [`Source::name`].
    pub source: &'static str,
    /// The form it is stored in, for example `sqlite`.
    pub generation: &'static str,
    /// The session that has started it.
    pub parent_id: Option<Box<str>>,
    /// The session it was forked from, where the program records that.
    pub fork_of: Option<Box<str>>,
    /// Its project's id.
    pub project_id: Option<Box<str>>,
    /// Its project's name.
    pub project_name: Option<Box<str>>,
    /// Its project's main folder.
    pub worktree: Option<Box<str>>,
    /// The folder it ran in.
    pub directory: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// The agent of its first message.
    pub agent: Option<Box<str>>,
    /// The version of the program that wrote it.
    pub version: Option<Box<str>>,
    /// When it was made.
    pub created: i64,
    /// When it last changed.
    pub updated: i64,
    /// When it was archived.
    pub archived: Option<i64>,
    /// What it changed, as the program sums up.
    pub changes: Option<Changes>,
    /// Its state when it was listed, where the listing knows it. Ask [`Source::fingerprint`].
    pub fingerprint: Option<Fingerprint>,
}

impl Header {
    /// What sessions are ordered by: (created, id).
    #[must_use]
    pub fn place(&self) -> (i64, &str) {
        (self.created, &self.id)
    }
}

/// The sessions of a source.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Their headers, each id once, ordered by (created, id).
    pub headers: Vec<Arc<Header>>,
    /// What was left out, in a fixed order.
    pub skipped: Vec<Skipped>,
    /// Sessions that are stored a second time, in an older form, which is not read.
    pub shadowed: Vec<Skipped>,
    /// Storages of the history that cannot be read, and why.
    pub unavailable: Vec<String>,
    /// Whether there are more sessions than a source lists.
    pub truncated: bool,
}

impl Listing {
    /// The same in the order that a listing has.
    #[must_use]
    pub(crate) fn in_order(mut self) -> Self {
        self.headers.sort_by(|a, b| a.place().cmp(&b.place()));
        self.skipped.sort();
        self
    }

    /// Adds what an older storage of the history lists. Of two sessions of one id the first one stays; `seen` has the forms
    /// of those that are there.
    pub(crate) fn add(&mut self, older: &Self, seen: &mut HashMap<Box<str>, &'static str>) {
        for header in &older.headers {
            match seen.entry(header.id.clone()) {
                hash_map::Entry::Occupied(read) => {
                    self.shadowed.push(shadowed(header, read.get()));
                }
                hash_map::Entry::Vacant(place) => {
                    place.insert(header.generation);
                    self.headers.push(header.clone());
                }
            }
        }
        self.skipped.extend_from_slice(&older.skipped);
        self.shadowed.extend_from_slice(&older.shadowed);
        self.unavailable.extend_from_slice(&older.unavailable);
        self.truncated |= older.truncated;
    }

    /// The forms its sessions are stored in, in words.
    #[must_use]
    pub fn forms(&self) -> String {
        let forms: BTreeSet<_> = self.headers.iter().map(|h| h.generation).collect();
        forms.into_iter().collect::<Vec<_>>().join(", ")
    }
}

/// Names a session that is read from another storage, whose form is `read`.
pub(crate) fn shadowed(header: &Header, read: &str) -> Skipped {
    Skipped {
        path: format!("{} in {}", header.id, header.generation).into(),
        reason: SkipReason::Shadowed,
        detail: format!("read from {read}"),
    }
}

/// A history that is read in place and never written to (DESIGN §10): all storages of a program at one place.
///
/// All methods block; they may be called from several threads. What is on disk may change at any moment: each answer
/// is of one moment, and what cannot be read costs only itself.
pub trait Source: Send + Sync {
    /// The program that wrote the history: `opencode`, `claude-code`, `codex`, or `ledger`.
    fn name(&self) -> &'static str;

    /// Where it lies, without symbolic links as far as it exists: an index of it is named after this. `None`: it is
    /// never indexed.
    fn path(&self) -> Option<&Path>;

    /// All sessions as they are now.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn list(&self) -> Result<Arc<Listing>, SourceError>;

    /// The state of a session that was listed. It may be older than what [`Source::read`] returns later, never newer. `None`:
    /// the session is read anew for each question, kept in no cache and not indexed.
    fn fingerprint(&self, header: &Header) -> Option<Fingerprint> {
        header.fingerprint
    }

    /// A session with all its messages, as it is now.
    ///
    /// # Errors
    /// [`ReadError::Gone`] for an id the source does not have; [`ReadError::Skipped`] when its own record cannot be
    /// used any more.
    fn read(&self, id: &str) -> Result<Conversation, ReadError>;

    /// A session as the ledger has it, in turns and items; `None` of another program's.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::read`].
    fn recorded(&self, _: &str) -> Result<Option<Recorded>, ReadError> {
        Ok(None)
    }

    /// A session as turns, for `filrouge import`; memory is bounded by that session.
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

    /// Names what no listed session leads to. Reads the whole history: ask for it once per import.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        Ok(Vec::new())
    }
}

/// Why a session cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The source does not have it (any more).
    #[error("there is no such session")]
    Gone,
    /// Its own record cannot be used.
    #[error(transparent)]
    Skipped(#[from] Skipped),
    /// The source as a whole does not answer; the text is for a person.
    #[error("{0}")]
    Unavailable(String),
}

impl From<SourceError> for ReadError {
    fn from(why: SourceError) -> Self {
        Self::Unavailable(why.to_string())
    }
}

/// Why a history cannot be opened or listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// There is nothing at the path.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The path holds no history of that program.
    #[error("{} holds no history of {program}", path.display())]
    Unrecognised {
        /// Whose history was asked for.
        program: &'static str,
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The operating system or the database refuses.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
}

impl SourceError {
    /// What the operating system says of a path.
    pub(crate) fn of_io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Unreadable {
                path,
                reason: error.to_string(),
            },
        }
    }

    /// What is at a path is no history of the program.
    pub(crate) fn unrecognised(program: &'static str, path: &Path) -> Self {
        let path = path.to_owned();
        Self::Unrecognised { program, path }
    }
}
