//! Conversations in memory: those that were not asked for lately go first, by weight.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use quick_cache::sync;
use quick_cache::{OptionsBuilder, Weighter};

use super::{Entry, LibraryError};
use crate::locked::locked;
use crate::{Conversation, Fingerprint, ReadError, Source};

/// Locks for loading. Sessions that share one wait for each other; so do callers who ask for one session, which is
/// then read once.
const LOADING: usize = 16;

/// The part of the budget that one conversation may take.
const LARGEST: usize = 4;

type Key = (usize, Box<str>);

/// A conversation, and the fingerprint that it was listed with.
#[derive(Clone)]
struct Kept {
    fingerprint: Fingerprint,
    conversation: Arc<Conversation>,
    weight: u64,
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<Key, Kept> for ByWeight {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        kept.weight
    }
}

pub(super) struct Cache {
    kept: Option<sync::Cache<Key, Kept, ByWeight>>,
    largest: usize,
    loading: [Mutex<()>; LOADING],
}

impl Cache {
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

    /// A conversation of a source that stays at its place in the library.
    pub(super) fn conversation(
        &self,
        source: &dyn Source,
        entry: &Entry,
    ) -> Result<Arc<Conversation>, LibraryError> {
        let id = &entry.header.id;
        let (Some(fingerprint), Some(kept)) = (entry.header.fingerprint, &self.kept) else {
            return read(source, entry);
        };
        let key = (entry.source, id.clone());
        let known = || kept.get(&key).filter(|k| k.fingerprint == fingerprint);
        if let Some(known) = known() {
            return Ok(known.conversation);
        }
        let _alone = self.lock(&key);
        if let Some(known) = known() {
            return Ok(known.conversation);
        }
        let conversation = read(source, entry)?;
        let weight = conversation.weight() + 2 * id.len();
        if weight <= self.largest {
            let fresh = Kept {
                fingerprint,
                conversation: conversation.clone(),
                weight: weight as u64,
            };
            kept.insert(key.clone(), fresh);
        } else {
            kept.remove(&key);
        }
        Ok(conversation)
    }

    fn lock(&self, key: &Key) -> Option<std::sync::MutexGuard<'_, ()>> {
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
    let id = &entry.header.id;
    let read = source.read(id);
    read.map(Arc::new).map_err(|why| refused(id, why))
}

pub(super) fn refused(id: &str, why: ReadError) -> LibraryError {
    match why {
        ReadError::Gone => LibraryError::NoSession(id.to_owned()),
        why => LibraryError::Unreadable(id.to_owned(), why),
    }
}
