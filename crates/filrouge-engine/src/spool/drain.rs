//! The drain writes queued entries into the ledger, each session's in order, as soon as the ledger answers. Sessions do
//! not wait for each other: if a session's first entry is not accepted, the session pauses, and each further pause is
//! longer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::{CommittedWrite, Ledger};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Core;
use super::folder::Entry;
use super::here::as_queued;
use super::known::Key;
use super::state::Attempt;
use crate::calls::{word, word_of};
use crate::trace::Trace;

/// The maximum number of sessions that are drained at once.
const AT_ONCE: usize = 16;
/// The time that the drain waits for a write's unfinished first try (see `write.rs`) before it sends the write itself.
/// Also the time that the drain, once stopped, waits for the tasks of its sessions.
const TRY: Duration = Duration::from_secs(30);
/// The number of failures with `internal` after which an entry becomes a dead letter.
const TRIES: u8 = 5;
/// The timeout of the drain's probe, as a multiple of `SpoolOptions::after`.
const PROBE: u32 = 5;

/// State shared by the tasks that drain sessions.
struct Drain {
    core: Arc<Core>,
    stop: watch::Receiver<bool>,
    at_once: Semaphore,
    /// Locked by the one task that probes an unavailable ledger; the tasks of other sessions wait for the lock.
    probing: Mutex<ProbeSchedule>,
}

/// When an unavailable ledger is probed next, and the pause between that probe and the one after it.
struct ProbeSchedule {
    next: Instant,
    pause: Duration,
}

/// Runs one task for each session with queued writes until `stop` becomes true; then each task finishes the write that
/// it is sending, and ends.
pub(super) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let drain = Arc::new(Drain {
        core: core.clone(),
        stop: stop.clone(),
        at_once: Semaphore::new(AT_ONCE),
        probing: Mutex::new(ProbeSchedule {
            next: Instant::now(),
            pause: core.options.pause.0,
        }),
    });
    let (mut tasks, mut drained) = (JoinSet::new(), HashMap::new());
    while !*stop.borrow_and_update() {
        let queued: Vec<Key> = core.state().queues.keys().cloned().collect();
        for key in queued {
            drained.entry(key).or_insert_with_key(|key| {
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
                drained.retain(|_, task| *task != id);
            }
            changed = stop.changed() => if changed.is_err() { break },
        }
    }
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(TRY, ended).await.is_err() {
        tracing::warn!("[SPOOL] a write has no answer: the next process retries it");
    }
}

/// Drains one session until its queue is empty or the drain is stopped. While the first entry is not settled, each
/// pause is longer than the one before.
async fn drain_session(drain: Arc<Drain>, key: Key) {
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
        // The semaphore is never closed.
        let permit = drain.at_once.acquire().await;
        let Some(head) = core.head(&key) else {
            return;
        };
        if drain_first(core, &key, head).await {
            pause = first_pause;
            continue;
        }
        drop(permit);
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
        if probing.next + longest_pause < Instant::now() {
            probing.pause = first_pause;
        }
        tokio::select! {
            () = tokio::time::sleep_until(probing.next) => {}
            () = core.up.notified() => {}
        }
        if !core.state().is_ledger_unavailable() {
            return true;
        }
        let answers = core.answers().await;
        probing.next = Instant::now() + probing.pause;
        probing.pause = (probing.pause * 2).min(longest_pause);
        answers
    }
}

/// The first entry of a session's queue, which is drained next.
struct Head {
    folder: usize,
    entry: Arc<Entry>,
    attempt: Option<Attempt>,
}

/// The ledger's answer to an entry.
pub(super) struct Done {
    pub(super) answer: Result<CommittedWrite, Failure>,
    /// `None` if the entry cannot be decoded.
    pub(super) command: Option<Command>,
}

/// Drains the first entry of a session, and returns whether it is settled now; if not, it stays queued.
async fn drain_first(core: &Arc<Core>, key: &Key, head: Head) -> bool {
    let (folder, entry) = (head.folder, head.entry.clone());
    let done = core.send_entry(key, head).await;
    match &done.answer {
        Err(failure) if failure.code == ErrorCode::StoreUnavailable => {
            // Only this write failed if the ledger answers a probe.
            if !core.answers().await {
                core.mark_down(failure);
            }
            core.log_stuck(key, failure);
            return false;
        }
        // The entry could not be decoded, so it was not sent to the ledger.
        _ if done.command.is_none() => {}
        _ => core.mark_up(),
    }
    if let Err(failure) = &done.answer
        && core.stays_queued(key, (folder, entry.place.id), failure)
    {
        core.log_stuck(key, failure);
        return false;
    }
    let (worker, to) = (core.clone(), key.clone());
    let settled = move || worker.settle(&to, (folder, &entry), &done);
    let settled = tokio::task::spawn_blocking(settled).await;
    match settled.map_err(std::io::Error::other) {
        Ok(Ok(())) => true,
        Ok(Err(error)) | Err(error) => {
            tracing::error!(%error, tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), "[SPOOL] an entry cannot be marked done");
            false
        }
    }
}

