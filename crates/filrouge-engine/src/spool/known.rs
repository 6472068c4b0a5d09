//! What this process knows of sessions that it has written to under a lease: enough to go on with them while the ledger does
//! not answer (DESIGN §6). Bounded: those that were used longest ago are forgotten.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::Entropy;
use filrouge_store::command::{Command, LeaseAsk, Outcome, Scope, SessionToken, Viewer, Write};
use filrouge_store::record::{Batch, Entry};
use filrouge_store::rows::HeadLease;
use filrouge_types::{
    Channel, Checkpoint, RawJson, SessionId, TenantId, Timestamp, Turn, TurnId, TurnStatus,
};
use hashlink::LinkedHashMap;

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
/// What was not seen for so long may be otherwise by now: somebody else may have gone on with the session.
const FRESH: Duration = Duration::from_secs(15 * 60);

/// A turn that this process has begun or ended: its place in the ledger, and the writes that make it.
#[derive(Debug, Clone)]
pub(super) struct KnownTurn {
    id: TurnId,
    pub(super) status: TurnStatus,
    pub(super) ordinal: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    /// Its start, its end and the answers in between, each with its time.
    writes: Vec<(Timestamp, Vec<u8>)>,
}

/// A session.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    viewers: VecDeque<(Viewer, Option<SessionToken>)>,
    /// The newest lease; but for its fence it is known when it is `owned`.
    pub(super) lease: HeadLease,
    /// Whether this process has given the lease: only then may it give it again.
    pub(super) owned: bool,
    pub(super) last_seq: u64,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) state: Option<Box<str>>,
    turns: VecDeque<KnownTurn>,
    /// When the ledger last showed that the fence is the one that holds the session.
    renewed: Option<Instant>,
}

impl Known {
    /// The ledger has shown that the fence holds the session.
    pub(super) fn renew(&mut self) {
        self.renewed = Some(Instant::now());
    }

