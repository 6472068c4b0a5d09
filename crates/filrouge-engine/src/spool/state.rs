//! The spool's state in memory: the queued entries, and what is known of sessions. An entry is identified by a pair:
//! the index of its folder in [`super::files::Files`] and its number in that folder.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use filrouge_store::CommittedWrite;
use filrouge_types::{Failure, SessionId, TenantId, Timestamp};
use tokio::task::JoinHandle;

use super::folder::{Dead, Entry};
use super::frame::Refusal;
use super::here::LocalSession;
use super::known::{Key, Known, Sessions};
use super::view::{SpoolCounts, SpoolView};

/// The task of a write that has been sent to the ledger.
pub(super) type Attempt = JoinHandle<Result<CommittedWrite, Failure>>;

/// An entry in a session's queue.
pub(super) struct QueuedEntry {
    pub(super) entry: Arc<Entry>,
    /// The index of the folder that contains the entry.
    pub(super) folder: usize,
    pub(super) since: Instant,
    /// The first try of the write, if it had not ended when the write was queued. The drain waits for its end before it
    /// sends the write again.
    pub(super) attempt: Option<Attempt>,
}

/// A dead letter in a folder of this process.
pub(super) struct Letter {
    pub(super) folder: usize,
    pub(super) key: Option<Key>,
}

/// The number and the bytes of the queued entries of one folder.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) known: Sessions,
    pub(super) queues: HashMap<Key, VecDeque<QueuedEntry>>,
    /// The rows of sessions that continue in the spool.
    pub(super) local_sessions: HashMap<Key, LocalSession>,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// The load of each folder.
    loads: HashMap<usize, Load>,
    /// For a session: its first entry, and how often the ledger failed that entry with `internal`.
    failed: HashMap<Key, ((usize, u64), u8)>,
    pub(super) dead: Vec<Letter>,
    /// Why the ledger does not answer; `None` while it does. Valid only while entries are queued: see
    /// [`Self::is_ledger_unavailable`].
    pub(super) down: Option<String>,
    pub(super) counts: SpoolCounts,
}

impl Letter {
    pub(super) fn of(folder: usize, dead: &Dead) -> Self {
        Self {
            folder,
            key: dead
                .place
                .as_ref()
                .and_then(|p| key_of(&p.tenant, &p.session)),
        }
    }
}

pub(super) fn key_of(tenant: &str, session: &str) -> Option<Key> {
    Some((TenantId::new(tenant).ok()?, SessionId::new(session).ok()?))
}

/// A refusal as the file of dead letters stores it; `letter` is the dead letter's number.
pub(super) fn refusal(letter: u64, now: Timestamp, failure: &Failure) -> Refusal {
    Refusal {
        letter,
        refused_at: now.as_micros(),
        code: failure.code.as_str().to_owned(),
        detail: failure.detail.clone(),
    }
}

impl State {
    /// Whether the ledger is known to be unavailable. Always false while nothing is queued, because then the drain does
    /// not find out when the ledger is back.
    pub(super) fn is_ledger_unavailable(&self) -> bool {
        self.down.is_some() && self.entries > 0
    }

    pub(super) fn is_queued(&self, key: &Key) -> bool {
        self.queues.contains_key(key)
    }

    pub(super) fn known(&self, key: &Key) -> Option<&Known> {
        self.known.get(key, self.is_queued(key))
    }

    pub(super) fn change(&mut self, key: &Key, change: impl FnOnce(&mut Known)) {
        self.known.change(key, change);
        let queues = &self.queues;
        self.known.trim(|key| queues.contains_key(key));
    }

    pub(super) fn push(&mut self, key: &Key, waits: QueuedEntry) {
        let bytes = waits.entry.bytes();
        self.entries += 1;
        self.bytes += bytes;
        let load = self.loads.entry(waits.folder).or_default();
        load.entries += 1;
        load.bytes += bytes;
        self.queues.entry(key.clone()).or_default().push_back(waits);
    }

    /// Whether the entry is the first one in the session's queue.
    pub(super) fn is_head(&self, key: &Key, id: (usize, u64)) -> bool {
        let first = self.queues.get(key).and_then(VecDeque::front);
        first.is_some_and(|w| (w.folder, w.entry.place.id) == id)
    }

    /// Removes the entry `id` from the session's queue if it is the first one; otherwise does nothing.
    pub(super) fn pop(&mut self, key: &Key, id: (usize, u64)) {
        if !self.is_head(key, id) {
            return;
        }
        self.failed.remove(key);
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let first = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(key);
            self.local_sessions.remove(key);
        }
        if let Some(waits) = first {
            self.unload(&waits);
        }
    }

    /// Removes all queued entries of a session, and returns their number.
    pub(super) fn remove_session(&mut self, key: &Key) -> usize {
        self.failed.remove(key);
        self.local_sessions.remove(key);
        let waits = self.queues.remove(key).unwrap_or_default();
        for waits in &waits {
            self.unload(waits);
        }
        waits.len()
    }

    fn unload(&mut self, waits: &QueuedEntry) {
        let bytes = waits.entry.bytes();
        self.entries -= 1;
        self.bytes -= bytes;
        if let Some(load) = self.loads.get_mut(&waits.folder) {
            load.entries -= 1;
            load.bytes -= bytes;
        }
    }

    /// The load of a folder.
    pub(super) fn load(&self, folder: usize) -> Load {
        self.loads.get(&folder).copied().unwrap_or_default()
    }

    /// The queued entries of a session, each with the index of its folder.
    pub(super) fn entries_of(&self, key: &Key) -> Vec<(usize, Arc<Entry>)> {
        let waits = self.queues.get(key).into_iter().flatten();
        waits.map(|w| (w.folder, w.entry.clone())).collect()
    }

    /// Counts a failure of the session's first entry `id`, and returns how many this entry has had.
    pub(super) fn count_failure(&mut self, key: &Key, id: (usize, u64)) -> u8 {
        let failed = self.failed.entry(key.clone()).or_insert((id, 0));
        if failed.0 != id {
            *failed = (id, 0);
        }
        failed.1 = failed.1.saturating_add(1);
        failed.1
    }

    /// The queued entries of a folder, in the order in which they were queued.
    pub(super) fn of_folder(&self, folder: usize) -> Vec<Arc<Entry>> {
        let waits = self.queues.values().flatten();
        let mut entries: Vec<_> = waits
            .filter(|w| w.folder == folder)
            .map(|w| w.entry.clone())
            .collect();
        entries.sort_by_key(|entry| entry.place.id);
        entries
    }

    pub(super) fn view(&self, bytes_max: u64) -> SpoolView {
        let fronts = self.queues.values().filter_map(VecDeque::front);
        SpoolView {
            entries: self.entries,
            sessions: self.queues.len() as u64,
            bytes: self.bytes,
            bytes_max,
            oldest: fronts.map(|w| w.since.elapsed()).max(),
            dead_letters: self.dead.len() as u64,
            down: self.down.clone().filter(|_| self.is_ledger_unavailable()),
            counts: self.counts,
        }
    }
}
