//! The spool's state in memory: the queued entries, and the known state of sessions. An entry is identified by a pair:
//! the index of its folder in [`super::files::Files`] and its number in that folder.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use filrouge_store::CommittedWrite;
use filrouge_types::{Failure, SessionId, TenantId, Timestamp};
use tokio::task::JoinHandle;

use super::folder::{DeadLetter, Entry};
use super::frame::DeadLetterReason;
use super::known::{KnownSession, KnownSessions, SessionKey};
use super::local_session::LocalSession;
use super::view::{SpoolCounts, SpoolView};

/// The task of a write that has been sent to the ledger.
pub(super) type Attempt = JoinHandle<Result<CommittedWrite, Failure>>;

/// An entry in a session's queue.
pub(super) struct QueuedEntry {
    pub(super) entry: Arc<Entry>,
    /// The index of the folder that contains the entry.
    pub(super) folder: usize,
    /// When the entry was queued.
    pub(super) since: Instant,
    /// The first attempt of the write, if it had not ended when the write was queued. The drain waits for its end
    /// before it sends the write again.
    pub(super) attempt: Option<Attempt>,
}

/// A dead letter in a folder of this process.
pub(super) struct DeadLetterLocation {
    pub(super) folder: usize,
    pub(super) key: Option<SessionKey>,
}

/// The number of queued entries of one folder, and of their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FolderLoad {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// The spool's state in memory.
#[derive(Default)]
pub(super) struct State {
    pub(super) known: KnownSessions,
    pub(super) queues: HashMap<SessionKey, VecDeque<QueuedEntry>>,
    /// The rows of sessions that continue in the spool.
    pub(super) local_sessions: HashMap<SessionKey, LocalSession>,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// The load of each folder.
    loads: HashMap<usize, FolderLoad>,
    /// For each session, its first entry and the number of failures of that entry with `internal`.
    internal_failures: HashMap<SessionKey, ((usize, u64), u8)>,
    pub(super) dead: Vec<DeadLetterLocation>,
    /// Why the ledger does not answer; `None` while it does. Valid only while entries are queued: see
    /// [`Self::is_ledger_unavailable`].
    pub(super) down: Option<String>,
    pub(super) counts: SpoolCounts,
}

impl DeadLetterLocation {
    pub(super) fn new(folder: usize, letter: &DeadLetter) -> Self {
        Self {
            folder,
            key: letter
                .info
                .as_ref()
                .and_then(|p| key_of(&p.tenant, &p.session)),
        }
    }
}

pub(super) fn key_of(tenant: &str, session: &str) -> Option<SessionKey> {
    Some((TenantId::new(tenant).ok()?, SessionId::new(session).ok()?))
}

/// A refusal as the file of dead letters stores it; `letter` is the dead letter's number.
pub(super) fn refusal(letter: u64, now: Timestamp, failure: &Failure) -> DeadLetterReason {
    DeadLetterReason {
        letter,
        refused_at: now.as_micros(),
        code: failure.code.as_str().to_owned(),
        detail: failure.detail.clone(),
    }
}

impl State {
    /// Whether the ledger is known to be unavailable. Always false while nothing is queued, because the drain then does
    /// not probe whether the ledger is back.
    pub(super) fn is_ledger_unavailable(&self) -> bool {
        self.down.is_some() && self.entries > 0
    }

    pub(super) fn is_queued(&self, key: &SessionKey) -> bool {
        self.queues.contains_key(key)
    }

    pub(super) fn known(&self, key: &SessionKey) -> Option<&KnownSession> {
        self.known.get(key, self.is_queued(key))
    }

    pub(super) fn change(&mut self, key: &SessionKey, change: impl FnOnce(&mut KnownSession)) {
        self.known.change(key, change);
        let queues = &self.queues;
        self.known.evict(|key| queues.contains_key(key));
    }

    pub(super) fn push(&mut self, key: &SessionKey, queued: QueuedEntry) {
        let bytes = queued.entry.bytes();
        self.entries += 1;
        self.bytes += bytes;
        let load = self.loads.entry(queued.folder).or_default();
        load.entries += 1;
        load.bytes += bytes;
        self.queues
            .entry(key.clone())
            .or_default()
            .push_back(queued);
    }

    /// Whether the entry is the first one in the session's queue.
    pub(super) fn is_first(&self, key: &SessionKey, id: (usize, u64)) -> bool {
        let first = self.queues.get(key).and_then(VecDeque::front);
        first.is_some_and(|w| (w.folder, w.entry.info.id) == id)
    }

    /// Removes the entry `id` from the session's queue if it is the first one; otherwise does nothing.
    pub(super) fn pop(&mut self, key: &SessionKey, id: (usize, u64)) {
        if !self.is_first(key, id) {
            return;
        }
        self.internal_failures.remove(key);
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let first = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(key);
            self.local_sessions.remove(key);
        }
        if let Some(queued) = first {
            self.subtract_load(&queued);
        }
    }

    /// Removes all queued entries of a session, and returns their number.
    pub(super) fn remove_session(&mut self, key: &SessionKey) -> usize {
        self.internal_failures.remove(key);
        self.local_sessions.remove(key);
        let removed = self.queues.remove(key).unwrap_or_default();
        for queued in &removed {
            self.subtract_load(queued);
        }
        removed.len()
    }

    fn subtract_load(&mut self, queued: &QueuedEntry) {
        let bytes = queued.entry.bytes();
        self.entries -= 1;
        self.bytes -= bytes;
        if let Some(load) = self.loads.get_mut(&queued.folder) {
            load.entries -= 1;
            load.bytes -= bytes;
        }
    }

    /// The load of a folder.
    pub(super) fn load(&self, folder: usize) -> FolderLoad {
        self.loads.get(&folder).copied().unwrap_or_default()
    }

    /// The queued entries of a session, each with the index of its folder.
    pub(super) fn entries_of(&self, key: &SessionKey) -> Vec<(usize, Arc<Entry>)> {
        let queued = self.queues.get(key).into_iter().flatten();
        queued.map(|w| (w.folder, w.entry.clone())).collect()
    }

    /// Counts a failure of the session's first entry `id`, and returns the number of its failures.
    pub(super) fn count_failure(&mut self, key: &SessionKey, id: (usize, u64)) -> u8 {
        let (failed_id, count) = self.internal_failures.entry(key.clone()).or_insert((id, 0));
        if *failed_id != id {
            (*failed_id, *count) = (id, 0);
        }
        *count = count.saturating_add(1);
        *count
    }

    /// The queued entries of a folder, in the order in which they were queued.
    pub(super) fn entries_of_folder(&self, folder: usize) -> Vec<Arc<Entry>> {
        let queued = self.queues.values().flatten();
        let mut entries: Vec<_> = queued
            .filter(|w| w.folder == folder)
            .map(|w| w.entry.clone())
            .collect();
        entries.sort_by_key(|entry| entry.info.id);
        entries
    }

    pub(super) fn view(&self, bytes_max: u64) -> SpoolView {
        let first_entries = self.queues.values().filter_map(VecDeque::front);
        SpoolView {
            entries: self.entries,
            sessions: self.queues.len() as u64,
            bytes: self.bytes,
            bytes_max,
            oldest: first_entries.map(|w| w.since.elapsed()).max(),
            dead_letters: self.dead.len() as u64,
            down: self.down.clone().filter(|_| self.is_ledger_unavailable()),
            counts: self.counts,
        }
    }
}
