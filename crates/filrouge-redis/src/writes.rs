//! Records whether Redis accepts writes: keeps the newest refusal until a write succeeds. Unlike the breaker, it blocks
//! no requests, because reads and removals may still succeed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The reason of the newest refusal, if no write has succeeded since.
#[derive(Default)]
pub(crate) struct WriteState(Mutex<Option<String>>);

impl WriteState {
    /// Records a refused write.
    pub(crate) fn record_refusal(&self, why: &str) {
        *self.newest_refusal() = Some(why.to_owned());
    }

    /// Records a successful write.
    pub(crate) fn record_success(&self) {
        *self.newest_refusal() = None;
    }

    /// The reason why the newest write was refused; `None` if it succeeded.
    pub(crate) fn refusal_reason(&self) -> Option<String> {
        self.newest_refusal().clone()
    }

    fn newest_refusal(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
