//! What was made of sessions, in memory: what was not asked for lately goes first, by weight.

use std::sync::Arc;

use quick_cache::sync::{self, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};

use super::{Entry, LibraryError};
use crate::{Conversation, Fingerprint, ReadError, Source};

/// The part of the budget that one session may take.
const LARGEST: u64 = 4;

/// The place of a session's source, its id, and its fingerprint.
type Key = (usize, Box<str>, Fingerprint);

/// What is weighed against the budget.
pub(super) trait Weigh {
    /// About how many bytes it holds in memory.
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
    kept: Option<sync::Cache<Key, Arc<V>, ByWeight>>,
    largest: u64,
}

impl<V: Weigh> Cache<V> {
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
            largest: bytes as u64 / LARGEST,
        }
    }

    /// What `make` makes of a session whose source stays at its place in the library. Of several who ask for one at once
    /// one makes it.
    pub(super) fn get(
        &self,
        entry: &Entry,
        fingerprint: Option<Fingerprint>,
        make: impl FnOnce() -> Result<Arc<V>, LibraryError>,
    ) -> Result<Arc<V>, LibraryError> {
        let (Some(fingerprint), Some(kept)) = (fingerprint, &self.kept) else {
            return make();
        };
        let key = (entry.source, entry.header.id.clone(), fingerprint);
        match kept.get_value_or_guard(&key, None) {
            GuardResult::Value(known) => Ok(known),
            GuardResult::Guard(place) => {
                let value = make()?;
                if ByWeight.weight(&key, &value) <= self.largest {
                    // Refused where the cache was emptied meanwhile: then it is made again.
                    let _ = place.insert(value.clone());
                }
                Ok(value)
            }
            GuardResult::Timeout => make(),
        }
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
