//! The secrets of the turns that are open, in bounded memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_types::{Timestamp, TurnId};

use super::turn::TurnSecrets;

/// Turns whose secrets are held at one time.
const TURNS_MAX: usize = 10_000;
/// Memory that they take at one time.
const BYTES_MAX: usize = 64 << 20;

struct Entry {
    secrets: Arc<TurnSecrets>,
    touched: Timestamp,
}

#[derive(Default)]
struct Held {
    turns: HashMap<TurnId, Entry>,
    bytes: usize,
}

/// Secrets by turn. One is held until its turn closes, or nobody has asked for it for as long as a turn may be silent.
#[derive(Default)]
pub(crate) struct Registry {
    held: Mutex<Held>,
    lost: AtomicU64,
}

impl Held {
    fn remove(&mut self, turn: TurnId) {
        if let Some(entry) = self.turns.remove(&turn) {
            self.bytes -= entry.secrets.memory();
        }
    }

    fn oldest(&self) -> Option<TurnId> {
        let oldest = self.turns.iter().min_by_key(|(_, e)| e.touched);
        oldest.map(|(turn, _)| *turn)
    }
}

impl Registry {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Each change is whole before anything can fail.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a turn's secrets. When there is no room, the turns that were silent longest lose theirs, which is counted.
    pub(crate) fn hold(&self, turn: TurnId, secrets: Arc<TurnSecrets>, now: Timestamp) {
        let lost = secrets.lost();
        if lost > 0 {
            self.lost.fetch_add(lost, Ordering::Relaxed);
            tracing::warn!(turn_id = %turn, lost, "values of runtime_context are too long or too many to be masked");
        }
        let mut held = self.held();
        held.remove(turn);
        let room = secrets.memory();
        while held.turns.len() >= TURNS_MAX || held.bytes + room > BYTES_MAX {
            let Some(oldest) = held.oldest() else { break };
            held.remove(oldest);
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(turn_id = %oldest, "a turn's runtime_context is masked no longer: too many turns are open");
        }
        held.bytes += room;
        let entry = Entry {
            secrets,
            touched: now,
        };
        held.turns.insert(turn, entry);
    }

    pub(crate) fn of(&self, turn: TurnId, now: Timestamp) -> Option<Arc<TurnSecrets>> {
        let mut held = self.held();
        let entry = held.turns.get_mut(&turn)?;
        entry.touched = now;
        Some(entry.secrets.clone())
    }

    pub(crate) fn forget(&self, turn: TurnId) {
        self.held().remove(turn);
    }

    /// Lets go of what nobody has asked for within `timeout`.
    pub(crate) fn expire(&self, now: Timestamp, timeout: Duration) {
        let timeout = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
        let before = now.as_micros().saturating_sub(timeout);
        let mut held = self.held();
        let silent = held.turns.iter();
        let silent: Vec<TurnId> = silent
            .filter(|(_, e)| e.touched.as_micros() < before)
            .map(|(turn, _)| *turn)
            .collect();
        for turn in silent {
            held.remove(turn);
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
