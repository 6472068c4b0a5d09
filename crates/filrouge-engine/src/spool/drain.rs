//! The drain writes queued entries into the ledger, each session's in order, as soon as the ledger answers. Sessions do
//! not wait for each other: if a session's first entry is not accepted, the session pauses, and each further pause is
//! longer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::{CommittedWrite, FairSlots, Lane, Ledger, SlotBounds, WorkSize};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Core;
use super::folder::Entry;
use super::known::SessionKey;
use super::local_session::repeated_lease_command;
use super::state::Attempt;
use crate::calls::{log_word, optional_log_word};
use crate::trace::Trace;

/// The maximum number of sessions that are drained at once. Tenants take turns.
const CONCURRENT_SESSIONS_MAX: usize = 16;
/// The maximum time that the drain waits for a write's unfinished first attempt (see `write.rs`) before it sends the
/// write itself. Also the maximum time that a stopped drain waits for the tasks of its sessions.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// An entry becomes a dead letter after this many failures with `internal`.
const INTERNAL_FAILURES_MAX: u8 = 5;
/// The timeout of the drain's probe, as a multiple of `SpoolOptions::after`.
const PROBE_TIMEOUT_FACTOR: u32 = 5;

/// State shared by the tasks that drain sessions.
struct Drain {
    core: Arc<Core>,
    stop: watch::Receiver<bool>,
    slots: FairSlots,
    /// The task that probes an unavailable ledger holds this lock; the tasks of other sessions wait for it.
    probing: Mutex<ProbeSchedule>,
}

/// The time of the next probe of an unavailable ledger, and the pause after that probe.
type ProbeSchedule = (Instant, Duration);

/// Runs one task for each session with queued writes until `stop` becomes true; then each task finishes the write that
/// it is sending, and ends.
pub(super) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let drain = Arc::new(Drain {
        core: core.clone(),
        stop: stop.clone(),
        slots: FairSlots::new(SlotBounds::without_shares(CONCURRENT_SESSIONS_MAX)),
        probing: Mutex::new((Instant::now(), core.options.pause.0)),
    });
    let (mut tasks, mut draining) = (JoinSet::new(), HashMap::new());
    while !*stop.borrow_and_update() {
        let queued: Vec<SessionKey> = core.state().queues.keys().cloned().collect();
        for key in queued {
            draining.entry(key).or_insert_with_key(|key| {
                let task = tasks.spawn(drain_session(drain.clone(), key.clone()));
                task.id()
            });
        }
        tokio::select! {
            () = core.wake.notified() => {}
            Some(ended) = tasks.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(%error, "[SPOOL] a task of the drain has ended unexpectedly");
                        error.id()
                    }
                };
                draining.retain(|_, task| *task != id);
            }
            changed = stop.changed() => if changed.is_err() { break },
        }
    }
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(ATTEMPT_TIMEOUT, ended).await.is_err() {
        tracing::warn!("[SPOOL] a write has no answer: the next process retries it");
    }
}

