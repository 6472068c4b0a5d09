//! The secrets of the turns that are open, in bounded memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_types::{SessionId, TenantId, Timestamp, TurnId};

use super::turn::TurnSecrets;

/// Turns whose secrets are held at one time.
const TURNS_MAX: usize = 10_000;
/// Memory that they take at one time.
const BYTES_MAX: usize = 64 << 20;

/// How long those of a turn that has closed are known to its session: its checkpoint is put behind its answer.
const LINGER: Duration = Duration::from_secs(60);

/// Whose turn it is.
type Owner = (TenantId, SessionId);

struct Entry {
    session: Owner,
    secrets: Arc<TurnSecrets>,
    touched: Timestamp,
    /// Whether its turn has closed.
    closed: bool,
}

#[derive(Default)]
struct Held {
    turns: HashMap<TurnId, Entry>,
    bytes: usize,
}

/// Secrets by turn. One is held until its turn closes and a little longer, for checkpoints of the session, or until
/// nobody has asked for it for as long as a turn may be silent.
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

    /// Lets go of those that nobody has touched for so long.
    fn let_go(&mut self, now: Timestamp, time: Duration, of: impl Fn(&Entry) -> bool) {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let before = now.as_micros().saturating_sub(time);
        let silent = self.turns.iter();
        let silent: Vec<TurnId> = silent
            .filter(|(_, e)| of(e) && e.touched.as_micros() < before)
            .map(|(turn, _)| *turn)
            .collect();
        for turn in silent {
            self.remove(turn);
        }
    }

    /// The one to let go of first, and whether its turn has closed.
    fn oldest(&self) -> Option<(TurnId, bool)> {
        let turns = self.turns.iter();
        let oldest = turns.min_by_key(|(_, e)| (!e.closed, e.touched));
        oldest.map(|(turn, entry)| (*turn, entry.closed))
    }
}

impl Registry {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Each change is whole before anything can fail.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a turn's secrets. When there is no room, the turns that were silent longest lose theirs, which is counted.
    pub(crate) fn hold(
        &self,
        (session, turn): (Owner, TurnId),
        secrets: Arc<TurnSecrets>,
        now: Timestamp,
    ) {
        let lost = secrets.lost();
        if lost > 0 {
            self.lost.fetch_add(lost, Ordering::Relaxed);
            tracing::warn!(turn_id = %turn, lost, "values of runtime_context are too long or too many to be masked");
        }
        let mut held = self.held();
        held.remove(turn);
        let room = secrets.memory();
        while held.turns.len() >= TURNS_MAX || held.bytes + room > BYTES_MAX {
            let Some((oldest, closed)) = held.oldest() else {
                break;
            };
            held.remove(oldest);
            if closed {
                continue;
            }
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(turn_id = %oldest, "a turn's runtime_context is masked no longer: too many turns are open");
        }
        held.bytes += room;
        let entry = Entry {
            session,
            secrets,
            touched: now,
            closed: false,
        };
        held.turns.insert(turn, entry);
    }

    pub(crate) fn of(&self, turn: TurnId, now: Timestamp) -> Option<Arc<TurnSecrets>> {
        let mut held = self.held();
        let entry = held.turns.get_mut(&turn).filter(|e| !e.closed)?;
        entry.touched = now;
        Some(entry.secrets.clone())
    }

    /// The secrets of all turns of a session that are open or have closed a moment ago.
    pub(crate) fn of_session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        now: Timestamp,
    ) -> Vec<Arc<TurnSecrets>> {
        let mut held = self.held();
        held.let_go(now, LINGER, |entry| entry.closed);
        let known = held.turns.values();
        known
            .filter(|entry| entry.session.0 == *tenant && entry.session.1 == *session)
            .map(|entry| entry.secrets.clone())
            .collect()
    }

    /// The turn has closed: its secrets are not given for it any more.
    pub(crate) fn forget(&self, turn: TurnId, now: Timestamp) {
        let mut held = self.held();
        if let Some(entry) = held.turns.get_mut(&turn) {
            (entry.closed, entry.touched) = (true, now);
        }
    }

    /// Lets go of what nobody has asked for within `timeout`.
    pub(crate) fn expire(&self, now: Timestamp, timeout: Duration) {
        let mut held = self.held();
        held.let_go(now, LINGER.min(timeout), |entry| entry.closed);
        held.let_go(now, timeout, |_| true);
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
