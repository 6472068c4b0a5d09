//! Writing while the ledger may not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::Durability;
use filrouge_store::command::{Command, Outcome, Scope, Write};
use filrouge_types::{ErrorCode, Failure, TurnStatus};
use tracing::Instrument;

use super::Core;
use super::folder::Entry;
use super::frame::{LeaseNow, Place};
use super::known::{Key, Known};
use super::provisional::{self, word};
use super::state::{Attempt, Waits};

/// How long a write that must not overtake others waits for them, when the ledger answers.
const DRAINING: Duration = Duration::from_secs(10);

/// How a session stands to a write.
enum Standing {
    /// Its writes are the ledger's affair.
    Unknown,
    /// It goes on also without the ledger.
    Verified,
    /// It goes on here: writes of it wait, or the ledger is known not to answer.
    Here,
}

/// An entry that is to be queued.
pub(super) struct Queueing {
    pub(super) lease: Option<LeaseNow>,
    pub(super) command: Command,
    pub(super) outcome: Outcome,
    pub(super) attempt: Option<Attempt>,
}

pub(super) fn unavailable(what: &str) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, what)
        .with_hint("try again; the session goes on once the ledger is back")
}

/// Whether a write may wait for the ledger: one of a live call, under a fence. Who tells of a call need not hold it.
fn may_wait(command: &Command) -> bool {
    let held = command.scope.hold.is_some();
    match &command.write {
        Write::Start(start) => held && start.event.replaces.is_none(),
        Write::Append(append) => held && append.progress.is_none(),
        Write::Close(close) => held && close.stream.is_none(),
        Write::PutCheckpoint(_) => held,
        Write::RecordEvent(_) | Write::Lease(_) => true,
        _ => false,
    }
}

/// Whether a write takes contents away, or gives the session to somebody.
const fn clears(write: &Write) -> bool {
    matches!(write, Write::Redact(_) | Write::Erase(_) | Write::Link(_))
}

impl Core {
    pub(super) async fn written(self: &Arc<Self>, command: Command) -> Result<Outcome, Failure> {
        let Some(key) = self.key(&command) else {
            return self.inner.write(command).await;
        };
        if clears(&command.write) {
            return self.cleared(&key, command).await;
        }
        if !may_wait(&command) {
            self.wait_settled(&key).await?;
            return self.inner.write(command).await;
        }
        match self.standing(&key, &command.scope) {
            Standing::Unknown => {
                self.wait_settled(&key).await?;
                self.passed(&key, command).await
            }
            Standing::Here => match &command.write {
                Write::Lease(_) => self.lease_here(&key, command, None).await,
                _ => self.queue(&key, command, None, None).await,
            },
            Standing::Verified => self.tried(&key, command).await,
        }
    }

    fn standing(&self, key: &Key, scope: &Scope) -> Standing {
        let state = self.state();
        match state.known(key) {
            Some(known) if known.sees(scope) => match state.is_queued(key) || state.is_down() {
                true => Standing::Here,
                false => Standing::Verified,
            },
            _ => Standing::Unknown,
        }
    }

    /// A write of a session that is not known to be one that goes on here.
    async fn passed(&self, key: &Key, command: Command) -> Result<Outcome, Failure> {
        let tells = command.scope.hold.is_some() || matches!(command.write, Write::Lease(_));
        let asked = tells.then(|| command.clone());
        let outcome = self.inner.write(command).await?;
        if let Some(asked) = asked {
            self.learn(key, &asked, &outcome).await;
        }
        Ok(outcome)
    }

    /// What an answer of the ledger tells of the session; nothing is kept of one that is to be on no disk.
    async fn learn(&self, key: &Key, asked: &Command, outcome: &Outcome) {
        let is_new = self.state().known(key).is_none();
        if is_new {
            let holds = Known::is_held_by(asked, outcome);
            let durability = self.inner.durability_in(&asked.scope, &key.1);
            if !holds || durability.await == Durability::Ephemeral {
                return;
            }
        }
        let now = self.clock.now();
        self.state()
            .change(key, |known| known.learn(asked, outcome, now));
    }

