//! Locks over what is right whatever happened to its last user: caches, and values that are replaced as a whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also behind a thread that has panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
