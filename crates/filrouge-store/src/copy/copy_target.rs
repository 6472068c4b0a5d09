//! The port of a store that receives a copy.

use filrouge_types::{ErrorCode, Failure, Result, Timestamp};

use crate::lane::Lanes;
use crate::rows::{Tx, View};

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
    pub fn is_resumable(&self, source: &str) -> Result<bool> {
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
    /// The lanes of the new store.
    pub lanes: Lanes,
    /// Whether an earlier run marked the store and may have written rows.
    pub resumed: bool,
}

/// The writes of one transaction of a copy; gets the transaction and its time.
pub type CopyWrites<'a> = &'a mut dyn FnMut(&mut dyn Tx, Timestamp) -> Result<()>;

/// A store that receives a copy. A backend creates one per run; nothing is written before [`Self::begin`].
pub trait CopyTarget: Send {
    /// Reads what the store contains, without changing it.
    ///
    /// # Errors
    /// `invalid` for another program's data or a newer schema; the store's failures.
    fn contents(&mut self) -> Result<TargetContents>;

    /// Creates the store if needed, migrates its schema and marks it as an unfinished copy of `source`. The store then
    /// cannot be opened, and other runs fail at their next [`Self::write`]. Deletes the commit log that an earlier run
    /// has made: each run rewrites it when all sessions are copied.
    ///
    /// # Errors
    /// Fails when the store has acquired other contents, or with the store's failures.
    fn begin(&mut self, source: &str) -> Result<StartedCopy>;

    /// The maximum number of rows of one transaction.
    fn rows_per_transaction(&self) -> usize {
        4096
    }

    /// Runs `query` on the rows written so far; only after [`Self::begin`].
    ///
    /// # Errors
    /// Those of `query`, and the store's errors.
    fn with_view(&mut self, query: &mut dyn FnMut(&dyn View) -> Result<()>) -> Result<()>;

    /// Runs `work` in one transaction.
    ///
    /// # Errors
    /// Fails when another run has started, with the error of `work`, or with the store's failures. In all cases no row
    /// is written.
    fn write(&mut self, work: CopyWrites<'_>) -> Result<()>;

    /// Removes the mark of an unfinished copy, in one transaction. Afterwards no file of an SQLite store contains the
    /// bytes of rows that a later run has replaced: they are overwritten before this returns or, if that is not
    /// possible, when the store is next opened. PostgreSQL frees them when it vacuums.
    ///
    /// # Errors
    /// Fails when another run has started or the path now names another file, or with the store's failures.
    fn finish(&mut self) -> Result<()>;
}

/// The failure of a run after another run has written to its target.
pub fn overtaken_run() -> Failure {
    ErrorCode::StoreUnavailable
        .failure("another run has since written to this store")
        .with_hint("check which copy it now holds before you run this again")
}

/// The failure for opening an unfinished copy.
pub fn unfinished_copy(store: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreUnavailable,
        format!("{store} is a copy that was not finished"),
    )
    .with_hint("run the same `filrouge copy --from … --to …` again: it resumes where it stopped")
}
