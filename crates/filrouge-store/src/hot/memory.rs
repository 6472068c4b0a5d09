//! The hot store in memory: the embedded default, for one process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use filrouge_types::{Clock, ErrorCode, Failure};

use super::{
    Change, Edition, HotBounds, HotHealth, HotKey, HotSession, HotStore, Recent, RecentFill,
    RecentUpdate,
};

mod keys;
mod recent;
mod session;

use keys::{Keys, Slot};
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
    #[must_use]
    pub fn new(bounds: HotBounds, total_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            keys: Mutex::new(Keys::new(bounds.ttl, total_bytes)),
            commits: AtomicU64::new(0),
            bounds,
            clock,
        }
    }

    /// The current size and the counters of the store.
    #[must_use]
    pub fn counts(&self) -> MemoryCounts {
        self.locked().counts()
    }

    fn locked(&self) -> MutexGuard<'_, Keys> {
        // Each change of a key performs all checks first and then cannot fail, so a panic leaves no key partially
        // changed.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one call of the store, `work`, on the keys.
    fn on_keys<T>(&self, work: impl FnOnce(&mut Keys) -> T) -> T {
        let mut keys = self.locked();
        keys.begin(self.clock.now());
        let before = keys.counts().evicted;
        let done = work(&mut keys);
        let evicted = keys.counts().evicted;
        drop(keys);
        // Logs the first eviction, then whenever the count doubles.
        if before.checked_ilog2() != evicted.checked_ilog2() {
            tracing::warn!(
                evicted,
                "[SESSIONS][HOT_FULL] keys were evicted to free space"
            );
        }
        done
    }

    /// Creates or changes a copy; `change` returns whether it changed anything.
    fn on_recent(&self, key: &HotKey, change: impl FnOnce(&mut RecentCopy) -> bool) {
        self.on_keys(|keys| {
            let max_bytes = keys.total_bytes;
            keys.change(Slot::Recent(*key), |kept| {
                let copy = &mut kept.recent;
                let changed = change(copy);
                if copy.bytes() > max_bytes {
                    copy.drop_turns();
                }
                changed.then_some(())
            })
        });
    }
}

fn no_room() -> Failure {
    Failure::new(
        ErrorCode::HotUnavailable,
        "the session is larger than the hot store",
    )
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
        Ok(self.on_keys(|keys| keys.get(Slot::Session(*key))?.session.edition()))
    }

    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure> {
        Ok(self.on_keys(|keys| keys.get(Slot::Session(*key))?.session.loaded()))
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: Change,
    ) -> Result<Option<Edition>, Failure> {
        let nonce = self.commits.fetch_add(1, Ordering::Relaxed);
        self.on_keys(|keys| {
            let max_bytes = keys.total_bytes;
            let mut room = true;
            let edition = keys.change(Slot::Session(*key), |kept| {
                let held = &mut kept.session;
                if held.edition() != expected {
                    return None;
                }
                room = held.bytes_after(&change) <= max_bytes;
                room.then(|| held.commit(incarnation, nonce, change))
            });
            if room { Ok(edition) } else { Err(no_room()) }
        })
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        Ok(self.on_keys(|keys| {
            let slot = Slot::Session(*key);
            let held = keys.get(slot).and_then(|kept| kept.session.edition());
            let goes = held.is_none() || expected.is_none() || held == expected;
            if goes {
                keys.remove(slot);
            }
            goes
        }))
    }

    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure> {
        Ok(self.on_keys(|keys| keys.get(Slot::Recent(*key))?.recent.newest(limit)))
    }

    async fn advance(&self, updates: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure> {
        for (key, update) in updates {
            self.on_recent(&key, |copy| copy.advance(update, &self.bounds));
        }
        Ok(())
    }

    async fn fill(&self, key: &HotKey, fill: RecentFill) -> Result<(), Failure> {
        self.on_recent(key, |copy| copy.fill(fill, &self.bounds));
        Ok(())
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.on_recent(key, |copy| copy.forget(seq));
        Ok(())
    }

    async fn health(&self) -> HotHealth {
        HotHealth {
            used_bytes: Some(self.counts().used_bytes),
            ..HotHealth::default()
        }
    }
}
