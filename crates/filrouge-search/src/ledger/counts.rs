//! What a feed has done, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    /// Time spent on steps, microseconds.
    pub micros: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) documents: AtomicU64,
    pub(super) sessions: AtomicU64,
    pub(super) whole: AtomicU64,
    pub(super) unreadable: AtomicU64,
    pub(super) forgotten: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) behind: AtomicU64,
    micros: AtomicU64,
}

/// One more.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn spent(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        count(&self.micros, micros);
    }

    pub(super) fn now(&self) -> FeedCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FeedCounts {
            documents: of(&self.documents),
            sessions: of(&self.sessions),
            whole: of(&self.whole),
            unreadable: of(&self.unreadable),
            forgotten: of(&self.forgotten),
            refused: of(&self.refused),
            failed: of(&self.failed),
            behind: of(&self.behind),
            micros: of(&self.micros),
        }
    }
}
