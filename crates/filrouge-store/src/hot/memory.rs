//! The hot store in memory: the embedded default, for one process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use filrouge_types::{Clock, ErrorCode, Failure, lock};

use super::{
    Edition, FieldChanges, HotBounds, HotHealth, HotKey, HotSession, HotStore, Recent, RecentFill,
    RecentUpdate,
};

mod keys;
mod recent;
mod session;

use keys::{Keys, TypedKey};
use recent::RecentCopy;

/// A hot store in memory. Nothing outlives the process.
///
/// The store contains at most a given number of bytes. When it is full, it evicts the key that was written least
/// recently, as a unit, and counts the eviction. Each call also drops a few expired keys.
pub struct MemoryHot {
    keys: Mutex<Keys>,
    /// The number of commits. This store never returns to an earlier state, so the number suffices as
    /// [`Edition::nonce`].
    commits: AtomicU64,
    bounds: HotBounds,
    clock: Arc<dyn Clock>,
}

/// The size of a [`MemoryHot`], and the number of keys that it has dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// The number of keys, including expired ones that are not dropped yet.
    pub keys: u64,
    /// The size of these keys in bytes: names, values and the approximate overhead.
    pub used_bytes: u64,
    /// Keys dropped because they expired.
    pub expired: u64,
    /// Keys evicted to free space.
    pub evicted: u64,
}

impl MemoryHot {
    /// An empty store for at most `total_bytes` bytes. `clock` determines expiry.
    pub fn new(bounds: HotBounds, total_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            keys: Mutex::new(Keys::new(bounds.ttl, total_bytes)),
            commits: AtomicU64::new(0),
            bounds,
            clock,
        }
    }

    /// The current size and the counters of the store.
    pub fn counts(&self) -> MemoryCounts {
        lock(&self.keys).counts()
    }

    /// Runs one call of the store on the keys.
    fn with_keys<T>(&self, call: impl FnOnce(&mut Keys) -> T) -> T {
        let mut keys = lock(&self.keys);
        keys.begin(self.clock.now());
        let evicted_before = keys.counts().evicted;
        let result = call(&mut keys);
        let evicted = keys.counts().evicted;
        drop(keys);
        // Logs the first eviction, then whenever the count doubles.
        if evicted_before.checked_ilog2() != evicted.checked_ilog2() {
            tracing::warn!(
                evicted,
                "[SESSIONS][HOT_FULL] keys were evicted to free space"
            );
        }
        result
    }

    /// Creates or changes a copy; `change` returns whether it changed anything.
    fn change_recent(&self, key: &HotKey, change: impl FnOnce(&mut RecentCopy) -> bool) {
        self.with_keys(|keys| {
            let max_bytes = keys.total_bytes;
            keys.change(TypedKey::Recent(*key), |value| {
                let copy = &mut value.recent;
                let is_changed = change(copy);
                if copy.bytes() > max_bytes {
                    copy.drop_turns();
                }
                is_changed.then_some(())
            })
        });
    }
}

fn session_too_large() -> Failure {
    ErrorCode::HotUnavailable.failure("the session is larger than the hot store")
}

#[async_trait]
impl HotStore for MemoryHot {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn bounds(&self) -> HotBounds {
        self.bounds
    }

    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure> {
        Ok(self.with_keys(|keys| keys.get(TypedKey::Session(*key))?.session.edition()))
    }

    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure> {
        Ok(self.with_keys(|keys| keys.get(TypedKey::Session(*key))?.session.to_hot_session()))
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: FieldChanges,
    ) -> Result<Option<Edition>, Failure> {
        let nonce = self.commits.fetch_add(1, Ordering::Relaxed);
        self.with_keys(|keys| {
            let max_bytes = keys.total_bytes;
            let mut fits = true;
            let edition = keys.change(TypedKey::Session(*key), |value| {
                let session = &mut value.session;
                if session.edition() != expected {
                    return None;
                }
                fits = session.bytes_after(&change) <= max_bytes;
                fits.then(|| session.commit(incarnation, nonce, change))
            });
            if fits {
                Ok(edition)
            } else {
                Err(session_too_large())
            }
        })
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        Ok(self.with_keys(|keys| {
            let slot = TypedKey::Session(*key);
            let edition = keys.get(slot).and_then(|value| value.session.edition());
            let is_forgotten = edition.is_none() || expected.is_none() || edition == expected;
            if is_forgotten {
                keys.remove(slot);
            }
            is_forgotten
        }))
    }

    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure> {
        Ok(self.with_keys(|keys| keys.get(TypedKey::Recent(*key))?.recent.newest(limit)))
    }

    async fn advance(&self, updates: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure> {
        for (key, update) in updates {
            self.change_recent(&key, |copy| copy.advance(update, &self.bounds));
        }
        Ok(())
    }

    async fn fill(&self, key: &HotKey, fill: RecentFill) -> Result<(), Failure> {
        self.change_recent(key, |copy| copy.fill(fill, &self.bounds));
        Ok(())
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.change_recent(key, |copy| copy.forget(seq));
        Ok(())
    }

    async fn health(&self) -> HotHealth {
        HotHealth {
            used_bytes: Some(self.counts().used_bytes),
            ..HotHealth::default()
        }
    }
}
