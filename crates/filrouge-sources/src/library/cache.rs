//! What was made of sessions, in memory: what was not asked for lately goes first, by weight.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use quick_cache::sync;
use quick_cache::{OptionsBuilder, Weighter};

use super::{Entry, LibraryError};
use crate::locked::locked;
use crate::{Conversation, Fingerprint, ReadError, Source};

/// Locks for loading. Sessions that share one wait for each other; so do callers who ask for one session, which is
/// then read once.
const LOADING: usize = 16;

/// The part of the budget that one session may take.
const LARGEST: usize = 4;

type Key = (usize, Box<str>);

/// What was made of a session, and the fingerprint that it was listed with.
struct Kept<V> {
    fingerprint: Fingerprint,
    value: Arc<V>,
    weight: u64,
}

impl<V> Clone for Kept<V> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            ..*self
        }
    }
}

#[derive(Clone)]
struct ByWeight;

impl<V> Weighter<Key, Kept<V>> for ByWeight {
    fn weight(&self, _: &Key, kept: &Kept<V>) -> u64 {
        kept.weight
    }
}

pub(super) struct Cache<V> {
    kept: Option<sync::Cache<Key, Kept<V>, ByWeight>>,
    largest: usize,
    loading: [Mutex<()>; LOADING],
}

impl<V> Cache<V> {
    pub(super) fn new(bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            // More than one would each have a share of the budget, and keep only what fits into that.
            .shards(1)
            .estimated_items_capacity(1_024)
            .weight_capacity(bytes as u64)
            .build();
        let kept = options.ok().filter(|_| bytes > 0).map(|options| {
            let lifecycle = sync::DefaultLifecycle::default();
            sync::Cache::with_options(options, ByWeight, Default::default(), lifecycle)
        });
        Self {
            kept,
            largest: bytes / LARGEST,
            loading: Default::default(),
        }
    }

    /// What `make` makes of a session whose source stays at its place in the library.
    pub(super) fn get(
        &self,
        entry: &Entry,
        weigh: fn(&V) -> usize,
        make: impl FnOnce() -> Result<Arc<V>, LibraryError>,
    ) -> Result<Arc<V>, LibraryError> {
        let id = &entry.header.id;
        let (Some(fingerprint), Some(kept)) = (entry.header.fingerprint, &self.kept) else {
            return make();
        };
        let key = (entry.source, id.clone());
        let known = || kept.get(&key).filter(|k| k.fingerprint == fingerprint);
        if let Some(known) = known() {
            return Ok(known.value);
        }
        let _alone = self.lock(&key);
        if let Some(known) = known() {
            return Ok(known.value);
        }
        let value = make()?;
        let weight = weigh(&value) + 2 * id.len();
        if weight <= self.largest {
            let fresh = Kept {
                fingerprint,
                value: value.clone(),
                weight: weight as u64,
            };
            kept.insert(key.clone(), fresh);
        } else {
            kept.remove(&key);
        }
        Ok(value)
    }

    fn lock(&self, key: &Key) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let lock = self.loading.get(hasher.finish() as usize % LOADING)?;
        Some(locked(lock))
    }

    /// Bytes kept, as weighed.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.kept.as_ref().map_or(0, sync::Cache::weight)
    }
}

/// Reads a conversation, keeping nothing.
pub(super) fn read(source: &dyn Source, entry: &Entry) -> Result<Arc<Conversation>, LibraryError> {
    let read = source.read(&entry.header.id);
    read.map(Arc::new).map_err(|why| failed(entry, why))
}

/// Why a session has no answer.
pub(super) fn failed(entry: &Entry, why: ReadError) -> LibraryError {
    let id = entry.header.id.to_string();
    match why {
        ReadError::Gone => LibraryError::NoSession(id),
        why => LibraryError::Unreadable(id, why),
    }
}
