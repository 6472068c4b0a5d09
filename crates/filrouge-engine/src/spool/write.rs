//! Writing while the ledger may not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use filrouge_store::command::{Command, Scope, Write};
use filrouge_store::ledger::Layer;
use filrouge_store::{Durability, Ledger, Stored};
use filrouge_types::{ErrorCode, Failure};
use tracing::Instrument;

use super::here::unavailable;
use super::known::{Key, Known};
use super::queue::keyed;
use super::state::Attempt;
use super::{Core, Spooling};

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

/// How a first try has come out.
enum Tried {
    Answered(Box<Result<Stored, Failure>>),
    /// The ledger is away, or slow with this write.
    NotYet(Failure),
}

/// A first try.
struct First {
    /// `None` once it has ended.
    attempt: Option<Attempt>,
    /// Whether its write waits in the spool by now.
    is_queued: Arc<AtomicBool>,
}

impl First {
    /// The answer, when it comes within this time.
    async fn answer(&mut self, within: Duration) -> Option<Result<Stored, Failure>> {
        let attempt = self.attempt.as_mut()?;
        let ended = tokio::time::timeout(within, attempt).await.ok()?;
        self.attempt = None;
        Some(ended.unwrap_or_else(|e| {
            let what = format!("a write was ended: {e}");
            Err(Failure::new(ErrorCode::Internal, what))
        }))
    }
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

#[async_trait]
impl Layer for Spooling {
    fn behind(&self) -> &dyn Ledger {
        self.core.inner.as_ref()
    }

    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        self.core.written(command).await
    }

    async fn close(&self) {
        self.stop_draining().await;
        self.core.inner.close().await;
    }
}

