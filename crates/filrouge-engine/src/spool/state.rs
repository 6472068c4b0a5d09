//! What waits, and what is known, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use filrouge_store::Stored;
use filrouge_types::{Failure, SessionId, TenantId, Timestamp};
use tokio::task::JoinHandle;

use super::folder::{Dead, Entry};
use super::frame::Refusal;
use super::here::Here;
use super::known::{Key, Known, Sessions};
use super::view::{SpoolCounts, SpoolView};

/// A write that is under way at the ledger.
pub(super) type Attempt = JoinHandle<Result<Stored, Failure>>;

/// An entry that waits.
pub(super) struct Waits {
    pub(super) entry: Arc<Entry>,
    /// Whose file it is in.
    pub(super) folder: usize,
    pub(super) since: Instant,
    /// The try that took too long: how it ends is waited for before the next one.
    pub(super) attempt: Option<Attempt>,
}

/// A dead letter of this process.
pub(super) struct Letter {
    pub(super) folder: usize,
    pub(super) key: Option<Key>,
}

/// What waits in a folder.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) known: Sessions,
    pub(super) queues: HashMap<Key, VecDeque<Waits>>,
    /// Sessions that go on here.
    pub(super) here: HashMap<Key, Here>,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// What waits in each folder.
    loads: HashMap<usize, Load>,
    /// How often the first write of a session has failed without a reason.
    failed: HashMap<Key, ((usize, u64), u8)>,
    pub(super) dead: Vec<Letter>,
    /// Why the ledger does not answer.
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

/// A refusal as it is kept.
pub(super) fn refusal(letter: u64, now: Timestamp, failure: &Failure) -> Refusal {
    Refusal {
        letter,
        refused_at: now.as_micros(),
        code: failure.code.as_str().to_owned(),
        detail: failure.detail.clone(),
    }
}

impl State {
    /// Whether the ledger is known not to answer: something waits that asks it again and again.
    pub(super) fn is_down(&self) -> bool {
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

    pub(super) fn push(&mut self, key: &Key, waits: Waits) {
        let bytes = waits.entry.bytes();
        self.entries += 1;
        self.bytes += bytes;
        let load = self.loads.entry(waits.folder).or_default();
        load.entries += 1;
        load.bytes += bytes;
        self.queues.entry(key.clone()).or_default().push_back(waits);
    }

    /// Whether it is the first entry of a session.
    pub(super) fn is_head(&self, key: &Key, id: (usize, u64)) -> bool {
        let first = self.queues.get(key).and_then(VecDeque::front);
        first.is_some_and(|w| (w.folder, w.entry.place.id) == id)
    }

    /// Takes the first entry of a session away, if it is this one.
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
            self.here.remove(key);
        }
        if let Some(waits) = first {
            self.unload(&waits);
        }
    }

    /// Takes all entries of a session away; how many.
    pub(super) fn take_out(&mut self, key: &Key) -> usize {
        self.failed.remove(key);
        self.here.remove(key);
        let waits = self.queues.remove(key).unwrap_or_default();
        for waits in &waits {
            self.unload(waits);
        }
        waits.len()
    }

    fn unload(&mut self, waits: &Waits) {
        let bytes = waits.entry.bytes();
        self.entries -= 1;
        self.bytes -= bytes;
        if let Some(load) = self.loads.get_mut(&waits.folder) {
            load.entries -= 1;
            load.bytes -= bytes;
        }
    }

    /// What waits in a folder.
    pub(super) fn load(&self, folder: usize) -> Load {
        self.loads.get(&folder).copied().unwrap_or_default()
    }

    /// The entries of a session, and whose file they are in.
    pub(super) fn waits_of(&self, key: &Key) -> Vec<(usize, Arc<Entry>)> {
        let waits = self.queues.get(key).into_iter().flatten();
        waits.map(|w| (w.folder, w.entry.clone())).collect()
    }

    /// Counts a failure of the first entry of a session; how many it has had.
    pub(super) fn has_failed(&mut self, key: &Key, id: (usize, u64)) -> u8 {
        let failed = self.failed.entry(key.clone()).or_insert((id, 0));
        if failed.0 != id {
            *failed = (id, 0);
        }
        failed.1 = failed.1.saturating_add(1);
        failed.1
    }

    /// The entries of a folder that still wait, as they were queued.
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
            down: self.down.clone().filter(|_| self.is_down()),
            counts: self.counts,
        }
    }
}
