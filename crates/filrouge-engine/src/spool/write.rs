//! The path of a write through the spool: to the ledger, or into the queue.
//!
//! The *first attempt* of a write sends it to the ledger before it is queued. It may continue after the write is
//! queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use filrouge_store::command::{Command, Write};
use filrouge_store::ledger::LedgerLayer;
use filrouge_store::{CommittedWrite, Durability, Ledger};
use filrouge_types::{ErrorCode, Failure, Result};
use tracing::Instrument;

use super::known::{KnownSession, SessionKey};
use super::local_session::unavailable;
use super::queue::with_item_ids;
use super::state::Attempt;
use super::{Core, SpooledLedger};

/// The maximum time that a write waits for the queued writes that it must not overtake, while the ledger answers. Also
/// the maximum time that a write that may not be queued at once waits for a slow ledger.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The destination of a write.
enum Route {
    /// Only to the ledger: the spool does not know the session, or the ledger has not shown it to this caller.
    LedgerOnly,
    /// To the ledger first; to the queue if the ledger does not answer. The session is known, or may begin here.
    LedgerFirst,
    /// To the queue: other writes of the session are queued, or the ledger is known to be unavailable.
    Queue,
}

/// The result of waiting for a first attempt. `Ok` is what the caller gets: the ledger's answer, or a failure because the
/// ledger stays slow. `Err` is the reason why the write is queued: the ledger is unavailable, or slow with this write.
type AttemptOutcome = Result<Result<CommittedWrite>>;

/// The first attempt of a write, in its own task.
struct FirstAttempt {
    /// The task; `None` once it has ended.
    attempt: Option<Attempt>,
    /// Whether the write has been queued in the meantime; then the drain handles the answer.
    is_queued: Arc<AtomicBool>,
}

impl FirstAttempt {
    /// The answer, if it arrives within this time; `None` if it does not, or if it was returned before.
    async fn answer(&mut self, timeout: Duration) -> Option<Result<CommittedWrite>> {
        let attempt = self.attempt.as_mut()?;
        let ended = tokio::time::timeout(timeout, attempt).await.ok()?;
        self.attempt = None;
        Some(ended.unwrap_or_else(|e| {
            Err(ErrorCode::Internal.failure(format!("the task of a write ended early: {e}")))
        }))
    }
}

/// Whether a write is of a kind that may be queued: a write of a live call under a fence, an event, or a lease request.
/// The last two need no fence.
///
/// Two kinds of fenced writes may not be queued. A start that replaces a turn needs that turn, but the spool knows only
/// a session's newest turns. A recording's writes have `progress` or `stream`, which the queue file does not contain.
fn may_be_queued(command: &Command) -> bool {
    let has_fence = command.scope.fence.is_some();
    match &command.write {
        Write::Start(start) => has_fence && start.event.replaces.is_none(),
        Write::Append(append) => has_fence && append.progress.is_none(),
        Write::Close(close) => has_fence && close.stream.is_none(),
        Write::PutCheckpoint(_) => has_fence,
        Write::RecordEvent(_) | Write::Lease(_) => true,
        _ => false,
    }
}

#[async_trait]
impl LedgerLayer for SpooledLedger {
    fn inner(&self) -> &dyn Ledger {
        self.core.inner.as_ref()
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite> {
        self.core.write_or_queue(command).await
    }

    async fn close(&self) {
        self.stop_draining().await;
        self.core.inner.close().await;
    }
}

impl Core {
    pub(super) async fn write_or_queue(
        self: &Arc<Self>,
        command: Command,
    ) -> Result<CommittedWrite> {
        let Some(session) = command.write.session_id() else {
            return self.inner.write(command).await;
        };
        let key = (command.scope.tenant.clone(), session.clone());
        // A redaction, an erasure or a link.
        if command.write.is_retraction() {
            return self.write_retraction(&key, command).await;
        }
        if !may_be_queued(&command) {
            self.wait_until_drained(&key).await?;
            let may_change_known =
                matches!(command.write, Write::Patch(_) | Write::CloseSession(_));
            let stored = self.inner.write(command).await?;
            if may_change_known {
                // The known state may be obsolete. The next write under the session's fence makes the session known
                // again.
                self.state().known.forget(&key);
            }
            return Ok(stored);
        }
        match self.route(&key, &command) {
            Route::LedgerOnly => {
                self.wait_until_drained(&key).await?;
                self.write_through(&key, command).await
            }
            Route::Queue => match &command.write {
                Write::Lease(_) => self.lease_in_spool(&key, command, None, false).await,
                _ => self.queue(&key, command, None, None).await,
            },
            Route::LedgerFirst => self.write_ledger_first(&key, command).await,
        }
    }

