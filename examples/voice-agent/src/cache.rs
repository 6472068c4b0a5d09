//! This process's copies of its calls. The cache saves replays and decides nothing: its user passes the seq up to which it knows
//! a call to the store, which answers whether there is more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use filrouge_engine::CheckpointPolicy;
use filrouge_types::SessionId;

use crate::fsm::Dialogue;

/// How long an unused copy is kept.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// The maximum number of calls in the cache.
const MAX_CALLS: usize = 10_000;

/// The copy of a call.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// The newest seq that `dialogue` includes.
    pub(crate) seq: u64,
    pub(crate) dialogue: Dialogue,
    pub(crate) policy: CheckpointPolicy,
}

#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<SessionId, (Instant, Known)>>);

impl Cache {
    pub(crate) fn get(&self, call: &SessionId) -> Option<Known> {
        self.calls().get(call).map(|(_, known)| known.clone())
    }

    /// Caches a call; when the cache is full, evicts copies that were unused for long.
    pub(crate) fn put(&self, call: &SessionId, known: Known) {
        let mut calls = self.calls();
        if calls.len() >= MAX_CALLS {
            calls.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        if calls.len() < MAX_CALLS {
            calls.insert(call.clone(), (Instant::now(), known));
        }
    }

    pub(crate) fn forget(&self, call: &SessionId) {
        self.calls().remove(call);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<SessionId, (Instant, Known)>> {
        // Every change of the map is a single operation, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
