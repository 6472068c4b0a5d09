//! The known state of sessions to which this process has written under a lease. It suffices to continue them while the
//! ledger does not answer (DESIGN §6). The memory is bounded: sessions whose known state changed least recently are
//! evicted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::Entropy;
use filrouge_store::command::{Command, LeaseRequest, Outcome, Scope, SessionToken, Viewer, Write};
use filrouge_store::record::{Batch, Entry};
use filrouge_store::rows::HeadLease;
use filrouge_store::rules::lease_check::expiry;
use filrouge_types::{
    Channel, Checkpoint, RawJson, SessionId, TenantId, Timestamp, Turn, TurnId, TurnStatus,
};
use hashlink::LinkedHashMap;

/// The tenant and the id of a session.
pub(super) type SessionKey = (TenantId, SessionId);

/// The maximum number of known sessions.
const SESSIONS_MAX: usize = 8_192;
/// The approximate maximum number of bytes of the known state of all sessions, mostly checkpoints and turns.
const BYTES_MAX: usize = 64 << 20;
/// The maximum number of known turns of a session.
const TURNS_MAX: usize = 16;
/// The maximum number of viewers that are remembered for a session.
const VIEWERS_MAX: usize = 8;
/// The time for which known state is used after the ledger last confirmed the session's fence. After that time another
/// holder may have continued the session.
const CONFIRMED_FOR: Duration = Duration::from_secs(15 * 60);

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
pub(super) struct KnownSession {
    viewers: VecDeque<(Viewer, Option<SessionToken>)>,
    /// The newest lease. Only its fence is known unless `granted_here` is true.
    pub(super) lease: HeadLease,
    /// Whether the newest lease was granted through this process, by the ledger or by the spool. Only then may the
    /// spool renew it or grant the next one.
    pub(super) granted_here: bool,
    pub(super) last_seq: u64,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) state: Option<Box<str>>,
    turns: VecDeque<KnownTurn>,
    /// When the ledger last confirmed that `lease.fence` is the session's newest fence.
    confirmed_at: Option<Instant>,
}

impl KnownSession {
    /// The state of a session that this caller begins in the spool. Its first fence follows `fence`.
    pub(super) fn begun(scope: &Scope, fence: u64) -> Self {
        let mut known = Self {
            granted_here: true,
            ..Self::default()
        };
        known.lease.fence = fence;
        known.add_viewer(scope);
        known.confirm_fence();
        known
    }

    /// Records that the ledger has just confirmed the session's fence.
    pub(super) fn confirm_fence(&mut self) {
        self.confirmed_at = Some(Instant::now());
    }

    fn is_recently_confirmed(&self) -> bool {
        self.confirmed_at
            .is_some_and(|at| at.elapsed() < CONFIRMED_FOR)
    }

    /// Whether the ledger has shown the session to the scope's viewer, with the same session token.
    pub(super) fn was_shown_to(&self, scope: &Scope) -> bool {
        let mut viewers = self.viewers.iter();
        viewers.any(|(viewer, token)| *viewer == scope.viewer && *token == scope.token)
    }

