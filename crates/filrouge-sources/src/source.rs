//! The port every foreign history is read through, and its neutral records (DESIGN §10).

use std::path::PathBuf;

use filrouge_types::{Channel, NewItem, ProjectId, RawJson, RequestId, SessionId, Timestamp};

use crate::Skipped;

/// A foreign history that is read in place and never written to (DESIGN §10).
///
/// Nothing is cached: each call reads the files as they are now.
pub trait Source: Send + Sync {
    /// The short name of the program that wrote the history, for example `opencode`.
    fn name(&self) -> &'static str;

    /// Lists the sessions, ordered by (time of creation, id), each id once.
    ///
    /// Only ids and times are held in memory; a header is read when the
    /// iterator comes to it.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable. A
    /// file that cannot be used is no error: see [`Sessions::skipped`].
    fn sessions(&self) -> Result<Sessions<'_>, SourceError>;

    /// Reads one session with all its turns; memory is bounded by that session.
    ///
    /// # Errors
    /// [`Skipped`] when the session's own file cannot be used any more.
    fn load(&self, session: &SessionRef) -> Result<LoadedSession, Skipped>;

    /// Names the messages and parts that no listed session leads to.
    ///
    /// Reads folders, not files, but all of them: it holds every message id
    /// in memory, so ask for it once per import.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn strays(&self) -> Result<Vec<Skipped>, SourceError>;
}

/// Where a session lies in its source; only [`Source::sessions`] makes one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionRef {
    pub(crate) id: SessionId,
    pub(crate) created: Timestamp,
    pub(crate) tree: usize,
    pub(crate) folder: Box<str>,
}

impl SessionRef {
    /// The session's id.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// When the session was made.
    #[must_use]
    pub const fn created(&self) -> Timestamp {
        self.created
    }
}

/// The header of one session as it is read again for each step of [`Sessions`].
type ReadHeader<'a> = Box<dyn Fn(&SessionRef) -> Result<ForeignSession, Skipped> + Send + 'a>;

/// The sessions of a source, read one header at a time.
pub struct Sessions<'a> {
    refs: std::vec::IntoIter<SessionRef>,
    skipped: Vec<Skipped>,
    read: ReadHeader<'a>,
}

impl<'a> Sessions<'a> {
    pub(crate) fn new(refs: Vec<SessionRef>, skipped: Vec<Skipped>, read: ReadHeader<'a>) -> Self {
        Self {
            refs: refs.into_iter(),
            skipped,
            read,
        }
    }

    /// What the listing left out, in a fixed order.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The sessions still to come, without reading their headers.
    #[must_use]
    pub fn refs(&self) -> &[SessionRef] {
        self.refs.as_slice()
    }
}

impl Iterator for Sessions<'_> {
    type Item = Result<ForeignSession, Skipped>;

    fn next(&mut self) -> Option<Self::Item> {
        self.refs.next().map(|r| (self.read)(&r))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.refs.size_hint()
    }
}

impl ExactSizeIterator for Sessions<'_> {}

impl std::fmt::Debug for Sessions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions")
            .field("left", &self.refs.len())
            .field("skipped", &self.skipped.len())
            .finish_non_exhaustive()
    }
}

/// The header of a foreign session. Times are the foreign program's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignSession {
    /// Where it lies, for [`Source::load`].
    pub reference: SessionRef,
    /// Its id.
    pub id: SessionId,
    /// The session that started it.
    pub parent_id: Option<SessionId>,
    /// Its project, as the path names it.
    pub project_id: Option<ProjectId>,
    /// The project's name, where it has one.
    pub project_name: Option<Box<str>>,
    /// The project's main folder.
    pub worktree: Option<Box<str>>,
    /// The folder the session ran in.
    pub directory: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// The agent of its first message; known only after [`Source::load`].
    pub agent: Option<Box<str>>,
    /// The version of the program that wrote it.
    pub version: Option<Box<str>>,
    /// When it was made.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// When it was archived.
    pub archived: Option<Timestamp>,
    /// Everything else its file says, a JSON object; after [`Source::load`] with what lies beside it.
    pub metadata: RawJson,
}

/// How a foreign turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The agent ended its work. There may be no text: see [`ForeignTurn::answer`].
    Finalized,
    /// The agent's last message ended in an error.
    Failed {
        /// The foreign name of the error.
        code: Box<str>,
        /// Its message.
        message: Box<str>,
        /// Whether the foreign program held it for passing.
        retryable: bool,
    },
    /// The user stopped it.
    Cancelled,
    /// No answer yet, or the agent had more to do; a later read can tell more.
    Unanswered,
}

/// One user message and what answered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignTurn {
    /// The id of the user message; for answers without one, of the first answer.
    pub request_id: RequestId,
    /// The items of the user message; not all are on channel `question`.
    pub question: Vec<NewItem>,
    /// The items of the answers, in order.
    pub items: Vec<NewItem>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was asked.
    pub created: Timestamp,
    /// What the source adds, a JSON object.
    pub metadata: RawJson,
}

impl ForeignTurn {
    /// The item on channel `final`. A finalized turn can be without: a command the user ran
    /// himself, a compaction, an agent that only called tools.
    #[must_use]
    pub fn answer(&self) -> Option<&NewItem> {
        self.items
            .iter()
            .rev()
            .find(|item| item.channel == Channel::Final)
    }
}

/// One session with its turns, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSession {
    /// The header, complete.
    pub session: ForeignSession,
    /// The turns in order.
    pub turns: Vec<ForeignTurn>,
    /// What was left out, in a fixed order.
    pub skipped: Vec<Skipped>,
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
    /// The path holds no history this version knows.
    #[error("{} holds no OpenCode history", path.display())]
    Unrecognised {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The path holds a history only in a form this version does not read.
    #[error("{} is a database, and this version reads OpenCode's JSON files only", database.display())]
    DatabaseOnly {
        /// The database that was found.
        database: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot read {}", path.display())]
    Io {
        /// What was to be read.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl SourceError {
    /// What the caller can do.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::Unrecognised { .. } => {
                "give OpenCode's data folder (by default ~/.local/share/opencode), \
                 or its storage or project folder"
            }
            Self::DatabaseOnly { .. } => {
                "OpenCode 1.2 and later write this database; \
                 sessions of 1.1.65 and earlier lie in the storage folder beside it"
            }
            Self::Io { .. } => "check that the folder may be read",
        }
    }
}
