//! What this process remembers of calls. It saves a replay and decides nothing: whoever uses it tells the store up to which
//! seq it knows the call, and the store says whether there is more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use filrouge_engine::CheckpointPolicy;
use filrouge_types::SessionId;

use crate::fsm::Dialogue;

/// How long a call that is not heard of is remembered.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// Calls that are remembered at most.
const CALLS: usize = 10_000;

/// What is remembered of a call.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// The newest seq that `dialogue` knows of.
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

    /// Remembers a call, and forgets those that were not heard of for long.
    pub(crate) fn put(&self, call: &SessionId, known: Known) {
        let mut calls = self.calls();
        if calls.len() >= CALLS {
            calls.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        if calls.len() < CALLS {
            calls.insert(call.clone(), (Instant::now(), known));
        }
    }

    pub(crate) fn forget(&self, call: &SessionId) {
        self.calls().remove(call);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<SessionId, (Instant, Known)>> {
        // Each change of the map is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
