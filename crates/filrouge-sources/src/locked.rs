//! Locks for values that stay valid after a panic: caches, and values that are only ever replaced entirely.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after another thread panicked while it held the lock.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
