//! The port of a store that receives a copy.

use crate::record::RecordRow;
use crate::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, KeyRow, LogRow, NoteRow, SessionPk,
    SessionRow, TurnRow, View,
};
use filrouge_types::{ErrorCode, Failure};

/// The contents of a copy target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetContents {
    /// No store, or a store without sessions, notes and commits.
    Nothing,
    /// An unfinished copy.
    Copy {
        /// The source's [`crate::Ledger::store_id`].
        source: String,
    },
    /// A complete store with contents.
    Store,
}

impl TargetContents {
    /// Whether a copy from `source` continues an unfinished one. The caller's transaction excludes other writers.
    ///
    /// # Errors
    /// [`overtaken_run`] if something else was written to the target since it was first examined.
    pub fn is_resumable(&self, source: &str) -> Result<bool, Failure> {
        match self {
            Self::Nothing => Ok(false),
            Self::Copy { source: existing } if existing == source => Ok(true),
            Self::Copy { .. } | Self::Store => Err(overtaken_run()),
        }
    }
}

/// A store that [`CopyTarget::begin`] has marked as an unfinished copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedCopy {
    /// The id of the new store; it differs from the source's.
    pub store_id: String,
    /// Whether an earlier run marked the store and may have written rows.
    pub resumed: bool,
}

/// One step of a copy: a row of the source, to be written unchanged, or the removal of a session's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyRow {
    /// Removes all rows of this session.
    RemoveSession(SessionPk),
    /// A session's row, under its number in the source.
    Session(SessionPk, Box<SessionRow>),
    /// A turn.
    Turn(SessionPk, TurnRow),
    /// A record.
    Record(SessionPk, RecordRow),
    /// The key of an item or of a request.
    Key(SessionPk, KeyRow),
    /// An agent that has spoken in a session.
    Agent(SessionPk, Box<str>),
    /// An event.
    Event(SessionPk, EventRow),
    /// A checkpoint.
    Checkpoint(SessionPk, CheckpointRow),
    /// The draft of an open turn.
    Draft(SessionPk, DraftRow),
    /// A chunk of a turn's draft; the number is that turn's [`TurnRow::place`].
    Chunk(SessionPk, u64, DraftChunk),
    /// A session's head, written after all its other rows.
    Head(SessionPk, HeadRow),
    /// A note, which replaces an existing note of this name.
    Note(NoteRow),
    /// A row of the commit log.
    Commit(LogRow),
}

impl CopyRow {
    /// The approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// The approximate overhead of a row.
        const ROW_OVERHEAD: usize = 96;
        ROW_OVERHEAD
            + match self {
                Self::RemoveSession(_)
                | Self::Turn(..)
                | Self::Key(..)
                | Self::Draft(..)
                | Self::Head(..) => 0,
                Self::Session(_, row) => row.content_len(),
                Self::Record(_, row) => row.head.len() + row.body.len(),
                Self::Agent(_, agent) => agent.len(),
                Self::Event(_, row) => row.content_len(),
                Self::Checkpoint(_, row) => row.content_len(),
                Self::Chunk(_, _, chunk) => chunk.encode().len(),
                Self::Note(row) => row.value.len(),
                Self::Commit(row) => row.encode().len(),
            }
    }
}

/// A store that receives a copy. A backend creates one per run; nothing is written before [`Self::begin`].
pub trait CopyTarget: Send {
    /// Reads what the store contains, without changing it.
    ///
    /// # Errors
    /// `invalid` for another program's data or a newer schema; the store's failures.
    fn contents(&mut self) -> Result<TargetContents, Failure>;

    /// Creates the store if needed, migrates its schema and marks it as an unfinished copy of `source`. The store then
    /// cannot be opened, and other runs fail at their next [`Self::put`].
    ///
    /// # Errors
    /// Fails when the store has acquired other contents, or with the store's failures.
    fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure>;

    /// Runs `query` on the rows written so far; only after [`Self::begin`].
    ///
    /// # Errors
    /// Those of `query`, and the store's errors.
    fn with_view(
        &mut self,
        query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Writes rows unchanged, in this order, in one transaction.
    ///
    /// # Errors
    /// Fails when another run has started, or with the store's failures. In both cases no row is written.
    fn put(&mut self, rows: &[CopyRow]) -> Result<(), Failure>;

    /// Removes the mark of an unfinished copy, in one transaction. New sessions get numbers above `newest`. Afterwards
    /// no file of an SQLite store contains the bytes of sessions removed by [`CopyRow::RemoveSession`]: they are
    /// overwritten before this returns or, if that is not possible, when the store is next opened. PostgreSQL frees
    /// them when it vacuums.
    ///
    /// # Errors
    /// Fails when another run has started or the path now names another file, or with the store's failures.
    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure>;
}

/// The failure of a run after another run has written to its target.
#[must_use]
pub fn overtaken_run() -> Failure {
    Failure::new(
        ErrorCode::StoreUnavailable,
        "another run has since written to this store",
    )
    .with_hint("check which copy it now holds before you run this again")
}

/// The failure for opening an unfinished copy.
#[must_use]
pub fn unfinished_copy(store: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreUnavailable,
        format!("{store} is a copy that was not finished"),
    )
    .with_hint("run the same `filrouge copy --from … --to …` again: it resumes where it stopped")
}
