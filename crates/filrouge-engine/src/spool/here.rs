//! A session that goes on here: the ledger's rules run over rows in memory, which begin where the ledger is known to stand and
//! take every write that waits. They are made from what is known and what waits, also after a restart, and decide alone
//! what a caller is answered. The ledger decides again when what waits is drained.

use std::collections::HashSet;
use std::sync::Arc;

use filrouge_store::command::{Command, Hold, LeaseAsk, Outcome, Put, Scope, Viewer, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::read::{Loaded, Sight};
use filrouge_store::rows::SessionRow;
use filrouge_store::{Entropy, Keyring, Ledger, Link, View};
use filrouge_types::{
    Checkpoint, Clock, ErrorCode, Failure, Item, Lease, RawJson, RequestId, SessionStatus,
    Timestamp, Turn, TurnId, UNPLACED,
};

use super::folder::Entry;
use super::frame::LeaseNow;
use super::known::{Key, Known, KnownTurn};

/// Items of which nobody knows the place.
const NOWHERE: Put = Put {
    first_seq: UNPLACED,
    last_seq: UNPLACED,
    before: [0; size_of::<Link>()],
    link: [0; size_of::<Link>()],
    roles: Vec::new(),
};

/// The rows of one session.
pub(super) struct Here {
    rows: MemoryLedger,
    key: Key,
    /// The newest seq of the ledger: items behind it have no seq yet.
    ledger_seq: u64,
    /// Items up to this one are in the ledger: of turns that are gone on with.
    placed: u64,
    /// Turns of which nothing is known but the id.
    bare: HashSet<TurnId>,
    /// Whether this process has given the newest lease: only then may it give the next.
    owned: bool,
}

impl Here {
    /// The session as it is known, in rows over these keys.
    ///
    /// # Errors
    /// Those of the rows.
    pub(super) fn begin(
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        key: &Key,
        known: &Known,
    ) -> Result<Self, Failure> {
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
        let mut here = Self {
            rows: MemoryLedger::new(keyring, entropy.clone(), clock),
            key: key.clone(),
            ledger_seq,
            placed: ledger_seq,
            bare: HashSet::new(),
            owned: known.owned,
        };
        let lease = known.lease.clone();
        here.rows.take_up(&row, lease, ledger_seq, checkpoint)?;
        let hold = Hold {
            queued: true,
            ..Hold::by(known.lease.fence)
        };
        for (at, body) in known.writes() {
            if let Ok(mut command) = Command::decode(body, entropy.as_ref()) {
                command.scope.hold = Some(hold);
                here.repeated(&command, *at);
            }
        }
        here.placed = here.session(|_, session| session.head.last_seq)?;
        Ok(here)
    }

    /// Takes a write that waits.
    pub(super) fn repeat(&mut self, entry: &Entry, entropy: &dyn Entropy) {
        let Ok(command) = Command::decode(&entry.body, entropy) else {
            return;
        };
        let at = Timestamp::from_micros(entry.place.at);
        match &entry.lease {
            Some(lease) => {
                self.owned = true;
                self.repeated(&told(lease, &command, at), at);
            }
            None => self.repeated(&command, at),
        }
    }

    /// Does a write again that was accepted before.
    fn repeated(&mut self, command: &Command, at: Timestamp) {
        if let Err(failure) = self.apply(command, at) {
            // It needs what is not known any more; the ledger has it, or says so.
            tracing::debug!(
                code = failure.code.as_str(),
                "[SPOOL] a write is not known here"
            );
        }
    }

    /// Does a write by the rules; whether it has changed anything.
    fn apply(&mut self, command: &Command, at: Timestamp) -> Result<(Outcome, bool), Failure> {
        let (tenant, session) = &self.key;
        let hold = command.scope.hold;
        let mut command = command.clone();
        // Who asks was shown the session by the ledger.
        command.scope = Scope::new(tenant.clone(), Viewer::Operator).with_hold(hold);
        match &mut command.write {
            // Seqs are the ledger's to compare.
            Write::Append(append) if append.expected_seq.is_some() => {
                Arc::make_mut(append).expected_seq = None;
            }
            Write::Close(close) if self.bare.contains(&close.turn_id) => {
                return Err(filrouge_store::read::turn_not_found(&close.turn_id));
            }
            _ => {}
        }
        let before = self.rows.position().commit_no;
        let done = match (self.rows.apply(&command, at), &command.write) {
            (Err(failure), Write::Append(append)) if failure.code == ErrorCode::TurnNotFound => {
                let id = append.turn_id;
                self.rows.take_up_turn(tenant, session, id, at)?;
                self.bare.insert(id);
                self.rows.apply(&command, at)
            }
            (done, _) => done,
        };
        Ok((done?, self.rows.position().commit_no != before))
    }

    /// The answer to a write, and whether it is new: then it has to wait for the ledger. What only the ledger gives is
    /// absent from it.
    ///
    /// # Errors
    /// Those of the rules; `store_unavailable` for what nobody knows without the ledger.
    pub(super) fn answer(
        &mut self,
        command: &Command,
        known: &Known,
        now: Timestamp,
    ) -> Result<(Outcome, bool), Failure> {
        self.check_known(command)?;
        let mut asked = command.clone();
        // Of a lease that was not given here the time is not known; and an event may be reported late.
        let untimed = !self.owned || matches!(asked.write, Write::RecordEvent(_));
        if let Some(hold) = &mut asked.scope.hold {
            hold.queued = untimed;
        }
        let answered = self.apply(&asked, now);
        let (mut outcome, changed) = answered.map_err(|failure| match failure.code {
            ErrorCode::TurnNotFound => {
                unavailable("the turn is not known here, and the ledger does not answer")
            }
            code if code.status() >= 500 => unavailable(&failure.detail),
            _ => failure,
        })?;
        match &mut outcome {
            Outcome::Turn(turn, put) => {
                place(turn, known.turn(turn.turn_id), changed);
                *put = put.take().map(|_| NOWHERE);
            }
            Outcome::Appended {
                first_seq,
                last_seq,
                put,
                ..
            } => {
                (*first_seq, *last_seq) = (UNPLACED, UNPLACED);
                *put = put.take().map(|_| NOWHERE);
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

    /// That a write does not need what only the ledger knows.
    fn check_known(&self, command: &Command) -> Result<(), Failure> {
        let fence = self.session(|_, session| session.head.lease.fence)?;
        if command.scope.hold.is_some_and(|hold| hold.fence > fence) {
            let what = "the fence is not known here, and the ledger does not answer";
            return Err(unavailable(what));
        }
        match &command.write {
            Write::Lease(_) if !self.owned => {
                let what = "this server has not given the session's last lease, and the ledger does not answer";
                Err(unavailable(what))
            }
            Write::PutCheckpoint(put) if put.seq.is_some_and(|seq| seq > self.ledger_seq) => {
                let what = "the seq is not known here, and the ledger does not answer";
                let hint = "name no seq while writes wait: the checkpoint covers all that was written before it";
                Err(unavailable(what).with_hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// The seq of the ledger, if there is one.
    const fn seq(&self, seq: u64) -> u64 {
        if seq > self.ledger_seq { UNPLACED } else { seq }
    }

    /// The lease, and the session's state.
    ///
    /// # Errors
    /// Those of the rows.
    pub(super) fn lease(&self, now: Timestamp) -> Result<(Lease, Option<Box<str>>), Failure> {
        self.session(|_, session| (session.head.lease.shown(now), session.row.state.clone()))
    }

    /// The newest checkpoint, the newest `most` items behind it that wait, and whether there are more.
    ///
    /// # Errors
    /// Those of the rows.
    pub(super) fn tail(
        &self,
        most: usize,
    ) -> Result<(Option<Checkpoint>, Vec<Item>, bool), Failure> {
        let (checkpoint, mut items, trimmed) = self.session(|sight, session| {
            let checkpoint = sight.newest_checkpoint(session)?.checkpoint;
            let covered = checkpoint.as_ref().map_or(0, |c| c.seq).max(self.placed);
            let last = session.head.last_seq;
            let after = covered.max(last.saturating_sub(most as u64));
            let (mut items, mut seq) = (Vec::new(), after);
            // A page of large items ends early.
            while seq < last {
                let page = sight.items_of(session, seq, most)?.0;
                seq = page.last().map_or(last, |item| item.seq);
                items.extend(page);
            }
            Ok::<_, Failure>((checkpoint, items, after > covered))
        })??;
        items.iter_mut().for_each(|item| item.seq = UNPLACED);
        let checkpoint = checkpoint.map(|checkpoint| Checkpoint {
            seq: self.seq(checkpoint.seq),
            ..checkpoint
        });
        Ok((checkpoint, items, trimmed))
    }

    /// The turn of a request, if one is known.
    ///
    /// # Errors
    /// Those of the rows.
    pub(super) fn turn_of(
        &self,
        request: &RequestId,
        known: &Known,
    ) -> Result<Option<Turn>, Failure> {
        let turn = self.session(|sight, session| {
            let row = sight.turn_of_request(session, request)?;
            row.map(|row| sight.project(session, &row)).transpose()
        })??;
        Ok(turn.map(|mut turn| {
            let place_known = known.turn(turn.turn_id);
            let same = place_known.is_some_and(|known| known.status == turn.status);
            place(&mut turn, place_known, !same);
            turn
        }))
    }

    fn session<T>(
        &self,
        see: impl FnOnce(&Sight<'_, dyn View + '_>, &Loaded) -> T,
    ) -> Result<T, Failure> {
        let (tenant, id) = &self.key;
        let scope = Scope::new(tenant.clone(), Viewer::Operator);
        self.rows.look(|sight| {
            let session = sight.get(&scope, id)?;
            Ok(see(sight, &session))
        })
    }
}

/// Gives a turn the place that it has in the ledger, if it is known there.
fn place(turn: &mut Turn, known: Option<&KnownTurn>, changed: bool) {
    turn.ordinal = known.map_or(UNPLACED, |known| known.ordinal);
    turn.first_seq = known.map_or(UNPLACED, |known| known.first_seq);
    let last = known.filter(|_| !changed);
    turn.last_seq = last.map_or(UNPLACED, |known| known.last_seq);
}

/// The command that reports to the ledger what was done with the lease here: the fence that was given, to whom, and until
/// when.
pub(super) fn told(now_held: &LeaseNow, command: &Command, now: Timestamp) -> Command {
    let mut command = command.clone();
    command.scope.hold = Some(Hold {
        queued: true,
        ..Hold::by(now_held.fence)
    });
    let left = left(now_held.expires_at, now);
    if let Write::Lease(take) = &mut command.write {
        match &mut take.ask {
            LeaseAsk::Acquire(acquire) => acquire.ttl = left,
            LeaseAsk::Renew { ttl, .. } => *ttl = left,
            LeaseAsk::Release { .. } => {}
        }
    }
    command
}

fn left(expires_at: i64, now: Timestamp) -> std::time::Duration {
    let micros = expires_at.saturating_sub(now.as_micros());
    std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(super) fn unavailable(what: &str) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, what)
        .with_hint("try again; the session goes on once the ledger is back")
}
