//! The known secrets (values of `runtime_context`) of open turns, in bounded memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_types::{SessionId, TenantId, Timestamp, TurnId, lock};

use super::turn::TurnSecrets;

/// The maximum number of turns whose secrets are kept.
const TURNS_MAX: usize = 10_000;
/// The maximum memory of these secrets in bytes.
const BYTES_MAX: usize = 64 << 20;

/// The time for which a turn's secrets are kept after the turn has closed, so that they are masked in a checkpoint that
/// the application writes after the answer.
const KEPT_AFTER_CLOSE: Duration = Duration::from_secs(60);

/// The session of a turn.
type TurnSession = (TenantId, SessionId);

struct Entry {
    session: TurnSession,
    secrets: Arc<TurnSecrets>,
    last_used: Timestamp,
    /// Whether the turn has closed.
    closed: bool,
}

/// The entries, and the memory of their secrets.
#[derive(Default)]
struct Entries {
    turns: HashMap<TurnId, Entry>,
    bytes: usize,
}

/// The secrets of each turn. An entry is kept for [`KEPT_AFTER_CLOSE`] after its turn has closed. Without a close it is
/// kept until it has been unused for the timeout of a turn.
#[derive(Default)]
pub(crate) struct Registry {
    entries: Mutex<Entries>,
    lost: AtomicU64,
}

impl Entries {
    fn remove(&mut self, turn: TurnId) {
        if let Some(entry) = self.turns.remove(&turn) {
            self.bytes -= entry.secrets.memory();
        }
    }

    /// Drops the entries for which `applies` returns true, and which have not been used for `time`.
    fn drop_unused(&mut self, now: Timestamp, time: Duration, applies: impl Fn(&Entry) -> bool) {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let before = now.as_micros().saturating_sub(time);
        let is_unused = |e: &Entry| applies(e) && e.last_used.as_micros() < before;
        let unused = self.turns.extract_if(|_, entry| is_unused(entry));
        self.bytes -= unused.map(|(_, e)| e.secrets.memory()).sum::<usize>();
    }

    /// The entry to evict first, and whether its turn has closed: the longest unused of closed turns, or else of open
    /// turns.
    fn eviction_candidate(&self) -> Option<(TurnId, bool)> {
        let turns = self.turns.iter();
        let candidate = turns.min_by_key(|(_, e)| (!e.closed, e.last_used));
        candidate.map(|(turn, entry)| (*turn, entry.closed))
    }
}

impl Registry {
    /// Adds a turn's secrets. If there is no room, evicts other entries. [`Self::lost`] counts evicted entries of open
    /// turns, and values of this turn that cannot be masked.
    pub(crate) fn insert(
        &self,
        (session, turn): (TurnSession, TurnId),
        secrets: Arc<TurnSecrets>,
        now: Timestamp,
    ) {
        let lost = secrets.lost();
        if lost > 0 {
            self.lost.fetch_add(lost, Ordering::Relaxed);
            tracing::warn!(turn_id = %turn, lost, "values of runtime_context are too long or too many to be masked");
        }
        let mut entries = lock(&self.entries);
        entries.remove(turn);
        let memory = secrets.memory();
        while entries.turns.len() >= TURNS_MAX || entries.bytes + memory > BYTES_MAX {
            let Some((candidate, closed)) = entries.eviction_candidate() else {
                break;
            };
            entries.remove(candidate);
            if closed {
                continue;
            }
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(turn_id = %candidate, "a turn's runtime_context is masked no longer: too many turns are open");
        }
        entries.bytes += memory;
        let entry = Entry {
            session,
            secrets,
            last_used: now,
            closed: false,
        };
        entries.turns.insert(turn, entry);
    }

    /// The secrets of an open turn.
    pub(crate) fn secrets_of_turn(&self, turn: TurnId, now: Timestamp) -> Option<Arc<TurnSecrets>> {
        let mut entries = lock(&self.entries);
        let entry = entries.turns.get_mut(&turn).filter(|e| !e.closed)?;
        entry.last_used = now;
        Some(entry.secrets.clone())
    }

    /// The secrets of those turns of a session that are open, or that have closed recently.
    pub(crate) fn secrets_of_session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        now: Timestamp,
    ) -> Vec<Arc<TurnSecrets>> {
        let mut entries = lock(&self.entries);
        entries.drop_unused(now, KEPT_AFTER_CLOSE, |entry| entry.closed);
        let entries = entries.turns.values();
        entries
            .filter(|entry| entry.session.0 == *tenant && entry.session.1 == *session)
            .map(|entry| entry.secrets.clone())
            .collect()
    }

    /// Marks a turn as closed: [`Self::secrets_of_turn`] no longer returns its secrets; [`Self::secrets_of_session`]
    /// does for [`KEPT_AFTER_CLOSE`].
    pub(crate) fn mark_closed(&self, turn: TurnId, now: Timestamp) {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.turns.get_mut(&turn) {
            (entry.closed, entry.last_used) = (true, now);
        }
    }

    /// Drops entries that were not used within `timeout`, or within [`KEPT_AFTER_CLOSE`] if their turn has closed. The
    /// sweep calls it.
    pub(crate) fn expire(&self, now: Timestamp, timeout: Duration) {
        let mut entries = lock(&self.entries);
        entries.drop_unused(now, KEPT_AFTER_CLOSE.min(timeout), |entry| entry.closed);
        entries.drop_unused(now, timeout, |_| true);
    }

    /// The number of evicted entries of open turns and of values that could not be masked, since this process started.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
