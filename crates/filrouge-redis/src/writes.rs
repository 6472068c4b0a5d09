//! Whether Redis takes writes: the newest refusal stands until a write succeeds. It stops nothing, for reads and removals
//! may be served.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Writes(Mutex<Option<String>>);

impl Writes {
    /// A write was refused.
    pub(crate) fn refused(&self, why: &str) {
        *self.held() = Some(why.to_owned());
    }

    /// A write was taken.
    pub(crate) fn taken(&self) {
        *self.held() = None;
    }

    /// Why the newest write was refused, if it was.
    pub(crate) fn why(&self) -> Option<String> {
        self.held().clone()
    }

    fn held(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
