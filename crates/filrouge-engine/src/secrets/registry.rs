//! The known secrets (values of `runtime_context`) of open turns, in bounded memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_types::{SessionId, TenantId, Timestamp, TurnId};

use super::turn::TurnSecrets;

/// The maximum number of turns whose secrets are kept.
const TURNS_MAX: usize = 10_000;
/// The maximum memory of these secrets in bytes.
const BYTES_MAX: usize = 64 << 20;

/// The time for which a turn's secrets are kept after the turn has closed, so that they are masked in a checkpoint that
/// the application writes after the answer.
const LINGER: Duration = Duration::from_secs(60);

/// The session of a turn.
type Owner = (TenantId, SessionId);

struct Entry {
    session: Owner,
    secrets: Arc<TurnSecrets>,
    touched: Timestamp,
    /// Whether the turn has closed.
    closed: bool,
}

#[derive(Default)]
struct Held {
    turns: HashMap<TurnId, Entry>,
    bytes: usize,
}

/// The secrets of each turn. An entry is kept for [`LINGER`] after its turn has closed. Without a close it is kept
/// until it has been unused for the timeout of a turn.
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

    /// Drops the entries for which `applies` returns true, and which have not been used for `time`.
    fn drop_unused(&mut self, now: Timestamp, time: Duration, applies: impl Fn(&Entry) -> bool) {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let before = now.as_micros().saturating_sub(time);
        let entries = self.turns.iter();
        let unused: Vec<TurnId> = entries
            .filter(|(_, e)| applies(e) && e.touched.as_micros() < before)
            .map(|(turn, _)| *turn)
            .collect();
        for turn in unused {
            self.remove(turn);
        }
    }

    /// The entry to evict first, and whether its turn has closed: the longest unused of closed turns, or else of open
    /// turns.
    fn oldest(&self) -> Option<(TurnId, bool)> {
        let turns = self.turns.iter();
        let oldest = turns.min_by_key(|(_, e)| (!e.closed, e.touched));
        oldest.map(|(turn, entry)| (*turn, entry.closed))
    }
}

impl Registry {
    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic leaves the map consistent: each change is complete before anything can fail.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a turn's secrets. If there is no room, evicts other entries; evicted ones of open turns are counted in
    /// [`Self::lost`], as are values of this turn that cannot be masked.
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

    pub(crate) fn of_turn(&self, turn: TurnId, now: Timestamp) -> Option<Arc<TurnSecrets>> {
        let mut held = self.held();
        let entry = held.turns.get_mut(&turn).filter(|e| !e.closed)?;
        entry.touched = now;
        Some(entry.secrets.clone())
    }

    /// The secrets of those turns of a session that are open, or that have closed recently.
    pub(crate) fn of_session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        now: Timestamp,
    ) -> Vec<Arc<TurnSecrets>> {
        let mut held = self.held();
        held.drop_unused(now, LINGER, |entry| entry.closed);
        let entries = held.turns.values();
        entries
            .filter(|entry| entry.session.0 == *tenant && entry.session.1 == *session)
            .map(|entry| entry.secrets.clone())
            .collect()
    }

    /// Marks a turn as closed: [`Self::of_turn`] returns its secrets no more, [`Self::of_session`] does for a while.
    pub(crate) fn forget(&self, turn: TurnId, now: Timestamp) {
        let mut held = self.held();
        if let Some(entry) = held.turns.get_mut(&turn) {
            (entry.closed, entry.touched) = (true, now);
        }
    }

    /// Drops entries that were not used within `timeout`, or within [`LINGER`] if their turn has closed. The sweep
    /// calls it.
    pub(crate) fn expire(&self, now: Timestamp, timeout: Duration) {
        let mut held = self.held();
        held.drop_unused(now, LINGER.min(timeout), |entry| entry.closed);
        held.drop_unused(now, timeout, |_| true);
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