    fn route(&self, key: &SessionKey, command: &Command) -> Route {
        let state = self.state();
        let continues_here = match state.known(key) {
            Some(known) => known.was_shown_to(&command.scope),
            None => self.may_begin(command),
        };
        match continues_here {
            false => Route::LedgerOnly,
            true if state.is_queued(key) || state.is_ledger_unavailable() => Route::Queue,
            true => Route::LedgerFirst,
        }
    }

    /// Writes only to the ledger, and updates the session's known state from the answer.
    async fn write_through(&self, key: &SessionKey, command: Command) -> Result<CommittedWrite> {
        let updates_known =
            command.scope.fence.is_some() || matches!(command.write, Write::Lease(_));
        let copy = updates_known.then(|| command.clone());
        let stored = self.inner.write(command).await?;
        if let Some(command) = copy {
            self.update(key, &command, &stored);
        }
        Ok(stored)
    }

    /// Updates the session's known state from an answer of the ledger. Ephemeral sessions are not remembered, because
    /// their writes must not reach a disk.
    fn update(&self, key: &SessionKey, command: &Command, stored: &CommittedWrite) {
        let outcome = &stored.outcome;
        let is_new = self.state().known(key).is_none();
        if is_new {
            let is_newest_fence = KnownSession::proves_newest_fence(command, outcome);
            if !is_newest_fence || stored.durability == Durability::Ephemeral {
                return;
            }
        }
        if is_new {
            self.seen.add(key);
        }
        let now = self.clock.now();
        let mut state = self.state();
        if state.known(key).is_none() {
            // Known state that is too old to be used is removed first.
            state.known.forget(key);
        }
        state.change(key, |known| known.update(command, outcome, now));
    }

    /// Sends the write to the ledger, and queues it if the ledger does not answer in time.
    async fn write_ledger_first(
        self: &Arc<Self>,
        key: &SessionKey,
        command: Command,
    ) -> Result<CommittedWrite> {
        let command = with_item_ids(command, self.entropy.as_ref())?;
        let mut first = self.spawn_first_attempt(key, &command);
        let failure = match self.await_first_attempt(key, &command, &mut first).await {
            Ok(answer) => return answer,
            Err(failure) => failure,
        };
        // After this the drain, and not the task of the first attempt, handles the answer.
        first.is_queued.store(true, Ordering::SeqCst);
        match &command.write {
            Write::Lease(_) => self.lease_in_spool(key, command, first.attempt, true).await,
            _ => self.queue(key, command, first.attempt, Some(failure)).await,
        }
    }

    /// Sends the write to the ledger in a task of its own, which may outlive the caller's request.
    fn spawn_first_attempt(self: &Arc<Self>, key: &SessionKey, command: &Command) -> FirstAttempt {
        let is_queued = Arc::new(AtomicBool::new(false));
        let (inner, command, key) = (self.inner.clone(), command.clone(), key.clone());
        // With a strong reference the task could keep the files locked after this spool is closed.
        let (core, is_left_to_drain) = (Arc::downgrade(self), is_queued.clone());
        let attempt = async move {
            let answer = inner.write(command.clone()).await;
            if !is_left_to_drain.load(Ordering::SeqCst)
                && let Some(core) = core.upgrade()
            {
                core.handle_first_answer(&key, &command, &answer);
            }
            answer
        };
        FirstAttempt {
            attempt: Some(tokio::spawn(attempt.in_current_span())),
            is_queued,
        }
    }

