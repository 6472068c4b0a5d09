//! This process's copies of its calls. The cache saves replays and is never authoritative: each read sends the cached
//! seq, and the store returns any newer items.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use filrouge_engine::CheckpointPolicy;
use filrouge_types::{SessionId, lock};

use crate::fsm::Dialogue;

/// The age from which an unchanged copy is evicted when the cache is full.
const KEEP_UNUSED: Duration = Duration::from_secs(15 * 60);
/// The maximum number of calls in the cache.
const MAX_CALLS: usize = 10_000;

/// A cached call.
#[derive(Debug, Clone)]
pub(crate) struct CachedCall {
    /// The newest seq that `dialogue` includes.
    pub(crate) seq: u64,
    pub(crate) dialogue: Dialogue,
    pub(crate) policy: CheckpointPolicy,
}

/// The cached calls, each with the time of its last change.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<SessionId, (Instant, CachedCall)>>);

impl Cache {
    pub(crate) fn get(&self, call: &SessionId) -> Option<CachedCall> {
        self.calls().get(call).map(|(_, cached)| cached.clone())
    }

    /// Caches a call. If the cache is full, evicts the copies older than [`KEEP_UNUSED`]; if it is still full, caches
    /// nothing.
    pub(crate) fn put(&self, call: &SessionId, cached: CachedCall) {
        let mut calls = self.calls();
        if calls.len() >= MAX_CALLS {
            calls.retain(|_, (changed_at, _)| changed_at.elapsed() < KEEP_UNUSED);
        }
        if calls.len() < MAX_CALLS {
            calls.insert(call.clone(), (Instant::now(), cached));
        }
    }

    pub(crate) fn remove(&self, call: &SessionId) {
        self.calls().remove(call);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<SessionId, (Instant, CachedCall)>> {
        // Every change of the map is a single operation.
        lock(&self.0)
    }
}
