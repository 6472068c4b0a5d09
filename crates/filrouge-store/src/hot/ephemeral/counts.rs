//! What is counted of ephemeral sessions.

use std::sync::atomic::{AtomicU64, Ordering};

/// What has happened in this process since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EphemeralCounts {
    /// Sessions that the hot store had in an older state than it had told before: acknowledged writes were lost.
    pub went_back: u64,
    /// Sessions that were forgotten because what the hot store had was not what was put.
    pub damaged: u64,
    /// Commits that came upon another state and were tried again.
    pub conflicts: u64,
    /// Turns that had to go because a session had too many turns or bytes.
    pub trimmed_turns: u64,
    /// Sessions read from the hot store.
    pub loads: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    went_back: AtomicU64,
    damaged: AtomicU64,
    conflicts: AtomicU64,
    trimmed_turns: AtomicU64,
    loads: AtomicU64,
}

impl Counters {
    pub(super) fn went_back(&self) {
        self.went_back.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn damaged(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn conflicts(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn trimmed(&self, turns: u64) {
        self.trimmed_turns.fetch_add(turns, Ordering::Relaxed);
    }

    pub(super) fn loads(&self) {
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> EphemeralCounts {
        EphemeralCounts {
            went_back: self.went_back.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
            conflicts: self.conflicts.load(Ordering::Relaxed),
            trimmed_turns: self.trimmed_turns.load(Ordering::Relaxed),
            loads: self.loads.load(Ordering::Relaxed),
        }
    }
}
