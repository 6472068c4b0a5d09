//! Records whether Redis accepts writes: keeps the newest refusal until a write succeeds. Unlike the breaker, it blocks
//! no requests, because reads and removals may still succeed.

use std::sync::Mutex;

use filrouge_types::lock;

/// The reason of the newest refusal, if no write has succeeded since.
#[derive(Default)]
pub(crate) struct WriteState(Mutex<Option<String>>);

impl WriteState {
    /// Records a refused write.
    pub(crate) fn record_refusal(&self, why: &str) {
        *lock(&self.0) = Some(why.to_owned());
    }

    /// Records a successful write.
    pub(crate) fn record_success(&self) {
        *lock(&self.0) = None;
    }

    /// The reason why the newest write was refused; `None` if it succeeded.
    pub(crate) fn refusal_reason(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}