    /// A write of a session that goes on also without the ledger, which is asked first, and not for long.
    async fn tried(self: &Arc<Self>, key: &Key, command: Command) -> Result<Outcome, Failure> {
        let command = provisional::keyed(command, self.entropy.as_ref())?;
        let (inner, asked) = (self.inner.clone(), command.clone());
        // A task of its own: it may end when the caller has its answer already.
        let attempt = async move { inner.write(asked).await };
        let mut attempt = tokio::spawn(attempt.in_current_span());
        let (failure, attempt) = match tokio::time::timeout(self.options.after, &mut attempt).await
        {
            Ok(Ok(Ok(outcome))) => {
                self.learn(key, &command, &outcome).await;
                return Ok(outcome);
            }
            Ok(Ok(Err(failure))) if failure.code == ErrorCode::StoreUnavailable => (failure, None),
            Ok(Ok(Err(failure))) => {
                if failure.code == ErrorCode::StaleFence {
                    self.state().known.forget(key);
                }
                return Err(failure);
            }
            Ok(Err(e)) => {
                let what = format!("a write was ended: {e}");
                return Err(Failure::new(ErrorCode::Internal, what));
            }
            Err(_) => {
                let after = self.options.after.as_millis();
                let what = format!("the ledger has not answered for {after} ms");
                (unavailable(&what), Some(attempt))
            }
        };
        match &command.write {
            Write::Lease(_) => {
                self.went_down(&failure);
                self.lease_here(key, command, attempt).await
            }
            _ => self.queue(key, command, attempt, Some(failure)).await,
        }
    }

    pub(super) fn went_down(&self, failure: &Failure) {
        let mut state = self.state();
        if !state.is_down() {
            tracing::warn!(err = %failure.code, detail = %failure.detail, "[SPOOL] the ledger does not answer: live calls go on here");
        }
        state.down = Some(failure.detail.clone());
    }

    /// Queues a write, behind those of its session that wait.
    async fn queue(
        self: &Arc<Self>,
        key: &Key,
        command: Command,
        attempt: Option<Attempt>,
        failure: Option<Failure>,
    ) -> Result<Outcome, Failure> {
        let command = provisional::keyed(command, self.entropy.as_ref())?;
        let known = self.state().known(key).cloned();
        let known = known.ok_or_else(|| unavailable("the session is not known here any more"))?;
        self.check_fence(key, &command, &known)?;
        if let Some(outcome) = self.repeated(key, &command, &known)? {
            return Ok(Outcome::Spooled(Box::new(outcome)));
        }
        let now = self.clock.now();
        let outcome = provisional::outcome(&command, &known, &self.keyring, now);
        let Some(outcome) = outcome else {
            let what = "the turn is not known here, and the ledger does not answer";
            return Err(failure.unwrap_or_else(|| unavailable(what)));
        };
        if let Some(failure) = &failure {
            self.went_down(failure);
        }
        let queueing = Queueing {
            lease: None,
            command: provisional::queued(&command),
            outcome: outcome.clone(),
            attempt,
        };
        self.enqueue(key, queueing).await?;
        Ok(Outcome::Spooled(Box::new(outcome)))
    }

    /// As the rules would, by the lease as it is known here.
    fn check_fence(&self, key: &Key, command: &Command, known: &Known) -> Result<(), Failure> {
        let Some(hold) = command.scope.hold else {
            return Ok(());
        };
        if hold.fence < known.fence {
            let what = format!(
                "fence {} is not the newest one of session {:?}, which is {}",
                hold.fence,
                key.1.as_str(),
                known.fence
            );
            return Err(Failure::new(ErrorCode::StaleFence, what)
                .with_hint("resume the session, and go on from what was written meanwhile"));
        }
        if hold.fence > known.fence {
            return Err(unavailable(
                "the fence is not known here, and the ledger does not answer",
            ));
        }
        let now = self.clock.now();
        let event = matches!(command.write, Write::RecordEvent(_));
        if !event
            && known.held.as_ref().is_some_and(|held| !held.is_live(now))
            && !self.is_repeat(command, known)
        {
            let what = format!("the lease with fence {} has ended", hold.fence);
            return Err(Failure::new(ErrorCode::LeaseExpired, what)
                .with_hint("resume the session: nobody else may have taken it yet"));
        }
        Ok(())
    }

