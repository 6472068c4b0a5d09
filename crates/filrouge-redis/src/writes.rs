//! Whether Redis takes writes: the newest refusal stands until a write succeeds. It stops nothing, for reads and removals
//! may be served.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(crate) struct Writes {
    /// Whether `why` has to be looked at: the way of all writes while all is well.
    refused: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Writes {
    /// A write was refused.
    pub(crate) fn refused(&self, why: &str) {
        self.put(Some(why.to_owned()));
    }

    /// A write was taken.
    pub(crate) fn taken(&self) {
        if self.refused.load(Ordering::Acquire) {
            self.put(None);
        }
    }

    /// Why the newest write was refused, if it was.
    pub(crate) fn why(&self) -> Option<String> {
        // No step leaves it half changed.
        self.why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn put(&self, why: Option<String>) {
        let mut held = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        self.refused.store(why.is_some(), Ordering::Release);
        *held = why;
    }
}
