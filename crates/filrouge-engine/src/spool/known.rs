//! What this process knows of sessions that it has written to under a lease: enough to go on with them while the ledger does
//! not answer (DESIGN §6). Bounded: those that were used longest ago are forgotten.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{Append, Command, PutCheckpoint, Scope, SessionToken, Viewer, Write};
use filrouge_store::rows::HeadLease;
use filrouge_types::{
    Checkpoint, ItemId, RequestId, SessionId, TenantId, Turn, TurnId, TurnStatus,
};

/// A session.
pub(super) type Key = (TenantId, SessionId);

/// Most sessions that are known at once.
const SESSIONS: usize = 8_192;
/// Most bytes of their checkpoints and turns, about.
const BYTES: usize = 64 << 20;
/// Most turns that are known of a session.
const TURNS: usize = 16;
/// Most callers who are known to see a session.
const VIEWERS: usize = 8;
/// Most batches that are known of a session.
const BATCHES: usize = 64;
/// What was not seen for so long may be otherwise by now: somebody else may have gone on with the session.
const FRESH: Duration = Duration::from_secs(15 * 60);

/// A turn that this process has seen.
#[derive(Debug, Clone)]
pub(super) struct KnownTurn {
    pub(super) turn: Turn,
    /// What the request that ended it while the ledger did not answer is known by.
    pub(super) closed_by: Option<[u8; 16]>,
}

/// A session.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    viewers: VecDeque<(Viewer, Option<SessionToken>)>,
    pub(super) fence: u64,
    /// The lease, when this process gave it last: only then may it give it again.
    pub(super) held: Option<HeadLease>,
    pub(super) last_seq: u64,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) state: Option<Box<str>>,
    turns: VecDeque<KnownTurn>,
    /// When the ledger last showed that the fence is the one that holds the session.
    renewed: Option<Instant>,
    /// The batches that were queued here last, as (first item id, all of it).
    batches: VecDeque<(ItemId, [u8; 16])>,
    /// Whether the newest checkpoint covers all that was queued here.
    covers: bool,
}

/// The batch, when an item of it has an id.
fn batch_of(append: &Append) -> Option<(ItemId, [u8; 16])> {
    let items = || append.batch.entries().iter().map(|entry| &entry.item);
    let id = items().find_map(|item| item.item_id.clone())?;
    let told: Vec<String> = items().map(|item| format!("{item:?}")).collect();
    let turn = append.turn_id.to_string();
    let mut pieces = vec![turn.as_bytes()];
    for (item, told) in items().zip(&told) {
        pieces.extend([item.parts.as_str().as_bytes(), told.as_bytes()]);
    }
    Some((id, fingerprint(&pieces)))
}

impl Known {
    /// The ledger has shown that the fence holds the session.
    pub(super) fn renew(&mut self) {
        self.renewed = Some(Instant::now());
    }