    fn is_repeat(&self, command: &Command, known: &Known) -> bool {
        match &command.write {
            Write::Start(start) => known.turn_of(&start.event.request_id).is_some(),
            Write::Close(close) => known
                .turn(close.turn_id)
                .is_some_and(|k| k.closed_by == Some(close.fingerprint)),
            _ => false,
        }
    }

    /// The first answer to a request that came before; also what the rules would refuse of a turn that has ended here.
    fn repeated(
        &self,
        key: &Key,
        command: &Command,
        known: &Known,
    ) -> Result<Option<Outcome>, Failure> {
        let again = |turn: &filrouge_types::Turn| {
            let turn = filrouge_types::Turn {
                replayed: true,
                ..turn.clone()
            };
            Outcome::Turn(Box::new(turn), None)
        };
        let found = match &command.write {
            Write::Start(start) => known
                .turn_of(&start.event.request_id)
                // One that was interrupted opens again.
                .filter(|k| k.turn.status != TurnStatus::Interrupted)
                .map(|k| again(&k.turn)),
            Write::Close(close) => match known.turn(close.turn_id) {
                Some(k) if k.closed_by == Some(close.fingerprint) => Some(again(&k.turn)),
                Some(k) if k.turn.status.is_closed() && k.closed_by.is_some() => {
                    let what = format!("turn {} was closed with another body", close.turn_id);
                    return Err(Failure::new(ErrorCode::IdempotencyMismatch, what));
                }
                _ => None,
            },
            _ => None,
        };
        if found.is_some() && command.scope.hold.is_some_and(|hold| hold.release) {
            let now = self.clock.now();
            self.state().change(key, |known| known.give_free(now));
        }
        Ok(found)
    }

    /// Puts an entry on disk, and behind the others of its session.
    pub(super) async fn enqueue(
        self: &Arc<Self>,
        key: &Key,
        queueing: Queueing,
    ) -> Result<(), Failure> {
        let what = word(&queueing.command.write);
        let (core, to) = (self.clone(), key.clone());
        let put = tokio::task::spawn_blocking(move || core.put(&to, queueing));
        let ended = |e: tokio::task::JoinError| {
            Failure::new(ErrorCode::Internal, format!("the spool: {e}"))
        };
        put.await.map_err(ended)??;
        tracing::warn!(reason = %what, tenant_id = %key.0, call_id = %key.1, "[CALL_JOURNAL_WARN] pg_down");
        self.wake.notify_one();
        Ok(())
    }

    fn put(&self, key: &Key, queueing: Queueing) -> Result<(), Failure> {
        let Queueing {
            lease,
            command,
            outcome,
            attempt,
        } = queueing;
        let body = command
            .encode()
            .ok_or_else(|| unavailable("the write does not wait for the ledger"))?;
        let now = self.clock.now();
        let mut files = self.files();
        let folder = files.own()?;
        let entry = Entry {
            place: Place {
                id: folder.next_id(),
                at: now.as_micros(),
                tenant: key.0.as_str().to_owned(),
                session: key.1.as_str().to_owned(),
                what: word(&command.write).to_owned(),
            },
            lease,
            body,
        };
        self.check_room(key, entry.bytes())?;
        self.check_not_overtaken(key, &command)?;
        folder.add(&entry).map_err(|e| self.not_kept(&e))?;
        let waits = Waits {
            entry: Arc::new(entry),
            folder: 0,
            since: Instant::now(),
            attempt,
        };
        let mut state = self.state();
        state.counts.spooled += 1;
        state.push(key, waits);
        state.change(key, |known| known.learn(&command, &outcome, now));
        Ok(())
    }

    /// Somebody may have been found to have the session since the write was asked.
    fn check_not_overtaken(&self, key: &Key, command: &Command) -> Result<(), Failure> {
        let state = self.state();
        let fence = command.scope.hold.map_or(0, |hold| hold.fence);
        match state.known(key) {
            Some(known) if known.fence >= fence => Ok(()),
            _ => Err(Failure::new(
                ErrorCode::StaleFence,
                "somebody else has taken the session",
            )),
        }
    }

