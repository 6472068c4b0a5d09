//! What is counted of two scopes, and whether the hot store is in trouble.

use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_store::hot::{Count, EphemeralCounts};
use filrouge_types::Failure;

use super::view::ScopeCounts;

/// All counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) hits: Count,
    pub(super) absent: Count,
    pub(super) stale: Count,
    pub(super) unreadable: Count,
    pub(super) as_of: Count,
    pub(super) fills: Count,
    pub(super) sent: Count,
    pub(super) dropped: Count,
    pub(super) removals_failed: Count,
    hot_failures: Count,
    pub(super) logins: Count,
    pub(super) backfilled: Count,
    pub(super) late: Count,
    pub(super) late_refused: Count,
    in_trouble: AtomicBool,
}

impl Tally {
    /// Counts a request that the hot store did not answer; the first one is told.
    pub(super) fn hot_failed(&self, failure: &Failure) {
        self.hot_failures.one();
        if !self.in_trouble.swap(true, Ordering::Relaxed) {
            tracing::warn!(code = failure.code.as_str(), %failure, "[SESSIONS][HOT] the hot store does not answer");
        }
    }

    /// The hot store has answered; after a failure that is told.
    pub(super) fn hot_answered(&self) {
        if self.in_trouble.load(Ordering::Relaxed) && self.in_trouble.swap(false, Ordering::Relaxed)
        {
            let failures = self.hot_failures.get();
            tracing::info!(failures, "[SESSIONS][HOT] the hot store answers again");
        }
    }

    /// The answer of a hot store, counted when it is a failure.
    pub(super) fn noted<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        match &answer {
            Ok(_) => self.hot_answered(),
            Err(failure) if is_hot(failure) => self.hot_failed(failure),
            Err(_) => {}
        }
        answer
    }

    /// What was counted; what waits is the caller's to add.
    pub(super) fn counts(&self, ephemeral: EphemeralCounts) -> ScopeCounts {
        ScopeCounts {
            recent_hits: self.hits.get(),
            recent_absent: self.absent.get(),
            recent_stale: self.stale.get(),
            recent_unreadable: self.unreadable.get(),
            recent_as_of: self.as_of.get(),
            recent_fills: self.fills.get(),
            steps_sent: self.sent.get(),
            steps_dropped: self.dropped.get(),
            steps_waiting: 0,
            removals_failed: self.removals_failed.get(),
            removals_waiting: 0,
            hot_failures: self.hot_failures.get(),
            logins: self.logins.get(),
            backfilled_turns: self.backfilled.get(),
            late_turns: self.late.get(),
            late_refused: self.late_refused.get(),
            ephemeral_went_back: ephemeral.went_back,
            ephemeral_damaged: ephemeral.damaged,
            ephemeral_conflicts: ephemeral.conflicts,
            ephemeral_trimmed_turns: ephemeral.trimmed_turns,
            ephemeral_loads: ephemeral.loads,
        }
    }
}

/// Whether it is the hot store that failed.
pub(super) fn is_hot(failure: &Failure) -> bool {
    failure.code == filrouge_types::ErrorCode::HotUnavailable
}
