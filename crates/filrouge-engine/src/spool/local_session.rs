//! A session that continues in the spool. Its rows are kept in memory: they start from the session's last known state
//! in the ledger and include every queued write. The ledger's rules run over these rows, and their result is the answer
//! to the caller. The rows can be rebuilt from the known state and the queue at any time. When the queue is drained,
//! the ledger applies its rules again, and its result is the final one.

use std::collections::HashSet;
use std::sync::Arc;

use filrouge_store::command::{
    Command, FencingToken, LeaseRequest, Outcome, Scope, Viewer, Write, WrittenRange,
};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::read::{LedgerSnapshot, VerifiedSession};
use filrouge_store::rows::SessionRow;
use filrouge_store::{Entropy, Keyring, Ledger, Link};
use filrouge_types::{
    Checkpoint, Clock, ErrorCode, Failure, Item, Lease, RawJson, RequestId, Result, SessionStatus,
    Timestamp, Turn, TurnId, UNASSIGNED,
};

use super::folder::Entry;
use super::frame::SpooledLease;
use super::known::{KnownSession, KnownTurn, SessionKey};

/// The range of newly written items to which the ledger has not assigned seqs yet.
const UNASSIGNED_RANGE: WrittenRange = WrittenRange {
    first_seq: UNASSIGNED,
    last_seq: UNASSIGNED,
    previous_link: [0; size_of::<Link>()],
    link: [0; size_of::<Link>()],
    roles: Vec::new(),
};

/// The rows of one session in memory. Their seqs are local: the ledger may assign others.
pub(super) struct LocalSession {
    rows: MemoryLedger,
    key: SessionKey,
    /// The newest known seq in the ledger. The ledger has not assigned a seq to items after it.
    ledger_seq: u64,
    /// The local seq of the last item that the ledger already has, including the items of known turns, which are
    /// applied again here. Later items come from queued writes.
    ledger_rows_end: u64,
    /// Turns that were begun by another process. Only their ids are known, from items that were appended to them.
    partial_turns: HashSet<TurnId>,
    /// Whether the newest lease was granted through this process. Only then may the spool grant the next one.
    granted_here: bool,
}

impl LocalSession {
    /// Builds the rows of a session from its known state.
    ///
    /// # Errors
    /// Errors of the rows.
    pub(super) fn rebuild(
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        key: &SessionKey,
        known: &KnownSession,
    ) -> Result<Self> {
        let checkpoint = known.checkpoint.as_ref();
        let ledger_seq = checkpoint.map_or(0, |c| c.seq).max(known.last_seq);
        let row = SessionRow {
            tenant_id: key.0.clone(),
            session_id: key.1.clone(),
            identity_id: None,
            parent_session_id: None,
            project_id: None,
            team_id: None,
            title: None,
            status: SessionStatus::Active,
            state: known.state.clone(),
            metadata: RawJson::from_checked("{}".to_owned()),
            created_at: clock.now(),
            token: None,
            erased: None,
        };
        let mut local_session = Self {
            rows: MemoryLedger::new(keyring, entropy.clone(), clock),
            key: key.clone(),
            ledger_seq,
            ledger_rows_end: ledger_seq,
            partial_turns: HashSet::new(),
            granted_here: known.granted_here,
        };
        let lease = known.lease.clone();
        local_session
            .rows
            .create_partial_session(&row, lease, ledger_seq, checkpoint)?;
        let token = FencingToken {
            queued: true,
            ..FencingToken::new(known.lease.fence)
        };
        for (at, body) in known.writes() {
            if let Ok(mut command) = Command::decode(body, entropy.as_ref()) {
                command.scope.fence = Some(token);
                local_session.reapply(&command, *at);
            }
        }
        local_session.ledger_rows_end =
            local_session.session(|_, session| session.head.last_seq)?;
        Ok(local_session)
    }

    /// Applies a queued entry.
    pub(super) fn apply_entry(&mut self, entry: &Entry, entropy: &dyn Entropy) {
        let Ok(command) = Command::decode(&entry.body, entropy) else {
            return;
        };
        let at = Timestamp::from_micros(entry.info.at);
        match &entry.lease {
            Some(lease) => {
                self.granted_here = true;
                self.reapply(&repeated_lease_command(lease, &command, at), at);
            }
            None => self.reapply(&command, at),
        }
    }

    /// Applies a write that was accepted before. If the rows refuse it, they stay unchanged.
    fn reapply(&mut self, command: &Command, at: Timestamp) {
        if let Err(failure) = self.apply(command, at) {
            // The write depends on state that this process no longer knows. The ledger decides about it in the drain.
            tracing::debug!(
                code = failure.code.as_str(),
                "[SPOOL] a queued write cannot be applied here"
            );
        }
    }

