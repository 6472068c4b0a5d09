//! All keys, in the order in which they were last written to.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use filrouge_types::Timestamp;

use super::super::HotKey;
use super::MemoryCounts;
use super::recent::RecentCopy;
use super::session::Session;

/// What a key takes besides what it holds, about: its places in the map and in the order.
const KEY_BYTES: u64 = 256;

/// How many keys whose time is over are dropped at a call. More than the one that a call can make, so that they grow fewer.
const DROPS_A_CALL: usize = 4;

/// A key: of an ephemeral session, or of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Slot {
    Session(HotKey),
    Recent(HotKey),
}

/// What lies under a key: the one that its [`Slot`] names; the other one is empty.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) session: Session,
    pub(super) recent: RecentCopy,
}

impl Kept {
    fn bytes(&self) -> u64 {
        KEY_BYTES + self.session.bytes() + self.recent.bytes()
    }
}

struct Entry {
    kept: Kept,
    bytes: u64,
    /// Its place in the order.
    write: u64,
    expires: Timestamp,
}

/// The keys of a store.
pub(super) struct Keys {
    pub(super) total_bytes: u64,
    ttl_micros: i64,
    now: Timestamp,
    entries: HashMap<Slot, Entry>,
    /// By the number of the last write. All live equally long, so the first one is also the first whose time is over.
    order: BTreeMap<u64, Slot>,
    writes: u64,
    used_bytes: u64,
    expired: u64,
    evicted: u64,
    /// Dropped, to be freed by whoever holds the lock, after it.
    gone: Vec<Kept>,
}

impl Keys {
    pub(super) fn new(ttl: Duration, total_bytes: u64) -> Self {
        Self {
            total_bytes,
            ttl_micros: i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX),
            now: Timestamp::from_micros(0),
            entries: HashMap::new(),
            order: BTreeMap::new(),
            writes: 0,
            used_bytes: 0,
            expired: 0,
            evicted: 0,
            gone: Vec::new(),
        }
    }

    pub(super) fn counts(&self) -> MemoryCounts {
        MemoryCounts {
            keys: self.entries.len() as u64,
            used_bytes: self.used_bytes,
            expired: self.expired,
            evicted: self.evicted,
        }
    }

    /// A call at `now`: drops a few keys whose time is over.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.now = now;
        for _ in 0..DROPS_A_CALL {
            let Some(slot) = self.order.values().next().copied() else {
                return;
            };
            if !self.drop_expired(slot) {
                return;
            }
        }
    }

    /// What has been dropped since it was last asked.
    pub(super) fn take_gone(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.gone)
    }

    /// What lies under a key whose time is not over.
    pub(super) fn get(&self, slot: Slot) -> Option<&Kept> {
        let entry = self.entries.get(&slot)?;
        (entry.expires > self.now).then_some(&entry.kept)
    }

    /// Lets `change` change what lies under a key, or make it from what is empty. `None` from it: nothing was changed, and
    /// the key lives no longer for it.
    pub(super) fn change<R>(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut Kept) -> Option<R>,
    ) -> Option<R> {
        self.drop_expired(slot);
        let done = match self.entries.get_mut(&slot) {
            Some(entry) => {
                let done = change(&mut entry.kept)?;
                self.order.remove(&entry.write);
                done
            }
            None => {
                let mut made = Kept::default();
                let done = change(&mut made)?;
                let entry = Entry {
                    kept: made,
                    bytes: 0,
                    write: 0,
                    expires: self.now,
                };
                self.entries.insert(slot, entry);
                done
            }
        };
        self.written(slot);
        Some(done)
    }

    /// Puts a key that was written to at the end of the order, and makes room if need be.
    fn written(&mut self, slot: Slot) {
        let Some(entry) = self.entries.get_mut(&slot) else {
            return;
        };
        let bytes = entry.kept.bytes();
        self.used_bytes = self.used_bytes - entry.bytes + bytes;
        self.writes += 1;
        entry.bytes = bytes;
        entry.write = self.writes;
        let expires = self.now.as_micros().saturating_add(self.ttl_micros);
        entry.expires = Timestamp::from_micros(expires);
        self.order.insert(self.writes, slot);
        while self.used_bytes > self.total_bytes && self.order.len() > 1 {
            let Some(oldest) = self.order.values().next().copied() else {
                return;
            };
            if !self.drop_expired(oldest) {
                self.evicted += 1;
                self.remove(oldest);
            }
        }
    }

    /// Drops a key if its time is over; whether it did.
    fn drop_expired(&mut self, slot: Slot) -> bool {
        let over = self
            .entries
            .get(&slot)
            .is_some_and(|entry| entry.expires <= self.now);
        if over {
            self.expired += 1;
            self.remove(slot);
        }
        over
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(entry) = self.entries.remove(&slot) {
            self.order.remove(&entry.write);
            self.used_bytes -= entry.bytes;
            self.gone.push(entry.kept);
        }
    }
}
