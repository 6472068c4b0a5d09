//! The counters of a tiered ledger, and whether the hot store currently fails.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_types::{Failure, lock};

use super::view::TierCounts;

/// The counters, shared by all requests.
#[derive(Debug, Default)]
pub(super) struct TierTally {
    counts: Mutex<TierCounts>,
    is_failing: AtomicBool,
}

impl TierTally {
    pub(super) fn count(&self, add: impl FnOnce(&mut TierCounts)) {
        add(&mut lock(&self.counts));
    }

    /// The counts that are kept here. The caller adds those that other components keep.
    pub(super) fn counts(&self) -> TierCounts {
        *lock(&self.counts)
    }

    /// Counts a request that the hot store did not answer, and logs the first of consecutive failures.
    fn hot_failed(&self, failure: &Failure) {
        self.count(|counts| counts.hot_failures += 1);
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(code = failure.code.as_str(), %failure, "[SESSIONS][HOT] the hot store does not answer");
        }
    }

    /// Logs the first answer of the hot store after failures.
    fn hot_answered(&self) {
        if self.is_failing.load(Ordering::Relaxed) && self.is_failing.swap(false, Ordering::Relaxed)
        {
            let failures = self.counts().hot_failures;
            tracing::info!(failures, "[SESSIONS][HOT] the hot store answers again");
        }
    }

    /// Returns a result of the hot store unchanged. Counts failures to answer, and logs the first and the last of a
    /// series of them.
    pub(super) fn observe<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        match &answer {
            Ok(_) => self.hot_answered(),
            Err(failure) if is_hot_outage(failure) => self.hot_failed(failure),
            Err(_) => {}
        }
        answer
    }
}

/// Whether the failure is that the hot store did not answer.
pub(super) fn is_hot_outage(failure: &Failure) -> bool {
    failure.code == filrouge_types::ErrorCode::HotUnavailable
}