    fn is_fresh(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() < FRESH)
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
        self.turns.iter().find(|known| known.id == id)
    }

    /// The writes that make the known turns, the oldest turn first.
    pub(super) fn writes(&self) -> impl Iterator<Item = &(Timestamp, Vec<u8>)> {
        self.turns.iter().rev().flat_map(|known| &known.writes)
    }

    /// What the ledger's answer to a write shows.
    pub(super) fn learn(&mut self, command: &Command, outcome: &Outcome, now: Timestamp) {
        self.saw(&command.scope);
        let holds = Self::is_held_by(command, outcome);
        if let Some(hold) = command.scope.hold {
            // A repeated answer is given under any fence.
            if holds && hold.fence > self.lease.fence {
                self.elsewhere();
                self.lease.fence = hold.fence;
            }
            if hold.release && hold.fence == self.lease.fence {
                self.lease.holder = Box::default();
                self.lease.expires_at = now;
            }
        }
        match outcome {
            // An answer that comes late shows nothing any more.
            Outcome::Lease { lease, .. } if lease.fence >= self.lease.fence => {
                if lease.fence > self.lease.fence + 1 {
                    // Somebody else has gone on with it in between.
                    self.elsewhere();
                }
                let released = matches!(&command.write,
                    Write::Lease(take) if matches!(take.ask, LeaseAsk::Release { .. }));
                self.owned |= !released;
                self.lease = HeadLease {
                    fence: lease.fence,
                    holder: lease.holder.clone().unwrap_or_default(),
                    expires_at: lease.expires_at.unwrap_or(now),
                    ..HeadLease::default()
                };
            }
            Outcome::Turn(turn, put) => {
                self.last_seq = put.as_ref().map_or(self.last_seq, |put| put.last_seq);
                self.learn_turn(command, turn);
            }
            Outcome::Appended { last_seq, .. } => {
                self.last_seq = *last_seq;
                self.learn_answer(command, now);
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
        if holds {
            self.renew();
        }
    }

    fn learn_turn(&mut self, command: &Command, turn: &Turn) {
        let found = self.turns.iter().position(|k| k.id == turn.turn_id);
        let begins = matches!(command.write, Write::Start(_));
        let known = found.and_then(|at| self.turns.remove(at));
        // Of one that was begun elsewhere and has ended nobody knows how.
        let fresh = begins && !(turn.replayed && turn.status.is_closed());
        let Some(mut known) = known.or_else(|| fresh.then(|| KnownTurn::of(turn))) else {
            return;
        };
        let is_new = known.writes.is_empty() || !begins && !known.status.is_closed();
        if is_new && let Some(body) = command.encode() {
            let at = turn.finalized_at.filter(|_| !begins);
            known.writes.push((at.unwrap_or(turn.created_at), body));
        }
        known.status = turn.status;
        known.last_seq = turn.last_seq;
        self.turns.truncate(TURNS - 1);
        self.turns.push_front(known);
    }

    /// An answer that was appended before the turn's end: that may rely on it.
    fn learn_answer(&mut self, command: &Command, now: Timestamp) {
        let Write::Append(append) = &command.write else {
            return;
        };
        let mut items = append.batch.items();
        let answers = items.any(|item| item.channel == Channel::Final);
        let mut turns = self.turns.iter_mut();
        if answers
            && let Some(known) = turns.find(|k| k.id == append.turn_id)
            && let Some(body) = command.encode()
        {
            known.writes.push((now, body));
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

    /// The newest checkpoint is the one that covers most.
    fn put_checkpoint(&mut self, checkpoint: &Checkpoint) {
        if self
            .checkpoint
            .as_ref()
            .is_none_or(|c| checkpoint.seq >= c.seq)
        {
            self.checkpoint = Some(checkpoint.clone());
            if checkpoint.label.is_some() {
                self.state = checkpoint.label.clone();
            }
        }
    }

    /// Forgets what somebody else may have changed.
    fn elsewhere(&mut self) {
        self.owned = false;
        self.checkpoint = None;
        self.state = None;
        self.turns.clear();
    }

    /// Somebody else has written to the session, and may have redacted what was said: of its turns stays that they are open.
    pub(super) fn others_wrote(&mut self, entropy: &dyn Entropy) {
        self.turns.retain(|known| known.status == TurnStatus::Open);
        for known in &mut self.turns {
            known.writes.truncate(1);
            for (_, body) in &mut known.writes {
                *body = emptied(body, entropy).unwrap_or_default();
            }
        }
    }

    fn bytes(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref();
        let writes: usize = self.writes().map(|(_, body)| body.len() + 256).sum();
        checkpoint.map_or(0, |c| c.state.as_str().len()) + writes + 256
    }
}

impl KnownTurn {
    fn of(turn: &Turn) -> Self {
        Self {
            id: turn.turn_id,
            status: turn.status,
            ordinal: turn.ordinal,
            first_seq: turn.first_seq,
            last_seq: turn.last_seq,
            writes: Vec::new(),
        }
    }
}

/// The start of a turn without what was said.
fn emptied(body: &[u8], entropy: &dyn Entropy) -> Option<Vec<u8>> {
    let mut command = Command::decode(body, entropy).ok()?;
    if let Write::Start(start) = &mut command.write {
        let mut entries: Vec<Entry> = start.batch.entries().to_vec();
        for entry in &mut entries {
            entry.item.parts = RawJson::from_checked("[]".to_owned());
        }
        Arc::make_mut(start).batch = Batch::seal(entries, entropy).ok()?;
    }
    command.encode()
}

/// The sessions, the one that was used longest ago first.
#[derive(Default)]
pub(super) struct Sessions {
    known: LinkedHashMap<Key, Known>,
    bytes: usize,
}

impl Sessions {
    /// What is known of a session; nothing that is older than what may be relied on, unless it is `kept` because writes of it
    /// wait here.
    pub(super) fn get(&self, key: &Key, kept: bool) -> Option<&Known> {
        self.known.get(key).filter(|known| kept || known.is_fresh())
    }

    /// Changes what is known.
    pub(super) fn change(&mut self, key: &Key, change: impl FnOnce(&mut Known)) {
        let mut known = self.forget(key).unwrap_or_default();
        change(&mut known);
        self.bytes += known.bytes();
        self.known.insert(key.clone(), known);
    }

    pub(super) fn forget(&mut self, key: &Key) -> Option<Known> {
        let known = self.known.remove(key)?;
        self.bytes -= known.bytes();
        Some(known)
    }

    /// Forgets those that were used longest ago, but for those that are `kept`.
    pub(super) fn trim(&mut self, kept: impl Fn(&Key) -> bool) {
        if self.known.len() <= SESSIONS && self.bytes <= BYTES {
            return;
        }
        let oldest: Vec<Key> = self.known.keys().filter(|k| !kept(k)).cloned().collect();
        for key in oldest {
            if self.known.len() <= SESSIONS / 2 && self.bytes <= BYTES / 2 {
                break;
            }
            self.forget(&key);
        }
    }
}