impl Core {
    fn head(&self, key: &Key) -> Option<Head> {
        let mut state = self.state();
        let first = state.queues.get_mut(key)?.front_mut()?;
        Some(Head {
            folder: first.folder,
            entry: first.entry.clone(),
            attempt: first.attempt.take(),
        })
    }

    /// Sends an entry to the ledger.
    async fn send_entry(&self, key: &Key, head: Head) -> Done {
        let entry = &head.entry;
        let command = match Command::decode(&entry.body, self.entropy.as_ref()) {
            Ok(command) => command,
            Err(failure) => {
                return Done {
                    answer: Err(Failure::new(ErrorCode::Invalid, failure.detail)),
                    command: None,
                };
            }
        };
        let first_try = match head.attempt {
            Some(attempt) => self.await_first_try_end(attempt).await,
            None => None,
        };
        if let (Some(granted), Some(Ok(stored))) = (&entry.lease, &first_try)
            && let Outcome::Lease { lease, .. } = &stored.outcome
        {
            self.release_unclaimed(granted, &command, lease).await;
        }
        let answer = match first_try {
            Some(Ok(stored)) if entry.lease.is_none() => Ok(stored),
            // The outcome of the first try is unknown, or the ledger refused the write, perhaps by a rule that does not
            // apply to queued writes. Sent again, a write that was committed changes nothing.
            _ => self.put_into_ledger(key, entry, &command).await,
        };
        Done {
            answer,
            command: Some(command),
        }
    }

    /// The result of a first try; `None` if the try does not end in time or its task has panicked.
    async fn await_first_try_end(
        &self,
        attempt: Attempt,
    ) -> Option<Result<CommittedWrite, Failure>> {
        tokio::time::timeout(TRY, attempt).await.ok()?.ok()
    }

    /// Whether the ledger answers a small query in time. A failure other than `store_unavailable` is an answer as well.
    pub(super) async fn answers(&self) -> bool {
        let inner: &dyn Ledger = self.inner.as_ref();
        let probe = inner.query_reserved(|snapshot| snapshot.view.newest_log().map(|_| ()));
        match tokio::time::timeout(self.options.after * PROBE, probe).await {
            Ok(Err(failure)) => failure.code != ErrorCode::StoreUnavailable,
            Ok(Ok(())) => true,
            Err(_) => false,
        }
    }

    async fn put_into_ledger(
        &self,
        key: &Key,
        entry: &Entry,
        command: &Command,
    ) -> Result<CommittedWrite, Failure> {
        if let Some(lease) = &entry.lease {
            return self
                .inner
                .write(as_queued(lease, command, self.clock.now()))
                .await;
        }
        let trace = Trace::begin(command);
        let stored = self.inner.write(command.clone()).await?;
        let outcome = &stored.outcome;
        if let Some(trace) = trace {
            trace.done(outcome);
        }
        if let Outcome::Checkpoint {
            checkpoint,
            created: true,
            ..
        } = outcome
        {
            let state = word_of(checkpoint.label.as_deref());
            tracing::info!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), seq = checkpoint.seq, state = %state, "[CHECKPOINT]");
        }
        Ok(stored)
    }

    /// Whether a failed write stays queued and is tried again. After a permanent failure it does not, because it would
    /// block its session: the failure counts as a refusal.
    fn stays_queued(&self, key: &Key, id: (usize, u64), failure: &Failure) -> bool {
        match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing => false,
            ErrorCode::Internal => self.state().count_failure(key, id) < TRIES,
            code => code.status() >= 500,
        }
    }

    fn log_stuck(&self, key: &Key, failure: &Failure) {
        // `mark_down` has logged an unavailable ledger, once for all sessions.
        if !self.state().is_ledger_unavailable() {
            tracing::warn!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), err = %failure.code, detail = %failure.detail, "[SPOOL] a write cannot be drained yet");
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
