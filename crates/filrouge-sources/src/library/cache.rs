//! A memory cache of values computed from sessions. It has a budget in bytes; when the budget is exceeded, values that
//! were not used recently are evicted.

use std::sync::Arc;

use quick_cache::sync::{self, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};

use super::{Entry, LibraryError, Result};
use crate::{Conversation, Fingerprint, Message, Part, ReadError, Source};

/// A value is cached only if its weight is at most the budget divided by this number.
const MAX_WEIGHT_DIVISOR: u64 = 4;

/// The index of a session's source, the session's id, and its fingerprint.
type Key = (usize, Box<str>, Fingerprint);

/// A value whose size counts against the budget.
pub(crate) trait Weigh {
    /// The approximate size in memory, in bytes.
    fn weight(&self) -> usize;
}

impl Weigh for Conversation {
    fn weight(&self) -> usize {
        let parts = |m: &Message| m.parts.iter().map(Part::weight).sum::<usize>();
        let messages = self.messages.iter().map(|m| 320 + parts(m)).sum::<usize>();
        512 + messages + 256 * self.skipped.len()
    }
}

#[derive(Clone)]
struct ByWeight;

impl<V: Weigh> Weighter<Key, Arc<V>> for ByWeight {
    fn weight(&self, (_, id, _): &Key, value: &Arc<V>) -> u64 {
        (value.weight() + 2 * id.len()) as u64
    }
}

/// A cache; without `values`, which is the case for a budget of 0, it caches nothing.
pub(super) struct Cache<V: Weigh> {
    values: Option<sync::Cache<Key, Arc<V>, ByWeight>>,
    /// The maximum weight of a cached value.
    max_weight: u64,
}

impl<V: Weigh> Cache<V> {
    /// Creates a cache with a budget of `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            // With several shards, each shard would cache only values that fit into its share of the budget.
            .shards(1)
            .estimated_items_capacity(1_024)
            .weight_capacity(bytes as u64)
            .build();
        let values = options.ok().filter(|_| bytes > 0).map(|options| {
            let lifecycle = sync::DefaultLifecycle::default();
            sync::Cache::with_options(options, ByWeight, Default::default(), lifecycle)
        });
        Self {
            values,
            max_weight: bytes as u64 / MAX_WEIGHT_DIVISOR,
        }
    }

    /// Returns the cached value of a session, or computes it with `compute` and caches it. Without a fingerprint,
    /// nothing is cached. Of several concurrent callers, only one computes the value. The key contains the index of the
    /// session's source, so the order of the library's sources must not change.
    pub(super) fn get(
        &self,
        entry: &Entry,
        fingerprint: Option<Fingerprint>,
        compute: impl FnOnce() -> Result<Arc<V>>,
    ) -> Result<Arc<V>> {
        let (Some(fingerprint), Some(values)) = (fingerprint, &self.values) else {
            return compute();
        };
        let key = (entry.source, entry.header.id.clone(), fingerprint);
        match values.get_value_or_guard(&key, None) {
            GuardResult::Value(value) => Ok(value),
            GuardResult::Guard(guard) => {
                let value = compute()?;
                if ByWeight.weight(&key, &value) <= self.max_weight {
                    // If the insertion fails because the cache was emptied meanwhile, the next caller computes the
                    // value again.
                    let _ = guard.insert(value.clone());
                }
                Ok(value)
            }
            GuardResult::Timeout => compute(),
        }
    }

    /// The weight of all cached values, in bytes.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.values.as_ref().map_or(0, sync::Cache::weight)
    }
}

/// Reads a conversation without caching it.
pub(super) fn read_uncached(source: &dyn Source, entry: &Entry) -> Result<Arc<Conversation>> {
    let read = source.read(&entry.header.id);
    read.map(Arc::new).map_err(|why| library_error(entry, why))
}

/// Reads a conversation for a page, perhaps from what its source keeps.
pub(super) fn read_shared(source: &dyn Source, entry: &Entry) -> Result<Arc<Conversation>> {
    let read = source.read_shared(&entry.header.id);
    read.map_err(|why| library_error(entry, why))
}

/// Maps a read error to the library's error.
pub(super) fn library_error(entry: &Entry, why: ReadError) -> LibraryError {
    let id = entry.header.id.to_string();
    match why {
        ReadError::Gone => LibraryError::NoSession(id),
        why => LibraryError::Unreadable(id, why),
    }
}
