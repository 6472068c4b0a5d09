//! What was used lately of sessions, within a bound.

use std::sync::{Mutex, MutexGuard, PoisonError};

use filrouge_store::cache::Cache;
use filrouge_store::hot::HotKey;

/// What is remembered of at most so many sessions; those that were not used for longest are forgotten.
pub(super) struct Lately<V>(Mutex<Cache<HotKey, V>>);

impl<V: Clone> Lately<V> {
    /// An empty one of at most `most` sessions.
    pub(super) fn new(most: usize) -> Self {
        Self(Mutex::new(Cache::new(most)))
    }

    fn locked(&self) -> MutexGuard<'_, Cache<HotKey, V>> {
        // Each change is one call of the cache.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of `key`.
    pub(super) fn get(&self, key: &HotKey) -> Option<V> {
        self.locked().get(key)
    }

    /// Remembers `value`.
    pub(super) fn put(&self, key: HotKey, value: V) {
        self.locked().put(key, value, 1);
    }

    /// Changes what is known of `key`, from nothing if it is nothing.
    pub(super) fn change(&self, key: HotKey, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        let mut known = self.locked();
        let mut value = known.remove(&key).unwrap_or_default();
        change(&mut value);
        known.put(key, value, 1);
    }

    /// Forgets it.
    pub(super) fn remove(&self, key: &HotKey) {
        self.locked().remove(key);
    }
}