    /// Applies a write by the ledger's rules. Returns its outcome, and whether it changed anything: a replay does not.
    fn apply(&mut self, command: &Command, at: Timestamp) -> Result<(Outcome, bool)> {
        let (tenant, session) = &self.key;
        let fence = command.scope.fence;
        let mut command = command.clone();
        // The ledger has already granted the caller access to the session.
        command.scope = Scope::new(tenant.clone(), Viewer::Operator).with_fence(fence);
        match &mut command.write {
            // The seqs here are local, so only the ledger can compare the expected seq with the session's newest one.
            // It does so when the spool is drained.
            Write::Start(start) if start.expected_seq.is_some() => {
                Arc::make_mut(start).expected_seq = None;
            }
            Write::Append(append) if append.expected_seq.is_some() => {
                Arc::make_mut(append).expected_seq = None;
            }
            Write::Close(close) if self.partial_turns.contains(&close.turn_id) => {
                return Err(filrouge_store::read::turn_not_found(&close.turn_id));
            }
            _ => {}
        }
        let before = self.rows.position();
        let applied = match (self.rows.apply(&command, at), &command.write) {
            (Err(failure), Write::Append(append)) if failure.code == ErrorCode::TurnNotFound => {
                let id = append.turn_id;
                self.rows.add_open_turn(tenant, session, id, at)?;
                self.partial_turns.insert(id);
                self.rows.apply(&command, at)
            }
            (applied, _) => applied,
        };
        Ok((applied?, self.rows.position() != before))
    }

    /// The answer to a write, and whether the write is new, so that it must be queued. Seqs and ordinals that the
    /// ledger has not assigned yet are `UNASSIGNED`.
    ///
    /// # Errors
    /// Errors of the rules; `store_unavailable` if the answer needs a value that only the ledger knows.
    pub(super) fn answer(
        &mut self,
        command: &Command,
        known: &KnownSession,
        now: Timestamp,
    ) -> Result<(Outcome, bool)> {
        self.check_known(command)?;
        let mut local = command.clone();
        // The expiry of a lease is not checked if the lease was granted elsewhere, because then it is unknown, nor for
        // an event, which may be reported late.
        let ignores_expiry = !self.granted_here || matches!(local.write, Write::RecordEvent(_));
        if let Some(token) = &mut local.scope.fence {
            token.queued = ignores_expiry;
        }
        let result = self.apply(&local, now);
        let (mut outcome, changed) = result.map_err(|failure| match failure.code {
            ErrorCode::TurnNotFound => {
                unavailable("the turn is not known here, and the ledger does not answer")
            }
            code if code.status() >= 500 => unavailable(&failure.detail),
            _ => failure,
        })?;
        match &mut outcome {
            Outcome::Turn(turn, written) => {
                set_position(turn, known.turn(turn.turn_id), changed);
                *written = written.take().map(|_| UNASSIGNED_RANGE);
            }
            Outcome::Appended {
                first_seq,
                last_seq,
                written,
                ..
            } => {
                (*first_seq, *last_seq) = (UNASSIGNED, UNASSIGNED);
                *written = written.take().map(|_| UNASSIGNED_RANGE);
            }
            Outcome::Checkpoint {
                checkpoint,
                last_seq,
                ..
            } => {
                checkpoint.seq = self.seq(checkpoint.seq);
                *last_seq = known.last_seq;
            }
            Outcome::Lease { resumed, .. } => *resumed = false,
            _ => {}
        }
        Ok((outcome, changed))
    }

