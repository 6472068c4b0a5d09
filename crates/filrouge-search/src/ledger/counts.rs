//! The counters of a feed, for metrics, and its progress.

use filrouge_types::Timestamp;

/// The counters of a feed of this process since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// The number of documents that were written to the index.
    pub documents: u64,
    /// The number of full and partial reads of sessions.
    pub sessions: u64,
    /// The number of full reads of sessions, which `sessions` includes.
    pub complete: u64,
    /// Reads that failed because of the session itself: it is not in the index until it changes again.
    pub unreadable: u64,
    /// Redactions and erasures that the index had missed and the feed applied later.
    pub forgotten: u64,
    /// Steps that were not applied, because something was forgotten meanwhile or another process was faster.
    pub refused: u64,
    /// Steps that failed, because of the ledger or the index.
    pub failed: u64,
    /// The number of commits that were not examined yet, at the last check.
    pub lag_commits: u64,
    /// Excerpts that were not shown, because no verified record confirms the index's text.
    pub stale: u64,
    /// The time spent on steps, in microseconds.
    pub micros: u64,
}

/// The progress of an index through its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of commits that it has not read.
    pub lag_commits: u64,
    /// The time up to which all commits are in the index, in their state of that time or later; `None` if no commit is.
    pub as_of: Option<Timestamp>,
    /// Whether forgotten sessions wait to be read again, for example after one of their turns was redacted: `as_of`
    /// does not apply to them.
    pub forgotten: bool,
    /// Whether all commits had been read, at the last check.
    pub done: bool,
}
