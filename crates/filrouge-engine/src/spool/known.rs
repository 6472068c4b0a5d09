//! What this process knows of the sessions to which it has written under a lease: enough to continue them while the
//! ledger does not answer (DESIGN §6). The memory is bounded: sessions whose known state changed least recently are
//! evicted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::Entropy;
use filrouge_store::command::{Command, LeaseRequest, Outcome, Scope, SessionToken, Viewer, Write};
use filrouge_store::record::{Batch, Entry};
use filrouge_store::rows::HeadLease;
use filrouge_types::{
    Channel, Checkpoint, RawJson, SessionId, TenantId, Timestamp, Turn, TurnId, TurnStatus,
};
use hashlink::LinkedHashMap;

/// The tenant and the id of a session.
pub(super) type Key = (TenantId, SessionId);

/// The maximum number of known sessions.
const SESSIONS: usize = 8_192;
/// The approximate maximum number of bytes of the known state of all sessions, mostly checkpoints and turns.
const BYTES: usize = 64 << 20;
/// The maximum number of known turns of a session.
const TURNS: usize = 16;
/// The maximum number of viewers that are remembered for a session.
const VIEWERS: usize = 8;
/// The time for which known state is used after the ledger last confirmed the session's fence. After that time another
/// holder may have continued the session.
const FRESH: Duration = Duration::from_secs(15 * 60);

/// A turn that this process has begun: its position in the ledger, and the writes from which its rows are rebuilt.
#[derive(Debug, Clone)]
pub(super) struct KnownTurn {
    id: TurnId,
    pub(super) status: TurnStatus,
    pub(super) ordinal: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    /// The encoded commands that started the turn, appended its answer and ended it, each with its time.
    writes: Vec<(Timestamp, Vec<u8>)>,
}

/// The known state of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    viewers: VecDeque<(Viewer, Option<SessionToken>)>,
    /// The newest lease. Unless it is `owned`, only its fence is known.
    pub(super) lease: HeadLease,
    /// Whether the newest lease was granted through this process, by the ledger or by the spool. Only then may the
    /// spool renew it or grant the next one.
    pub(super) owned: bool,
    pub(super) last_seq: u64,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) state: Option<Box<str>>,
    turns: VecDeque<KnownTurn>,
    /// When the ledger last confirmed that `lease.fence` is the session's newest fence.
    renewed: Option<Instant>,
}

impl Known {
    /// Records that the ledger has just confirmed the session's fence.
    pub(super) fn renew(&mut self) {
        self.renewed = Some(Instant::now());
    }

    fn is_fresh(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() < FRESH)
    }

    /// Whether the ledger has shown the session to the scope's viewer, with the same session token.
    pub(super) fn sees(&self, scope: &Scope) -> bool {
        let mut viewers = self.viewers.iter();
        viewers.any(|(viewer, token)| *viewer == scope.viewer && *token == scope.token)
    }

    pub(super) fn add_viewer(&mut self, scope: &Scope) {
        if self.sees(scope) {
            return;
        }
        self.viewers.truncate(VIEWERS - 1);
        self.viewers.push_front((scope.viewer.clone(), scope.token));
    }

    pub(super) fn turn(&self, id: TurnId) -> Option<&KnownTurn> {
        self.turns.iter().find(|known| known.id == id)
    }

    /// The writes from which the known turns are rebuilt, oldest turn first.
    pub(super) fn writes(&self) -> impl Iterator<Item = &(Timestamp, Vec<u8>)> {
        self.turns.iter().rev().flat_map(|known| &known.writes)
    }

    /// Updates the known state from the ledger's answer to a write.
    pub(super) fn learn(&mut self, command: &Command, outcome: &Outcome, now: Timestamp) {
        self.add_viewer(&command.scope);
        let holds = Self::is_held_by(command, outcome);
        if let Some(own) = command.scope.fence {
            // A replay proves nothing, because the ledger returns it under any fence.
            if holds && own.fence > self.lease.fence {
                self.forget_after_takeover();
                self.lease.fence = own.fence;
            }
            if own.release && own.fence == self.lease.fence {
                self.lease.holder = Box::default();
                self.lease.expires_at = now;
            }
        }
        match outcome {
            // A late answer about an older lease is ignored.
            Outcome::Lease { lease, .. } if lease.fence >= self.lease.fence => {
                if lease.fence > self.lease.fence + 1 {
                    // The fences in between show that another holder has continued the session.
                    self.forget_after_takeover();
                }
                let released = matches!(&command.write,
                    Write::Lease(take) if matches!(take.ask, LeaseRequest::Release { .. }));
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
        let index = self.turns.iter().position(|k| k.id == turn.turn_id);
        let begins = matches!(command.write, Write::Start(_));
        let known = index.and_then(|at| self.turns.remove(at));
        // A replayed start may return a turn that has ended. Unless the turn is known, it is not remembered, because
        // the write that ended it is unknown.
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

    /// Keeps a command that appends a turn's answer, because the turn's end may refer to the answer.
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

    /// Whether the ledger's answer proves that the fence of the write is the session's newest.
    pub(super) fn is_held_by(command: &Command, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Lease { lease, .. } => lease.holder.is_some(),
            Outcome::Turn(_, put) => put.is_some() && command.scope.fence.is_some(),
            Outcome::Appended { replayed, .. } => !replayed && command.scope.fence.is_some(),
            Outcome::Checkpoint { created, .. } => *created && command.scope.fence.is_some(),
            _ => false,
        }
    }

    /// Keeps `checkpoint` unless the one that is kept covers more items.
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

    /// Forgets the state that another holder may have changed.
    fn forget_after_takeover(&mut self) {
        self.owned = false;
        self.checkpoint = None;
        self.state = None;
        self.turns.clear();
    }

    /// Forgets all contents of turns; only which turns are open stays known. For a session to which another caller has
    /// written, who may have redacted contents.
    pub(super) fn forget_contents(&mut self, entropy: &dyn Entropy) {
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

/// A command that starts a turn, without the contents of its items. `None` if it cannot be decoded or encoded.
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

/// The known sessions, least recently changed first.
#[derive(Default)]
pub(super) struct Sessions {
    known: LinkedHashMap<Key, Known>,
    bytes: usize,
}

impl Sessions {
    /// The known state of a session, unless the ledger's confirmation is too old. With `kept`, which is set for a
    /// session with queued writes, any age will do.
    pub(super) fn get(&self, key: &Key, kept: bool) -> Option<&Known> {
        self.known.get(key).filter(|known| kept || known.is_fresh())
    }

    /// Changes the known state of a session, which starts empty if the session is not known.
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

    /// If there are too many sessions or bytes, evicts sessions down to half of the limits, the least recently changed
    /// first. Sessions for which `kept` returns true stay.
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