/// Drains one session until its queue is empty or the drain is stopped. Each time the first entry stays queued, the
/// next pause is longer than the one before.
async fn drain_session(drain: Arc<Drain>, key: SessionKey) {
    let (core, mut stop) = (&drain.core, drain.stop.clone());
    let (first_pause, longest_pause) = core.options.pause;
    let mut pause = first_pause;
    while !*stop.borrow() {
        let may_try_now = tokio::select! {
            may_try_now = drain.may_try() => may_try_now,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        if !may_try_now {
            continue;
        }
        // The slots are never closed.
        let slot = drain.slots.acquire(&(&key.0, ()), WorkSize::Small).await;
        let Some(first) = core.first_entry(&key) else {
            return;
        };
        if drain_entry(core, &key, first).await {
            pause = first_pause;
            continue;
        }
        drop(slot);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        pause = (pause * 2).min(longest_pause);
    }
}

impl Drain {
    /// Whether a session may send a write now. While the ledger does not answer, the sessions' tasks probe it one at a
    /// time, in the order in which they began to wait.
    async fn may_try(&self) -> bool {
        let core = &self.core;
        if !core.state().is_ledger_unavailable() {
            return true;
        }
        let (first_pause, longest_pause) = core.options.pause;
        let mut probing = self.probing.lock().await;
        let (next, pause) = &mut *probing;
        if *next + longest_pause < Instant::now() {
            *pause = first_pause;
        }
        tokio::select! {
            () = tokio::time::sleep_until(*next) => {}
            () = core.up.notified() => {}
        }
        if !core.state().is_ledger_unavailable() {
            return true;
        }
        let ledger_answers = core.ledger_answers().await;
        *next = Instant::now() + *pause;
        *pause = (*pause * 2).min(longest_pause);
        ledger_answers
    }
}

/// The first entry of a session's queue, which is drained next: its folder, the entry, and its first attempt.
type FirstEntry = (usize, Arc<Entry>, Option<Attempt>);

/// The ledger's answer to an entry.
pub(super) struct DrainResult {
    pub(super) answer: Result<CommittedWrite, Failure>,
    /// `None` if the entry cannot be decoded.
    pub(super) command: Option<Command>,
}

/// Drains the first entry of a session. Returns whether the entry has left the queue.
async fn drain_entry(core: &Arc<Core>, key: &SessionKey, first: FirstEntry) -> bool {
    let (folder, entry, attempt) = first;
    let result = core.send_entry(key, &entry, attempt).await;
    match &result.answer {
        Err(failure) if failure.code == ErrorCode::StoreUnavailable => {
            // Only this write failed if the ledger answers a probe.
            if !core.ledger_answers().await {
                core.mark_down(failure);
            }
            core.log_postponed(key, failure);
            return false;
        }
        // The entry could not be decoded, so it was not sent to the ledger.
        _ if result.command.is_none() => {}
        _ => core.mark_up(),
    }
    if let Err(failure) = &result.answer
        && core.is_retried(key, (folder, entry.info.id), failure)
    {
        core.log_postponed(key, failure);
        return false;
    }
    let (blocking_core, session) = (core.clone(), key.clone());
    let finish = move || blocking_core.finish_entry(&session, (folder, &entry), &result);
    let finished = tokio::task::spawn_blocking(finish).await;
    match finished.map_err(std::io::Error::other) {
        Ok(Ok(())) => true,
        Ok(Err(error)) | Err(error) => {
            tracing::error!(%error, tenant_id = %log_word(key.0.as_str()), call_id = %log_word(key.1.as_str()), "[SPOOL] an entry cannot be marked done");
            false
        }
    }
}

impl Core {
    fn first_entry(&self, key: &SessionKey) -> Option<FirstEntry> {
        let mut state = self.state();
        let first = state.queues.get_mut(key)?.front_mut()?;
        Some((first.folder, first.entry.clone(), first.attempt.take()))
    }

    /// Sends an entry to the ledger.
    async fn send_entry(
        &self,
        key: &SessionKey,
        entry: &Entry,
        attempt: Option<Attempt>,
    ) -> DrainResult {
        let command = match Command::decode(&entry.body, self.entropy.as_ref()) {
            Ok(command) => command,
            Err(failure) => {
                return DrainResult {
                    answer: Err(Failure::new(ErrorCode::Invalid, failure.detail)),
                    command: None,
                };
            }
        };
        let first_attempt = match attempt {
            // `None` if the attempt does not end in time, or its task has panicked.
            Some(attempt) => {
                let ended = tokio::time::timeout(ATTEMPT_TIMEOUT, attempt).await;
                ended.ok().and_then(Result::ok)
            }
            None => None,
        };
        if let (Some(granted), Some(Ok(stored))) = (&entry.lease, &first_attempt)
            && let Outcome::Lease { lease, .. } = &stored.outcome
        {
            self.release_unclaimed(granted, &command, lease).await;
        }
        let answer = match first_attempt {
            Some(Ok(stored)) if entry.lease.is_none() => Ok(stored),
            // The outcome of the first attempt is unknown, or the ledger refused the write, perhaps by a rule that does
            // not apply to queued writes. If the write was committed, sending it again changes nothing.
            _ => self.write_entry(key, entry, &command).await,
        };
        DrainResult {
            answer,
            command: Some(command),
        }
    }

    /// Whether the ledger answers a small query in time. A failure other than `store_unavailable` is an answer as well.
    pub(super) async fn ledger_answers(&self) -> bool {
        let inner: &dyn Ledger = self.inner.as_ref();
        let probe =
            inner.query_reserved(|snapshot| snapshot.view.newest_log(Lane::FIRST).map(|_| ()));
        match tokio::time::timeout(self.options.after * PROBE_TIMEOUT_FACTOR, probe).await {
            Ok(Err(failure)) => failure.code != ErrorCode::StoreUnavailable,
            Ok(Ok(())) => true,
            Err(_) => false,
        }
    }

    async fn write_entry(
        &self,
        key: &SessionKey,
        entry: &Entry,
        command: &Command,
    ) -> Result<CommittedWrite, Failure> {
        if let Some(lease) = &entry.lease {
            return self
                .inner
                .write(repeated_lease_command(lease, command, self.clock.now()))
                .await;
        }
        let trace = Trace::begin(command);
        let stored = self.inner.write(command.clone()).await?;
        let outcome = &stored.outcome;
        if let Some(trace) = trace {
            trace.log_committed(outcome);
        }
        if let Outcome::Checkpoint {
            checkpoint,
            created: true,
            ..
        } = outcome
        {
            let state = optional_log_word(checkpoint.label.as_deref());
            tracing::info!(tenant_id = %log_word(key.0.as_str()), call_id = %log_word(key.1.as_str()), seq = checkpoint.seq, state = %state, "[CHECKPOINT]");
        }
        Ok(stored)
    }

    /// Whether a failed write stays queued and is tried again. After a permanent failure it is not, because it would
    /// block its session; the failure counts as a refusal.
    fn is_retried(&self, key: &SessionKey, id: (usize, u64), failure: &Failure) -> bool {
        match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing => false,
            ErrorCode::Internal => self.state().count_failure(key, id) < INTERNAL_FAILURES_MAX,
            code => code.status() >= 500,
        }
    }

    fn log_postponed(&self, key: &SessionKey, failure: &Failure) {
        // `mark_down` has logged an unavailable ledger, once for all sessions.
        if !self.state().is_ledger_unavailable() {
            tracing::warn!(tenant_id = %log_word(key.0.as_str()), call_id = %log_word(key.1.as_str()), err = %failure.code, detail = %failure.detail, "[SPOOL] a write cannot be drained yet");
        }
    }

    fn mark_up(&self) {
        let mut state = self.state();
        if state.down.take().is_some() {
            let (entries, sessions) = (state.entries, state.queues.len());
            tracing::info!(entries, sessions, "[SPOOL] the ledger is back: draining");
            self.up.notify_waiters();
        }
    }
}
