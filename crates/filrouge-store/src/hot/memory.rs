//! The hot store in memory: the embedded default, for one process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use filrouge_types::{Clock, ErrorCode, Failure};

use super::{Change, Edition, Fill, HotBounds, HotHealth, HotKey, HotStore, Loaded, Recent, Step};

mod keys;
mod recent;
mod session;

use keys::{Keys, Slot};
use recent::RecentCopy;

/// A hot store in memory. Nothing outlives the process.
///
/// It holds at most a given number of bytes: beyond them the key that was written to least recently goes first, whole, and
/// is counted. Keys whose time is over are dropped a few at each call, whichever key that is about.
pub struct MemoryHot {
    keys: Mutex<Keys>,
    /// How many commits there were: nothing sets this store back, so a number is word enough.
    commits: AtomicU64,
    bounds: HotBounds,
    clock: Arc<dyn Clock>,
}

/// How full a [`MemoryHot`] is, and what went from it so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Keys that are held, those whose time is over and that nothing has dropped yet included.
    pub keys: u64,
    /// Bytes that they take: names and values, and about what is needed to hold them.
    pub used_bytes: u64,
    /// Keys that went because their time was over.
    pub expired: u64,
    /// Keys that went to make room.
    pub evicted: u64,
}

impl MemoryHot {
    /// An empty store that holds at most `total_bytes` bytes. Time to live is counted on `clock`.
    #[must_use]
    pub fn new(bounds: HotBounds, total_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            keys: Mutex::new(Keys::new(bounds.ttl, total_bytes)),
            commits: AtomicU64::new(0),
            bounds,
            clock,
        }
    }

    /// How full it is.
    #[must_use]
    pub fn counts(&self) -> MemoryCounts {
        self.locked().counts()
    }

    fn locked(&self) -> MutexGuard<'_, Keys> {
        // What changes a key checks first and then cannot fail, so a panic leaves none half changed.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` on the keys.
    fn on_keys<T>(&self, work: impl FnOnce(&mut Keys) -> T) -> T {
        let mut keys = self.locked();
        keys.begin(self.clock.now());
        let before = keys.counts().evicted;
        let done = work(&mut keys);
        let evicted = keys.counts().evicted;
        drop(keys);
        // The first one, and ever fewer of those that follow.
        if before.checked_ilog2() != evicted.checked_ilog2() {
            tracing::warn!(evicted, "[SESSIONS][HOT_FULL] keys went to make room");
        }
        done
    }

    /// Makes or changes a copy; `change` tells whether it did.
    fn on_recent(&self, key: &HotKey, change: impl FnOnce(&mut RecentCopy) -> bool) {
        self.on_keys(|keys| {
            let most = keys.total_bytes;
            keys.change(Slot::Recent(*key), |kept| {
                let copy = &mut kept.recent;
                let changed = change(copy);
                if copy.bytes() > most {
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

    async fn load(&self, key: &HotKey) -> Result<Option<Loaded>, Failure> {
        Ok(self.on_keys(|keys| keys.get(Slot::Session(*key))?.session.loaded()))
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: Change,
    ) -> Result<Option<Edition>, Failure> {
        let word = self.commits.fetch_add(1, Ordering::Relaxed);
        self.on_keys(|keys| {
            let most = keys.total_bytes;
            let mut room = true;
            let edition = keys.change(Slot::Session(*key), |kept| {
                let held = &mut kept.session;
                if held.edition() != expected {
                    return None;
                }
                room = held.bytes_after(&change) <= most;
                room.then(|| held.commit(incarnation, word, change))
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

    async fn advance(&self, steps: Vec<(HotKey, Step)>) -> Result<(), Failure> {
        for (key, step) in steps {
            self.on_recent(&key, |copy| copy.advance(step, &self.bounds));
        }
        Ok(())
    }

    async fn fill(&self, key: &HotKey, fill: Fill) -> Result<(), Failure> {
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
