//! What is counted of two scopes, and whether the hot store is in trouble.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use filrouge_types::Failure;

use super::view::ScopeCounts;

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Mutex<ScopeCounts>,
    in_trouble: AtomicBool,
}

impl Tally {
    pub(super) fn count(&self, add: impl FnOnce(&mut ScopeCounts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was counted; what others count or hold is the caller's to add.
    pub(super) fn counts(&self) -> ScopeCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that the hot store did not answer; the first one is told.
    fn hot_failed(&self, failure: &Failure) {
        self.count(|counts| counts.hot_failures += 1);
        if !self.in_trouble.swap(true, Ordering::Relaxed) {
            tracing::warn!(code = failure.code.as_str(), %failure, "[SESSIONS][HOT] the hot store does not answer");
        }
    }

    /// The hot store has answered; after a failure that is told.
    fn hot_answered(&self) {
        if self.in_trouble.load(Ordering::Relaxed) && self.in_trouble.swap(false, Ordering::Relaxed)
        {
            let failures = self.counts().hot_failures;
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
}

/// Whether it is the hot store that failed.
pub(super) fn is_hot(failure: &Failure) -> bool {
    failure.code == filrouge_types::ErrorCode::HotUnavailable
}
