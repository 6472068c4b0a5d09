//! What a feed has done, for metrics, and how far it is.

use filrouge_types::Timestamp;

/// What a feed of this process has done since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// Documents that were put.
    pub documents: u64,
    /// Readings of sessions, whole or in part.
    pub sessions: u64,
    /// Of those, whole ones.
    pub whole: u64,
    /// Readings that failed for the session alone: it is not in the index until it changes again.
    pub unreadable: u64,
    /// Redactions and erasures that nobody had told the index of; it was told then.
    pub forgotten: u64,
    /// Steps that were not made, because something was forgotten in between or another process was quicker.
    pub refused: u64,
    /// Steps that failed, because of the ledger or the index.
    pub failed: u64,
    /// Commits that were not looked at yet, when last looked.
    pub behind: u64,
    /// Excerpts that were not shown, because no verified record says what the index has.
    pub stale: u64,
    /// Time spent on steps, microseconds.
    pub micros: u64,
}

/// How far an index is with its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Commits that it has not read.
    pub behind: u64,
    /// What was committed up to this moment is in it, as the sessions stood then or later; `None`: nothing is.
    pub as_of: Option<Timestamp>,
    /// Whether sessions wait to be read again that were forgotten, as when one of their turns was redacted: for them
    /// `as_of` does not hold.
    pub forgotten: bool,
    /// Whether nothing was left to be read, when last looked.
    pub done: bool,
}
