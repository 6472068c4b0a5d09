//! A memory cache of values computed from sessions; evicts values that were not used recently, by weight.

use std::sync::Arc;

use quick_cache::sync::{self, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};

use super::{Entry, LibraryError};
use crate::{Conversation, Fingerprint, ReadError, Source};

/// One session may use at most the budget divided by this number.
const LARGEST: u64 = 4;

/// The index of a session's source, the session's id, and its fingerprint.
type Key = (usize, Box<str>, Fingerprint);

/// A value whose size counts against the budget.
pub(super) trait Weigh {
    /// The approximate size in memory, in bytes.
    fn weight(&self) -> usize;
}

impl Weigh for Conversation {
    fn weight(&self) -> usize {
        Self::weight(self)
    }
}

#[derive(Clone)]
struct ByWeight;

impl<V: Weigh> Weighter<Key, Arc<V>> for ByWeight {
    fn weight(&self, (_, id, _): &Key, value: &Arc<V>) -> u64 {
        (value.weight() + 2 * id.len()) as u64
    }
}

pub(super) struct Cache<V: Weigh> {
    values: Option<sync::Cache<Key, Arc<V>, ByWeight>>,
    largest: u64,
}

impl<V: Weigh> Cache<V> {
    pub(super) fn new(bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            // With more shards, each would only cache values that fit into its share of the budget.
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
            largest: bytes as u64 / LARGEST,
        }
    }

    /// Returns the cached value of a session, or computes it with `make`. Of several concurrent callers, only one computes it.
    /// The index of the session's source in the library must not change.
    pub(super) fn get(
        &self,
        entry: &Entry,
        fingerprint: Option<Fingerprint>,
        make: impl FnOnce() -> Result<Arc<V>, LibraryError>,
    ) -> Result<Arc<V>, LibraryError> {
        let (Some(fingerprint), Some(values)) = (fingerprint, &self.values) else {
            return make();
        };
        let key = (entry.source, entry.header.id.clone(), fingerprint);
        match values.get_value_or_guard(&key, None) {
            GuardResult::Value(value) => Ok(value),
            GuardResult::Guard(guard) => {
                let value = make()?;
                if ByWeight.weight(&key, &value) <= self.largest {
                    // Fails when the cache was emptied meanwhile; the value is then computed again.
                    let _ = guard.insert(value.clone());
                }
                Ok(value)
            }
            GuardResult::Timeout => make(),
        }
    }

    /// The weight of all cached values, in bytes.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.values.as_ref().map_or(0, sync::Cache::weight)
    }
}

/// Reads a conversation without caching it.
pub(super) fn read(source: &dyn Source, entry: &Entry) -> Result<Arc<Conversation>, LibraryError> {
    let read = source.read(&entry.header.id);
    read.map(Arc::new).map_err(|why| failed(entry, why))
}

/// Maps a read error to the library's error.
pub(super) fn failed(entry: &Entry, why: ReadError) -> LibraryError {
    let id = entry.header.id.to_string();
    match why {
        ReadError::Gone => LibraryError::NoSession(id),
        why => LibraryError::Unreadable(id, why),
    }
}
