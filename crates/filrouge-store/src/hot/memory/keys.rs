//! All keys of a hot store in memory, ordered by their last write.

use std::time::Duration;

use filrouge_types::Timestamp;
use hashlink::LinkedHashMap;

use super::super::HotKey;
use super::MemoryCounts;
use super::recent::RecentCopy;
use super::session::Session;

/// The approximate overhead of a key in bytes: its entries in the map and in the order of writes.
const KEY_BYTES: u64 = 256;

/// The number of expired keys that each call drops. It is more than the one key that a call can create, so expired keys
/// do not accumulate.
const DROPS_PER_CALL: usize = 4;

/// A key: of an ephemeral session, or of a copy of recent turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TypedKey {
    Session(HotKey),
    Recent(HotKey),
}

/// The value of a key. Only the field that the key's [`TypedKey`] names is used; the other field is empty.
#[derive(Default)]
pub(super) struct KeyValue {
    pub(super) session: Session,
    pub(super) recent: RecentCopy,
}

impl KeyValue {
    fn bytes(&self) -> u64 {
        KEY_BYTES + self.session.bytes() + self.recent.bytes()
    }
}

/// A key's value, its size and its expiry.
struct Entry {
    value: KeyValue,
    bytes: u64,
    expires_at: Timestamp,
}

/// The keys of a store.
pub(super) struct Keys {
    /// The maximum of `used_bytes`.
    pub(super) total_bytes: u64,
    ttl_micros: i64,
    /// The time of the current call.
    now: Timestamp,
    /// Ordered by last write, oldest first. All keys have the same time to live, so the first one expires first.
    entries: LinkedHashMap<TypedKey, Entry>,
    used_bytes: u64,
    expired: u64,
    evicted: u64,
}

impl Keys {
    pub(super) fn new(ttl: Duration, total_bytes: u64) -> Self {
        Self {
            total_bytes,
            ttl_micros: i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX),
            now: Timestamp::from_micros(0),
            entries: LinkedHashMap::new(),
            used_bytes: 0,
            expired: 0,
            evicted: 0,
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

    /// Begins a call at `now`: drops a few expired keys.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.now = now;
        for _ in 0..DROPS_PER_CALL {
            let oldest = self.entries.front().map(|(key, _)| *key);
            if !oldest.is_some_and(|key| self.drop_expired(key)) {
                return;
            }
        }
    }

    /// The value of a key that has not expired.
    pub(super) fn get(&self, key: TypedKey) -> Option<&KeyValue> {
        let entry = self.entries.get(&key)?;
        (entry.expires_at > self.now).then_some(&entry.value)
    }

    /// Changes or creates the value of a key by `change`, and restarts its time to live. If `change` returns `None`, it
    /// has changed nothing, and the time to live is not restarted.
    pub(super) fn change<R>(
        &mut self,
        key: TypedKey,
        change: impl FnOnce(&mut KeyValue) -> Option<R>,
    ) -> Option<R> {
        self.drop_expired(key);
        let result = match self.entries.get_mut(&key) {
            Some(entry) => change(&mut entry.value)?,
            None => {
                let mut new_value = KeyValue::default();
                let result = change(&mut new_value)?;
                let entry = Entry {
                    value: new_value,
                    bytes: 0,
                    expires_at: self.now,
                };
                self.entries.insert(key, entry);
                result
            }
        };
        self.mark_written(key);
        Some(result)
    }

    /// Moves a written key to the end of the order, updates sizes, and evicts keys if the store is full.
    fn mark_written(&mut self, key: TypedKey) {
        let Some(entry) = self.entries.to_back(&key) else {
            return;
        };
        let bytes = entry.value.bytes();
        self.used_bytes = self.used_bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        let expires_at = self.now.as_micros().saturating_add(self.ttl_micros);
        entry.expires_at = Timestamp::from_micros(expires_at);
        while self.used_bytes > self.total_bytes
            && self.entries.len() > 1
            && let Some((oldest, _)) = self.entries.front()
        {
            let oldest = *oldest;
            if !self.drop_expired(oldest) {
                self.evicted += 1;
                self.remove(oldest);
            }
        }
    }

    /// Drops a key if it has expired; returns whether it did.
    fn drop_expired(&mut self, key: TypedKey) -> bool {
        let is_expired = self
            .entries
            .get(&key)
            .is_some_and(|entry| entry.expires_at <= self.now);
        if is_expired {
            self.expired += 1;
            self.remove(key);
        }
        is_expired
    }

    pub(super) fn remove(&mut self, key: TypedKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.used_bytes -= entry.bytes;
        }
    }
}