    pub(super) fn add_viewer(&mut self, scope: &Scope) {
        if self.was_shown_to(scope) {
            return;
        }
        self.viewers.truncate(VIEWERS_MAX - 1);
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
    pub(super) fn update(&mut self, command: &Command, outcome: &Outcome, now: Timestamp) {
        self.add_viewer(&command.scope);
        let is_newest_fence = Self::proves_newest_fence(command, outcome);
        if let Some(token) = command.scope.fence {
            // A replay proves nothing, because the ledger returns it under any fence.
            if is_newest_fence && token.fence > self.lease.fence {
                self.forget_after_new_holder();
                self.lease.fence = token.fence;
            }
            if token.release && token.fence == self.lease.fence {
                self.lease.holder = Box::default();
                self.lease.expires_at = now;
            }
        }
        match outcome {
            // A late answer about an older lease is ignored.
            Outcome::Lease { lease, .. } if lease.fence >= self.lease.fence => {
                if lease.fence > self.lease.fence + 1 {
                    // The fences in between show that another holder has continued the session.
                    self.forget_after_new_holder();
                }
                let ttl = requested_ttl(&command.write);
                self.granted_here |= ttl.is_some();
                self.lease = HeadLease {
                    fence: lease.fence,
                    holder: lease.holder.clone().unwrap_or_default(),
                    expires_at: lease.expires_at.unwrap_or(now),
                    ttl: ttl.unwrap_or(self.lease.ttl),
                    ..HeadLease::default()
                };
            }
            Outcome::Turn(turn, put) => {
                self.last_seq = put.as_ref().map_or(self.last_seq, |put| put.last_seq);
                self.update_turn(command, turn);
            }
            Outcome::Appended { last_seq, .. } => {
                self.last_seq = *last_seq;
                self.keep_answer(command, now);
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
        if is_newest_fence {
            self.confirm_fence();
            // Like the ledger, which has just applied a write under the fence.
            if command.scope.fence.is_some() && self.lease.is_live(now) {
                let extended = expiry(now, self.lease.ttl);
                self.lease.expires_at = self.lease.expires_at.max(extended);
            }
        }
    }

    fn update_turn(&mut self, command: &Command, turn: &Turn) {
        let index = self.turns.iter().position(|k| k.id == turn.turn_id);
        let is_start = matches!(command.write, Write::Start(_));
        let known = index.and_then(|at| self.turns.remove(at));
        // A replayed start may return a turn that has ended. Unless the turn is known, it is not remembered, because
        // the write that ended it is unknown.
        let is_new_turn = is_start && !(turn.replayed && turn.status.is_closed());
        let Some(mut known) = known.or_else(|| is_new_turn.then(|| KnownTurn::new(turn))) else {
            return;
        };
        let is_new_write = known.writes.is_empty() || !is_start && !known.status.is_closed();
        if is_new_write && let Some(body) = command.encode() {
            let at = turn.finalized_at.filter(|_| !is_start);
            known.writes.push((at.unwrap_or(turn.created_at), body));
        }
        known.status = turn.status;
        known.last_seq = turn.last_seq;
        self.turns.truncate(TURNS_MAX - 1);
        self.turns.push_front(known);
    }

    /// Keeps a command that appends a turn's answer, because the turn's end may refer to the answer.
    fn keep_answer(&mut self, command: &Command, now: Timestamp) {
        let Write::Append(append) = &command.write else {
            return;
        };
        let mut items = append.batch.items();
        let has_answer = items.any(|item| item.channel == Channel::Final);
        let mut turns = self.turns.iter_mut();
        if has_answer
            && let Some(known) = turns.find(|k| k.id == append.turn_id)
            && let Some(body) = command.encode()
        {
            known.writes.push((now, body));
        }
    }

    /// Whether the ledger's answer to a write proves that the fence of the write is the session's newest.
    pub(super) fn proves_newest_fence(command: &Command, outcome: &Outcome) -> bool {
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
        let current = self.checkpoint.as_ref();
        if current.is_none_or(|current| checkpoint.seq >= current.seq) {
            self.checkpoint = Some(checkpoint.clone());
            if checkpoint.label.is_some() {
                self.state = checkpoint.label.clone();
            }
        }
    }

    /// Forgets the state that another holder may have changed.
    fn forget_after_new_holder(&mut self) {
        self.granted_here = false;
        self.checkpoint = None;
        self.state = None;
        self.turns.clear();
    }

    /// Forgets all contents of turns; only the ids of open turns stay known. Call it for a session to which another
    /// caller has written, because that caller may have redacted contents.
    pub(super) fn forget_contents(&mut self, entropy: &dyn Entropy) {
        self.turns.retain(|known| known.status == TurnStatus::Open);
        for known in &mut self.turns {
            known.writes.truncate(1);
            for (_, body) in &mut known.writes {
                *body = without_contents(body, entropy).unwrap_or_default();
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
    fn new(turn: &Turn) -> Self {
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

/// The time to live for which a write acquires or renews a lease; `None` for other writes.
fn requested_ttl(write: &Write) -> Option<Duration> {
    let Write::Lease(lease_command) = write else {
        return None;
    };
    match &lease_command.request {
        LeaseRequest::Acquire(acquire) => Some(acquire.ttl),
        LeaseRequest::Renew { ttl, .. } => Some(*ttl),
        LeaseRequest::Release { .. } => None,
    }
}

/// A command that starts a turn, without the contents of its items. `None` if it cannot be decoded or encoded.
fn without_contents(body: &[u8], entropy: &dyn Entropy) -> Option<Vec<u8>> {
    let mut command = Command::decode(body, entropy).ok()?;
    if let Write::Start(start) = &mut command.write {
        let mut entries: Vec<Entry> = start.batch.entries().to_vec();
        for entry in &mut entries {
            entry.item.parts = RawJson::from_checked("[]".to_owned());
        }
        Arc::make_mut(start).batch = Batch::pack(entries, entropy).ok()?;
    }
    command.encode()
}

/// The known sessions, least recently changed first.
#[derive(Default)]
pub(super) struct KnownSessions {
    known: LinkedHashMap<SessionKey, KnownSession>,
    bytes: usize,
}

impl KnownSessions {
    /// The known state of a session. `None` if the ledger's confirmation is too old, unless `is_queued`: the age does
    /// not matter for a session with queued writes.
    pub(super) fn get(&self, key: &SessionKey, is_queued: bool) -> Option<&KnownSession> {
        self.known
            .get(key)
            .filter(|known| is_queued || known.is_recently_confirmed())
    }

    /// Changes the known state of a session, which starts empty if the session is not known.
    pub(super) fn change(&mut self, key: &SessionKey, change: impl FnOnce(&mut KnownSession)) {
        let mut known = self.forget(key).unwrap_or_default();
        change(&mut known);
        self.bytes += known.bytes();
        self.known.insert(key.clone(), known);
    }

    pub(super) fn forget(&mut self, key: &SessionKey) -> Option<KnownSession> {
        let known = self.known.remove(key)?;
        self.bytes -= known.bytes();
        Some(known)
    }

    /// If there are too many sessions or bytes, evicts sessions down to half of the limits, the least recently changed
    /// first. Sessions for which `is_kept` returns true stay.
    pub(super) fn evict(&mut self, is_kept: impl Fn(&SessionKey) -> bool) {
        if self.known.len() <= SESSIONS_MAX && self.bytes <= BYTES_MAX {
            return;
        }
        let oldest: Vec<SessionKey> = self.known.keys().filter(|k| !is_kept(k)).cloned().collect();
        for key in oldest {
            if self.known.len() <= SESSIONS_MAX / 2 && self.bytes <= BYTES_MAX / 2 {
                break;
            }
            self.forget(&key);
        }
    }
}
