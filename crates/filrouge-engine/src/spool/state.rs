//! What waits, and what is known, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::rows::HeadLease;
use filrouge_store::{Entropy, Keyring, Stored};
use filrouge_types::{Checkpoint, Failure, Item, SessionId, TenantId, Timestamp};
use tokio::task::JoinHandle;

use super::folder::{Dead, Entry};
use super::frame::Refusal;
use super::known::{Key, Known, Sessions};
use super::provisional;
use super::view::{SpoolCounts, SpoolView, Waiting};

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
        }
        if let Some(waits) = first {
            self.unload(&waits);
        }
    }

    /// Takes all entries of a session away; how many.
    pub(super) fn take_out(&mut self, key: &Key) -> usize {
        self.failed.remove(key);
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

    /// The session as it is known here, without its contents.
    pub(super) fn waiting(&self, key: &Key, now: Timestamp) -> Option<Waiting> {
        let queue = self.queues.get(key)?;
        let known = self.known(key)?;
        let held = known.held.clone().unwrap_or(HeadLease {
            fence: known.fence,
            ..HeadLease::default()
        });
        Some(Waiting {
            lease: held.shown(now),
            checkpoint: None,
            items: Vec::new(),
            trimmed: false,
            turns: known.turns(),
            last_seq: known.last_seq,
            state: known.state.clone(),
            entries: queue.len() as u64,
            down: self.is_down(),
        })
    }

    /// The writes of a session that wait, oldest first, without leases.
    pub(super) fn writes_of(&self, key: &Key) -> Vec<Arc<Entry>> {
        let waits = self.queues.get(key).into_iter().flatten();
        let writes = waits.filter(|w| w.entry.lease.is_none());
        writes.map(|w| w.entry.clone()).collect()
    }
}

/// The newest items of these writes, oldest first, `most` at most; and whether there are more. None from before a checkpoint
/// that covers them.
pub(super) fn tail(
    writes: &[Arc<Entry>],
    most: usize,
    keyring: &Keyring,
    entropy: &dyn Entropy,
) -> (Vec<Item>, bool) {
    let mut newest_first = Vec::new();
    for entry in writes.iter().rev() {
        let Ok(command) = Command::decode(&entry.body, entropy) else {
            continue;
        };
        if let filrouge_store::command::Write::PutCheckpoint(put) = &command.write
            && put.seq.is_none()
        {
            break;
        }
        let at = Timestamp::from_micros(entry.place.at);
        newest_first.extend(provisional::items(&command, keyring, at).into_iter().rev());
        if newest_first.len() > most {
            break;
        }
    }
    let trimmed = newest_first.len() > most;
    newest_first.truncate(most);
    newest_first.reverse();
    (newest_first, trimmed)
}

impl Known {
    /// What a write tells that was answered, by the ledger or here.
    pub(super) fn learn(&mut self, command: &Command, outcome: &Outcome, now: Timestamp) {
        use filrouge_store::command::{LeaseAsk, Write};
        self.saw(&command.scope);
        if let Some(hold) = command.scope.hold {
            // A repeated answer is given under any fence.
            if Self::is_held_by(command, outcome) && hold.fence > self.fence {
                *self = std::mem::take(self).elsewhere();
                self.fence = hold.fence;
            }
            if hold.release && hold.fence == self.fence {
                self.give_free(now);
            }
        }
        match outcome {
            Outcome::Lease { lease, .. } => {
                let released = matches!(&command.write,
                    Write::Lease(take) if matches!(take.ask, LeaseAsk::Release { .. }));
                // An answer that comes late tells nothing any more.
                if lease.fence < self.fence {
                    return;
                }
                if lease.fence > self.fence + 1 {
                    // Somebody else has gone on with it in between.
                    *self = std::mem::take(self).elsewhere();
                }
                let ours = !released || self.held.is_some();
                self.fence = lease.fence;
                self.held = ours.then(|| HeadLease {
                    fence: lease.fence,
                    holder: lease.holder.clone().unwrap_or_default(),
                    expires_at: lease.expires_at.unwrap_or(now),
                    ..HeadLease::default()
                });
            }
            Outcome::Turn(turn, put) => {
                self.last_seq = placed(put.as_ref().map(|p| p.last_seq)).unwrap_or(self.last_seq);
                let closed_by = match &command.write {
                    Write::Close(close) => Some(close.fingerprint),
                    _ => None,
                };
                self.put_turn((**turn).clone(), closed_by);
            }
            Outcome::Appended { last_seq, .. } => {
                self.last_seq = placed(Some(*last_seq)).unwrap_or(self.last_seq);
            }
            Outcome::Checkpoint {
                checkpoint,
                last_seq,
                ..
            } => {
                self.last_seq = *last_seq;
                self.put_checkpoint(checkpoint);
            }
            _ => {}
        }
    }

    /// What the ledger has answered to a write that waited. Who holds the session is known better here.
    pub(super) fn drained(&mut self, command: &Command, outcome: &Outcome) {
        match outcome {
            Outcome::Turn(turn, put) => {
                self.last_seq = placed(put.as_ref().map(|p| p.last_seq)).unwrap_or(self.last_seq);
                // Unless it has ended here meanwhile.
                let ended = self
                    .turn(turn.turn_id)
                    .is_some_and(|k| k.closed_by.is_some());
                if turn.status.is_closed() || !ended {
                    let closed_by = self.turn(turn.turn_id).and_then(|k| k.closed_by);
                    self.put_turn((**turn).clone(), closed_by);
                }
            }
            Outcome::Appended { last_seq, .. } => self.last_seq = *last_seq,
            Outcome::Checkpoint {
                checkpoint,
                last_seq,
                ..
            } => {
                self.last_seq = *last_seq;
                let same = self
                    .checkpoint
                    .as_ref()
                    .is_none_or(|c| c.label == checkpoint.label && c.state == checkpoint.state);
                if same {
                    self.checkpoint = Some((**checkpoint).clone());
                }
            }
            _ => {}
        }
        self.saw(&command.scope);
        if Self::is_held_by(command, outcome) {
            self.renew();
        }
    }

    /// Whether the answer says that the session is held under the fence of the write.
    pub(super) fn is_held_by(command: &Command, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Lease { lease, .. } => lease.holder.is_some(),
            Outcome::Turn(_, put) => put.is_some() && command.scope.hold.is_some(),
            Outcome::Appended { replayed, .. } => !replayed && command.scope.hold.is_some(),
            Outcome::Checkpoint { created, .. } => *created && command.scope.hold.is_some(),
            _ => false,
        }
    }

    /// Nobody holds the session any more.
    pub(super) fn give_free(&mut self, now: Timestamp) {
        if let Some(held) = &mut self.held {
            held.holder = Box::default();
            held.expires_at = now;
        }
    }

    /// The newest checkpoint is the one that covers most; one without a seq covers all that is there.
    fn put_checkpoint(&mut self, checkpoint: &Checkpoint) {
        let newest = self.checkpoint.as_ref().map_or(0, |c| c.seq);
        if checkpoint.seq >= newest || newest == filrouge_types::UNPLACED {
            self.checkpoint = Some(checkpoint.clone());
            if checkpoint.label.is_some() {
                self.state = checkpoint.label.clone();
            }
        }
    }

    /// The session without what somebody else may have changed.
    fn elsewhere(mut self) -> Self {
        self.held = None;
        self.checkpoint = None;
        self.state = None;
        self.forget_turns();
        self
    }
}

fn placed(seq: Option<u64>) -> Option<u64> {
    seq.filter(|seq| *seq != filrouge_types::UNPLACED)
}