    fn is_fresh(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() < FRESH)
    }

    /// A write was queued.
    pub(super) fn noted(&mut self, command: &Command) {
        match &command.write {
            Write::Append(append) => {
                self.covers = false;
                if let Some(batch) = batch_of(append) {
                    self.batches.truncate(BATCHES - 1);
                    self.batches.push_front(batch);
                }
            }
            Write::Start(_) | Write::Close(_) => self.covers = false,
            Write::PutCheckpoint(put) => self.covers = put.seq.is_none(),
            _ => {}
        }
    }

    /// Whether a batch was queued here before: the same one, or another under the same ids.
    pub(super) fn appended(&self, append: &Append) -> Option<bool> {
        let (id, body) = batch_of(append)?;
        let mut batches = self.batches.iter();
        batches.find(|(i, _)| *i == id).map(|(_, b)| *b == body)
    }

    /// The checkpoint that this one would repeat.
    pub(super) fn repeats(&self, put: &PutCheckpoint) -> Option<&Checkpoint> {
        let newest = self.checkpoint.as_ref()?;
        let same = newest.label == put.label && newest.state == put.state;
        let there = match put.seq {
            None => self.covers,
            Some(seq) => seq == newest.seq,
        };
        (same && there).then_some(newest)
    }

    /// Whether the ledger has shown the session to this viewer.
    pub(super) fn sees(&self, scope: &Scope) -> bool {
        let mut viewers = self.viewers.iter();
        viewers.any(|(viewer, token)| *viewer == scope.viewer && *token == scope.token)
    }

    pub(super) fn saw(&mut self, scope: &Scope) {
        if self.sees(scope) {
            return;
        }
        self.viewers.truncate(VIEWERS - 1);
        self.viewers.push_front((scope.viewer.clone(), scope.token));
    }

    pub(super) fn turn(&self, id: TurnId) -> Option<&KnownTurn> {
        self.turns.iter().find(|known| known.turn.turn_id == id)
    }

    pub(super) fn turn_of(&self, request: &RequestId) -> Option<&KnownTurn> {
        let mut turns = self.turns.iter();
        turns.find(|known| known.turn.request_id == *request)
    }

    pub(super) fn put_turn(&mut self, turn: Turn, closed_by: Option<[u8; 16]>) {
        self.turns.retain(|k| k.turn.turn_id != turn.turn_id);
        self.turns.truncate(TURNS - 1);
        self.turns.push_front(KnownTurn { turn, closed_by });
    }

    /// Somebody else has written to the session, and may have redacted what was said: of its turns stays that they are open.
    pub(super) fn others_wrote(&mut self) {
        self.turns.retain(|k| k.turn.status == TurnStatus::Open);
        for known in &mut self.turns {
            let turn = &mut known.turn;
            turn.question_neutral = None;
            turn.question_translated = None;
            turn.answer_neutral = None;
            turn.answer_translated = None;
        }
    }

    pub(super) fn forget_turns(&mut self) {
        self.turns.clear();
    }

    pub(super) fn turns(&self) -> Vec<Turn> {
        let turns = self.turns.iter();
        turns.map(|known| known.turn.clone()).collect()
    }

    fn bytes(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref();
        let texts = |turn: &Turn| {
            let texts = [
                &turn.question_neutral,
                &turn.question_translated,
                &turn.answer_neutral,
                &turn.answer_translated,
            ];
            let texts = texts.into_iter().flatten().map(|t| t.as_token().len());
            texts.sum::<usize>() + turn.metadata.as_str().len() + 256
        };
        let turns: usize = self.turns.iter().map(|known| texts(&known.turn)).sum();
        let batches: usize = self
            .batches
            .iter()
            .map(|(id, _)| id.as_str().len() + 64)
            .sum();
        checkpoint.map_or(0, |c| c.state.as_str().len()) + turns + batches + 256
    }
}

struct Slot {
    known: Known,
    used: u64,
    bytes: usize,
}

/// The sessions.
#[derive(Default)]
pub(super) struct Sessions {
    slots: HashMap<Key, Slot>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
}

impl Sessions {
    /// What is known of a session; nothing that is older than what may be relied on, unless it is `kept` because writes of it
    /// wait here.
    pub(super) fn get(&self, key: &Key, kept: bool) -> Option<&Known> {
        let slot = self.slots.get(key)?;
        (kept || slot.known.is_fresh()).then_some(&slot.known)
    }

    /// Changes what is known.
    pub(super) fn change(&mut self, key: &Key, change: impl FnOnce(&mut Known)) {
        let mut known = self.forget(key).unwrap_or_default();
        change(&mut known);
        self.uses += 1;
        let bytes = known.bytes();
        self.bytes += bytes;
        self.by_use.insert(self.uses, key.clone());
        let slot = Slot {
            known,
            used: self.uses,
            bytes,
        };
        self.slots.insert(key.clone(), slot);
    }

    pub(super) fn forget(&mut self, key: &Key) -> Option<Known> {
        let slot = self.slots.remove(key)?;
        self.by_use.remove(&slot.used);
        self.bytes -= slot.bytes;
        Some(slot.known)
    }

    /// Forgets those that were used longest ago, but for those that are `kept`.
    pub(super) fn trim(&mut self, kept: impl Fn(&Key) -> bool) {
        if self.slots.len() <= SESSIONS && self.bytes <= BYTES {
            return;
        }
        let oldest: Vec<Key> = self.by_use.values().filter(|k| !kept(k)).cloned().collect();
        for key in oldest {
            if self.slots.len() <= SESSIONS / 2 && self.bytes <= BYTES / 2 {
                break;
            }
            self.forget(&key);
        }
    }
}