impl Core {
    pub(super) async fn written(self: &Arc<Self>, command: Command) -> Result<Stored, Failure> {
        let Some(session) = command.write.session_id() else {
            return self.inner.write(command).await;
        };
        let key = (command.scope.tenant.clone(), session.clone());
        if command.write.takes_away() {
            return self.cleared(&key, command).await;
        }
        if !may_wait(&command) {
            self.wait_settled(&key).await?;
            let changes = matches!(command.write, Write::Patch(_) | Write::CloseSession(_));
            let stored = self.inner.write(command).await?;
            if changes {
                // Its state and whether it goes on are not what was known of it: the next write under its fence tells.
                self.state().known.forget(&key);
            }
            return Ok(stored);
        }
        match self.standing(&key, &command.scope) {
            Standing::Unknown => {
                self.wait_settled(&key).await?;
                self.passed(&key, command).await
            }
            Standing::Here => match &command.write {
                Write::Lease(_) => self.lease_here(&key, command, None, false).await,
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
    async fn passed(&self, key: &Key, command: Command) -> Result<Stored, Failure> {
        let tells = command.scope.hold.is_some() || matches!(command.write, Write::Lease(_));
        let asked = tells.then(|| command.clone());
        let stored = self.inner.write(command).await?;
        if let Some(asked) = asked {
            self.learn(key, &asked, &stored);
        }
        Ok(stored)
    }

    /// What an answer of the ledger tells of the session; nothing is kept of one that is to be on no disk.
    fn learn(&self, key: &Key, asked: &Command, stored: &Stored) {
        let outcome = &stored.outcome;
        let is_new = self.state().known(key).is_none();
        if is_new {
            let holds = Known::is_held_by(asked, outcome);
            if !holds || stored.durability == Durability::Ephemeral {
                return;
            }
        }
        let now = self.clock.now();
        let mut state = self.state();
        if state.known(key).is_none() {
            // What is left of it is too old.
            state.known.forget(key);
        }
        state.change(key, |known| known.learn(asked, outcome, now));
    }

    /// A write of a session that goes on also without the ledger, which is asked first, and not for long.
    async fn tried(self: &Arc<Self>, key: &Key, command: Command) -> Result<Stored, Failure> {
        let command = keyed(command, self.entropy.as_ref())?;
        let mut first = self.try_first(key, &command);
        let failure = match self.tried_first(key, &command, &mut first).await {
            Tried::Answered(answer) => return *answer,
            Tried::NotYet(failure) => failure,
        };
        // From here on what the drain hears of it counts.
        first.is_queued.store(true, Ordering::SeqCst);
        match &command.write {
            Write::Lease(_) => self.lease_here(key, command, first.attempt, true).await,
            _ => self.queue(key, command, first.attempt, Some(failure)).await,
        }
    }

    /// Begins a try, in a task of its own: it may end when the caller has its answer already, or has gone.
    fn try_first(self: &Arc<Self>, key: &Key, command: &Command) -> First {
        let is_queued = Arc::new(AtomicBool::new(false));
        let (inner, asked, of) = (self.inner.clone(), command.clone(), key.clone());
        // Not the files, which whoever comes next may take over.
        let (core, by_drain) = (Arc::downgrade(self), is_queued.clone());
        let attempt = async move {
            let answer = inner.write(asked.clone()).await;
            if !by_drain.load(Ordering::SeqCst)
                && let Some(core) = core.upgrade()
            {
                core.heard(&of, &asked, &answer);
            }
            answer
        };
        First {
            attempt: Some(tokio::spawn(attempt.in_current_span())),
            is_queued,
        }
    }

    async fn tried_first(
        self: &Arc<Self>,
        key: &Key,
        command: &Command,
        first: &mut First,
    ) -> Tried {
        if let Some(answer) = first.answer(self.options.after).await {
            return self.judged(answer);
        }
        self.nothing_known();
        if self.can_wait_at_once(key, command) {
            let (probe, core) = (self.probe.clone(), Arc::downgrade(self));
            tokio::spawn(async move {
                if let Err(failure) = probe.ask().await
                    && let Some(core) = core.upgrade()
                {
                    core.went_down(&failure);
                }
            });
            return Tried::NotYet(self.slow());
        }
        let until = Instant::now() + DRAINING;
        while Instant::now() < until {
            if let Err(failure) = self.probe.ask().await {
                self.went_down(&failure);
                return Tried::NotYet(failure);
            }
            if let Some(answer) = first.answer(self.options.after).await {
                return self.judged(answer);
            }
        }
        Tried::Answered(Box::new(Err(self.slow())))
    }

    fn judged(&self, answer: Result<Stored, Failure>) -> Tried {
        match answer {
            Err(failure) if failure.code == ErrorCode::StoreUnavailable => {
                self.went_down(&failure);
                Tried::NotYet(failure)
            }
            answer => Tried::Answered(Box::new(answer)),
        }
    }

    /// Whether a write can be answered before the ledger has been found to be away: a lease cannot, nor the end of a turn
    /// that is not known here.
    fn can_wait_at_once(&self, key: &Key, command: &Command) -> bool {
        match &command.write {
            Write::Lease(_) => false,
            Write::Close(close) => {
                let state = self.state();
                let known = state.known(key);
                known.is_some_and(|known| known.turn(close.turn_id).is_some())
            }
            _ => true,
        }
    }

    fn slow(&self) -> Failure {
        let after = self.options.after.as_millis();
        unavailable(&format!("the ledger has not answered for {after} ms"))
    }

    /// What the ledger has answered to a first try.
    fn heard(&self, key: &Key, asked: &Command, answer: &Result<Stored, Failure>) {
        match answer {
            Ok(stored) => {
                self.nothing_known();
                self.learn(key, asked, stored);
            }
            Err(failure) if failure.code == ErrorCode::StaleFence => {
                let fence = asked.scope.hold.map_or(0, |hold| hold.fence);
                let mut state = self.state();
                let newest = state
                    .known(key)
                    .is_some_and(|known| known.lease.fence <= fence);
                if newest && !state.is_queued(key) {
                    state.known.forget(key);
                }
            }
            Err(_) => {}
        }
    }

    /// Why the ledger did not answer counts as long as something waits that asks it again.
    fn nothing_known(&self) {
        let mut state = self.state();
        if state.entries == 0 {
            state.down = None;
        }
    }

    pub(super) fn went_down(&self, failure: &Failure) {
        let mut state = self.state();
        if !state.is_down() {
            tracing::warn!(err = %failure.code, detail = %failure.detail, "[SPOOL] the ledger does not answer: live calls go on here");
        }
        state.down = Some(failure.detail.clone());
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
}
