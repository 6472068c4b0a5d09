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

/// A counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) went_back: Count,
    pub(super) damaged: Count,
    pub(super) conflicts: Count,
    pub(super) trimmed_turns: Count,
    pub(super) loads: Count,
}

impl Counters {
    pub(super) fn counts(&self) -> EphemeralCounts {
        EphemeralCounts {
            went_back: self.went_back.get(),
            damaged: self.damaged.get(),
            conflicts: self.conflicts.get(),
            trimmed_turns: self.trimmed_turns.get(),
            loads: self.loads.get(),
        }
    }
}