    /// Checks that the write does not need a value that only the ledger knows.
    fn check_known(&self, command: &Command) -> Result<()> {
        let fence = self.session(|_, session| session.head.lease.fence)?;
        if command.scope.fence.is_some_and(|token| token.fence > fence) {
            let detail = "the fence is not known here, and the ledger does not answer";
            return Err(unavailable(detail));
        }
        match &command.write {
            Write::Lease(_) if !self.granted_here => {
                let detail = "this server did not grant the session's newest lease, and the ledger does not answer";
                Err(unavailable(detail))
            }
            Write::PutCheckpoint(put) if put.seq.is_some_and(|seq| seq > self.ledger_seq) => {
                let detail = "the seq is not known here, and the ledger does not answer";
                let hint = "omit seq while writes wait: the checkpoint then covers everything written before it";
                Err(unavailable(detail).with_hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// The seq, or `UNASSIGNED` if the ledger has not assigned it yet.
    const fn seq(&self, seq: u64) -> u64 {
        if seq > self.ledger_seq {
            UNASSIGNED
        } else {
            seq
        }
    }

    /// The session's lease, as a caller may read it at `now`, and the session's state.
    ///
    /// # Errors
    /// Errors of the rows.
    pub(super) fn lease(&self, now: Timestamp) -> Result<(Lease, Option<Box<str>>)> {
        self.session(|_, session| (session.head.lease.to_lease(now), session.row.state.clone()))
    }

    /// The newest checkpoint, at most `limit` of the newest queued items after it, and whether older ones were left
    /// out.
    ///
    /// # Errors
    /// Errors of the rows.
    pub(super) fn tail(&self, limit: usize) -> Result<(Option<Checkpoint>, Vec<Item>, bool)> {
        let (checkpoint, mut items, trimmed) = self.session(|snapshot, session| {
            let checkpoint = snapshot.newest_checkpoint(session)?.checkpoint;
            let covered = checkpoint
                .as_ref()
                .map_or(0, |c| c.seq)
                .max(self.ledger_rows_end);
            let last = session.head.last_seq;
            let after = covered.max(last.saturating_sub(limit as u64));
            let (mut items, mut seq) = (Vec::new(), after);
            // A page of large items ends early.
            while seq < last {
                let page = snapshot.items_of(session, seq, limit)?.0;
                seq = page.last().map_or(last, |item| item.seq);
                items.extend(page);
            }
            Ok::<_, Failure>((checkpoint, items, after > covered))
        })??;
        items.iter_mut().for_each(|item| item.seq = UNASSIGNED);
        let checkpoint = checkpoint.map(|checkpoint| Checkpoint {
            seq: self.seq(checkpoint.seq),
            ..checkpoint
        });
        Ok((checkpoint, items, trimmed))
    }

    /// The turn that was started with the request id `request`, if it is known.
    ///
    /// # Errors
    /// Errors of the rows.
    pub(super) fn turn_of_request(
        &self,
        request: &RequestId,
        known: &KnownSession,
    ) -> Result<Option<Turn>> {
        let turn = self.session(|snapshot, session| {
            let row = snapshot.turn_of_request(session, request)?;
            row.map(|row| snapshot.project(session, &row)).transpose()
        })??;
        Ok(turn.map(|mut turn| {
            let known_turn = known.turn(turn.turn_id);
            let is_unchanged = known_turn.is_some_and(|known| known.status == turn.status);
            set_position(&mut turn, known_turn, !is_unchanged);
            turn
        }))
    }

    fn session<T>(
        &self,
        read: impl FnOnce(&LedgerSnapshot<'_>, &VerifiedSession) -> T,
    ) -> Result<T> {
        let (tenant, id) = &self.key;
        let scope = Scope::new(tenant.clone(), Viewer::Operator);
        self.rows.with_snapshot(|snapshot| {
            let session = snapshot.get(&scope, id)?;
            Ok(read(snapshot, &session))
        })
    }
}

/// Sets a turn's ordinal and seqs to those in the ledger, or to `UNASSIGNED` where they are not known. If `changed`, a
/// queued write has changed the turn, so its last seq is unknown.
fn set_position(turn: &mut Turn, known: Option<&KnownTurn>, changed: bool) {
    turn.ordinal = known.map_or(UNASSIGNED, |known| known.ordinal);
    turn.first_seq = known.map_or(UNASSIGNED, |known| known.first_seq);
    let current = known.filter(|_| !changed);
    turn.last_seq = current.map_or(UNASSIGNED, |known| known.last_seq);
}

/// The command that repeats in the ledger a lease operation of the spool: the request `command`, with the fence that
/// the spool granted and the time that is left of the lease at `now`.
pub(super) fn repeated_lease_command(
    granted: &SpooledLease,
    command: &Command,
    now: Timestamp,
) -> Command {
    let mut command = command.clone();
    command.scope.fence = Some(FencingToken {
        queued: true,
        ..FencingToken::new(granted.fence)
    });
    let time_left = time_left(granted.expires_at, now);
    if let Write::Lease(take) = &mut command.write {
        match &mut take.request {
            LeaseRequest::Acquire(acquire) => acquire.ttl = time_left,
            LeaseRequest::Renew { ttl, .. } => *ttl = time_left,
            LeaseRequest::Release { .. } => {}
        }
    }
    command
}

fn time_left(expires_at: i64, now: Timestamp) -> std::time::Duration {
    let micros = expires_at.saturating_sub(now.as_micros());
    std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(super) fn unavailable(detail: &str) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, detail)
        .with_hint("try again; the session continues when the ledger is back")
}
