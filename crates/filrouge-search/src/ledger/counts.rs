//! The counters of a feed, for metrics, and its progress.

use filrouge_types::Timestamp;

/// The counters of a feed in this process, since the feed was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// The number of documents that were written to the index.
    pub documents: u64,
    /// The number of full and partial reads of sessions.
    pub sessions: u64,
    /// The number of full reads of sessions, which `sessions` includes.
    pub complete: u64,
    /// Reads that failed because of the session itself. The session is not in the index until a later read succeeds.
    pub unreadable: u64,
    /// Sessions that the feed removed from the index, because the index had missed a redaction or an erasure.
    pub forgotten: u64,
    /// Steps whose results were discarded, because meanwhile something was forgotten or another process had updated the
    /// index.
    pub refused: u64,
    /// Steps that failed, because of the ledger or the index.
    pub failed: u64,
    /// The number of commits that the feed had not examined at its newest check.
    pub lag_commits: u64,
    /// Documents that searches left out, because no verified record confirms what the index says; and turns, because the
    /// index does not confirm what a projection says.
    pub stale: u64,
    /// [`filrouge_store::text_index::TextIndex::damaged`].
    pub damaged: u64,
    /// The time spent on steps, in microseconds.
    pub micros: u64,
}

/// The progress of an index through its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of commits that the index has not read.
    pub lag_commits: u64,
    /// All commits up to this time are in the index. `None` if no commit is in the index.
    pub as_of: Option<Timestamp>,
    /// Whether forgotten sessions wait to be read again, for example because one of their turns was redacted. `as_of`
    /// does not apply to these sessions.
    pub forgotten: bool,
    /// Whether no commit and no forgotten session was left to read.
    pub done: bool,
}