    async fn await_first_attempt(
        self: &Arc<Self>,
        key: &SessionKey,
        command: &Command,
        first: &mut FirstAttempt,
    ) -> AttemptOutcome {
        if let Some(answer) = first.answer(self.options.after).await {
            return self.classify(answer);
        }
        // `down` may remain from an earlier failure while nothing is queued. If this write is queued, it would make
        // that old failure count again, although the ledger may be only slow.
        self.clear_down_if_idle();
        if self.may_be_queued_at_once(key, command) {
            let (probe, core) = (self.probe.clone(), Arc::downgrade(self));
            tokio::spawn(async move {
                if let Err(failure) = probe.check().await
                    && let Some(core) = core.upgrade()
                {
                    core.mark_down(&failure);
                }
            });
            return Err(self.no_answer_yet());
        }
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while Instant::now() < deadline {
            if let Err(failure) = self.probe.check().await {
                self.mark_down(&failure);
                return Err(failure);
            }
            if let Some(answer) = first.answer(self.options.after).await {
                return self.classify(answer);
            }
        }
        Ok(Err(self.no_answer_yet()))
    }

    fn classify(&self, answer: Result<CommittedWrite>) -> AttemptOutcome {
        match answer {
            Err(failure) if failure.code == ErrorCode::StoreUnavailable => {
                self.mark_down(&failure);
                Err(failure)
            }
            answer => Ok(answer),
        }
    }

    /// Whether a write is queued as soon as the ledger is slow. A lease request and the end of a turn that this process
    /// does not know are queued only once the ledger is known to be unavailable.
    fn may_be_queued_at_once(&self, key: &SessionKey, command: &Command) -> bool {
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

    fn no_answer_yet(&self) -> Failure {
        let after = self.options.after.as_millis();
        unavailable(&format!("the ledger has not answered for {after} ms"))
    }

    /// Handles the ledger's answer to the first attempt of a write that was not queued.
    fn handle_first_answer(
        &self,
        key: &SessionKey,
        command: &Command,
        answer: &Result<CommittedWrite>,
    ) {
        match answer {
            Ok(stored) => {
                self.clear_down_if_idle();
                self.update(key, command, stored);
            }
            Err(failure) if failure.code == ErrorCode::StaleFence => {
                let fence = command.scope.fence.map_or(0, |token| token.fence);
                let mut state = self.state();
                let is_newest = state
                    .known(key)
                    .is_some_and(|known| known.lease.fence <= fence);
                if is_newest && !state.is_queued(key) {
                    state.known.forget(key);
                }
            }
            Err(_) => {}
        }
    }

    /// Forgets that the ledger is unavailable if nothing is queued. Otherwise the drain finds out when the ledger is
    /// back.
    fn clear_down_if_idle(&self) {
        let mut state = self.state();
        if state.entries == 0 {
            state.down = None;
        }
    }

    pub(super) fn mark_down(&self, failure: &Failure) {
        let mut state = self.state();
        if !state.is_ledger_unavailable() {
            tracing::warn!(err = %failure.code, detail = %failure.detail, "[SPOOL] the ledger does not answer: live calls continue here");
        }
        state.down = Some(failure.detail.clone());
    }

    /// Waits until the session has no queued writes, on behalf of a write that must not overtake them.
    ///
    /// # Errors
    /// `store_unavailable` if the ledger is unavailable, or if the queue is not drained within [`DRAIN_TIMEOUT`].
    pub(super) async fn wait_until_drained(&self, key: &SessionKey) -> Result<()> {
        let waits = |why: &str| {
            let what = format!("writes of session {:?} {why}", key.1.as_str());
            Err(unavailable(&what))
        };
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let mut drained = self.drained.subscribe();
        loop {
            drained.mark_unchanged();
            let down = {
                let state = self.state();
                if !state.is_queued(key) {
                    return Ok(());
                }
                state.down.clone().filter(|_| state.is_ledger_unavailable())
            };
            if let Some(down) = down {
                return waits(&format!("wait for the ledger: {down}"));
            }
            if Instant::now() >= deadline {
                return waits("are still on their way to the ledger");
            }
            // The timeout is needed because no signal is sent when the ledger becomes unavailable during the wait.
            let _ = tokio::time::timeout(Duration::from_millis(50), drained.changed()).await;
        }
    }
}