    fn check_room(&self, key: &Key, bytes: u64) -> Result<(), Failure> {
        let mut state = self.state();
        let of_session = state.queues.get(key).map_or(0, |queue| queue.len());
        let what = if state.bytes + bytes > self.options.bytes {
            let (held, most) = (state.bytes, self.options.bytes);
            format!("the spool holds {held} of at most {most} bytes")
        } else if of_session >= self.options.session_entries {
            format!(
                "the spool holds {of_session} writes of session {:?}, which are the most",
                key.1.as_str()
            )
        } else {
            return Ok(());
        };
        state.counts.full += 1;
        Err(full(what))
    }

    fn not_kept(&self, e: &std::io::Error) -> Failure {
        let what = format!("the spool {}: {e}", self.options.directory.display());
        match e.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                self.state().counts.full += 1;
                full(what)
            }
            _ => unavailable(&what),
        }
    }

    /// Waits until nothing of the session waits here any more: what must not overtake.
    pub(super) async fn wait_settled(&self, key: &Key) -> Result<(), Failure> {
        let until = Instant::now() + DRAINING;
        let mut settled = self.settled.subscribe();
        loop {
            settled.mark_unchanged();
            let down = {
                let state = self.state();
                if !state.is_queued(key) {
                    return Ok(());
                }
                state.down.clone().filter(|_| state.is_down())
            };
            if let Some(down) = down {
                let what = format!(
                    "writes of session {:?} wait for the ledger: {down}",
                    key.1.as_str()
                );
                return Err(unavailable(&what));
            }
            if Instant::now() >= until {
                let what = format!(
                    "writes of session {:?} are still on their way to the ledger",
                    key.1.as_str()
                );
                return Err(unavailable(&what));
            }
            // A ledger that goes down is noticed by looking.
            let _ = tokio::time::timeout(Duration::from_millis(50), settled.changed()).await;
        }
    }

    /// A write that takes contents away: of what waits and of dead letters as well (DESIGN §9).
    async fn cleared(self: &Arc<Self>, key: &Key, command: Command) -> Result<Outcome, Failure> {
        self.wait_settled(key).await?;
        let links = matches!(command.write, Write::Link(_));
        let outcome = self.inner.write(command).await?;
        self.state().known.forget(key);
        if !links {
            let (core, of) = (self.clone(), key.clone());
            let erased = tokio::task::spawn_blocking(move || core.erase_letters(&of)).await;
            erased.map_err(|e| unavailable(&e.to_string()))??;
        }
        Ok(outcome)
    }

    /// Takes the contents of a session's dead letters away; that there were some stays.
    fn erase_letters(&self, key: &Key) -> Result<(), Failure> {
        let mut files = self.files();
        let (tenant, session) = (key.0.as_str(), key.1.as_str());
        let mut folders: Vec<usize> = {
            let state = self.state();
            let of_session = state.dead.iter().filter(|l| l.key.as_ref() == Some(key));
            of_session.map(|letter| letter.folder).collect()
        };
        folders.dedup();
        for folder in folders {
            let Some(folder) = files.at(folder) else {
                continue;
            };
            let mut dead = folder.contents().map_err(|e| self.not_kept(&e))?.dead;
            for dead in dead.iter_mut().filter(|d| d.is_of(tenant, session)) {
                dead.body.clear();
            }
            folder.rebury(dead.iter()).map_err(|e| self.not_kept(&e))?;
        }
        // A file of entries that are done with holds their contents until it is emptied.
        for nth in 0..files.folders.len() {
            let waiting = self.state().of_folder(nth);
            if let Some(folder) = files.at(nth) {
                let kept = folder.rewrite(waiting.iter().map(AsRef::as_ref));
                kept.map_err(|e| self.not_kept(&e))?;
            }
        }
        Ok(())
    }
}

fn full(what: String) -> Failure {
    Failure::new(ErrorCode::SpoolFull, what)
        .with_hint("nothing of what waits is lost; bring the ledger back, or raise `spool.bytes`")
}
