//! The drain: what waits goes into the ledger, each session's writes in their order, as soon as it answers. Sessions do not
//! wait for each other: one whose writes are not taken rests, and is asked again ever less often.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::{Ledger, Stored};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Core;
use super::folder::Entry;
use super::here::told;
use super::known::Key;
use super::state::Attempt;
use crate::calls::{word, word_of};
use crate::trace::Trace;

/// Sessions that are drained at once.
const AT_ONCE: usize = 16;
/// How long the end of a try is waited for that took too long, and that of all when the drain is stopped.
const TRY: Duration = Duration::from_secs(30);
/// How often a write is tried that the ledger fails at without saying why.
const TRIES: u8 = 5;
/// How long a small question to the ledger may take, in the patience of a write.
const PROBE: u32 = 5;

/// What the sessions share that are drained.
struct Drain {
    core: Arc<Core>,
    stop: watch::Receiver<bool>,
    at_once: Semaphore,
    /// The task that asks an unavailable ledger holds it; the others wait for it.
    asking: Mutex<Asking>,
}

/// When an unavailable ledger is asked next, and the pause after that.
struct Asking {
    next: Instant,
    pause: Duration,
}

/// Drains until it is stopped, between two writes: a task for each session of which writes wait.
pub(super) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let drain = Arc::new(Drain {
        core: core.clone(),
        stop: stop.clone(),
        at_once: Semaphore::new(AT_ONCE),
        asking: Mutex::new(Asking {
            next: Instant::now(),
            pause: core.options.pause.0,
        }),
    });
    let (mut tasks, mut drained) = (JoinSet::new(), HashMap::new());
    while !*stop.borrow_and_update() {
        let queued: Vec<Key> = core.state().queues.keys().cloned().collect();
        for key in queued {
            drained.entry(key).or_insert_with_key(|key| {
                let task = tasks.spawn(session(drain.clone(), key.clone()));
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
        tracing::warn!("[SPOOL] a write has no answer: it is done again by the next process");
    }
}

/// Drains one session. One whose first write is not taken rests, ever longer.
async fn session(drain: Arc<Drain>, key: Key) {
    let (core, mut stop) = (&drain.core, drain.stop.clone());
    let (first_pause, most) = core.options.pause;
    let mut pause = first_pause;
    while !*stop.borrow() {
        let is_asked = tokio::select! {
            is_asked = drain.may_ask() => is_asked,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        if !is_asked {
            continue;
        }
        // It is never closed.
        let one_of_many = drain.at_once.acquire().await;
        let Some(head) = core.head(&key) else {
            return;
        };
        if first(core, &key, head).await {
            pause = first_pause;
            continue;
        }
        drop(one_of_many);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        pause = (pause * 2).min(most);
    }
}

impl Drain {
    /// Whether the ledger can be asked to take a write. While it is away one session after the other finds that out, the
    /// one that was asked longest ago first.
    async fn may_ask(&self) -> bool {
        let core = &self.core;
        if !core.state().is_down() {
            return true;
        }
        let (first, most) = core.options.pause;
        let mut asking = self.asking.lock().await;
        if asking.next + most < Instant::now() {
            asking.pause = first;
        }
        tokio::select! {
            () = tokio::time::sleep_until(asking.next) => {}
            () = core.up.notified() => {}
        }
        if !core.state().is_down() {
            return true;
        }
        let answers = core.answers().await;
        asking.next = Instant::now() + asking.pause;
        asking.pause = (asking.pause * 2).min(most);
        answers
    }
}

/// An entry that is drained next.
struct Head {
    folder: usize,
    entry: Arc<Entry>,
    attempt: Option<Attempt>,
}

/// What the ledger has said to an entry.
pub(super) struct Done {
    pub(super) answer: Result<Stored, Failure>,
    /// Nothing, when the entry holds none.
    pub(super) command: Option<Command>,
}

/// Drains the first entry of a session; whether it is done with.
async fn first(core: &Arc<Core>, key: &Key, head: Head) -> bool {
    let (folder, entry) = (head.folder, head.entry.clone());
    let done = core.asked(key, head).await;
    match &done.answer {
        Err(failure) if failure.code == ErrorCode::StoreUnavailable => {
            // A ledger that answers others is not away.
            if !core.answers().await {
                core.went_down(failure);
            }
            core.is_stuck(key, failure);
            return false;
        }
        // The ledger has not been asked.
        _ if done.command.is_none() => {}
        _ => core.is_up(),
    }
    if let Err(failure) = &done.answer
        && core.is_tried_again(key, (folder, entry.place.id), failure)
    {
        core.is_stuck(key, failure);
        return false;
    }
    let (worker, to) = (core.clone(), key.clone());
    let settled = move || worker.settle(&to, (folder, &entry), &done);
    let settled = tokio::task::spawn_blocking(settled).await;
    match settled.map_err(std::io::Error::other) {
        Ok(Ok(())) => true,
        Ok(Err(error)) | Err(error) => {
            tracing::error!(%error, tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), "[SPOOL] an entry cannot be crossed out");
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

    /// What the ledger says to an entry.
    async fn asked(&self, key: &Key, head: Head) -> Done {
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
            Some(attempt) => self.ended(attempt).await,
            None => None,
        };
        if let (Some(given), Some(Ok(stored))) = (&entry.lease, &first_try)
            && let Outcome::Lease { lease, .. } = &stored.outcome
        {
            self.give_back(given, &command, lease).await;
        }
        let answer = match first_try {
            Some(Ok(stored)) if entry.lease.is_none() => Ok(stored),
            // Nobody knows, or it was refused as a write that did not wait: again, which changes nothing if it was done.
            _ => self.put_into_ledger(key, entry, &command).await,
        };
        Done {
            answer,
            command: Some(command),
        }
    }

    /// How a try has ended; `None` when it goes on for too long.
    async fn ended(&self, attempt: Attempt) -> Option<Result<Stored, Failure>> {
        tokio::time::timeout(TRY, attempt).await.ok()?.ok()
    }

    /// Whether the ledger answers a small question. A failure is an answer as well.
    pub(super) async fn answers(&self) -> bool {
        let inner: &dyn Ledger = self.inner.as_ref();
        let asked = inner.ask_apart(|sight| sight.view.newest_log().map(|_| ()));
        match tokio::time::timeout(self.options.after * PROBE, asked).await {
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
    ) -> Result<Stored, Failure> {
        if let Some(lease) = &entry.lease {
            return self
                .inner
                .write(told(lease, command, self.clock.now()))
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

    /// Whether a write that failed waits on: what fails for good is refused, so that it does not hold up its session.
    fn is_tried_again(&self, key: &Key, id: (usize, u64), failure: &Failure) -> bool {
        match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing => false,
            ErrorCode::Internal => self.state().has_failed(key, id) < TRIES,
            code => code.status() >= 500,
        }
    }

    fn is_stuck(&self, key: &Key, failure: &Failure) {
        // Of a ledger that is away is told once.
        if !self.state().is_down() {
            tracing::warn!(tenant_id = %word(key.0.as_str()), call_id = %word(key.1.as_str()), err = %failure.code, detail = %failure.detail, "[SPOOL] a write cannot be drained yet");
        }
    }

    fn is_up(&self) {
        let mut state = self.state();
        if state.down.take().is_some() {
            let (entries, sessions) = (state.entries, state.queues.len());
            tracing::info!(entries, sessions, "[SPOOL] the ledger is back: draining");
            self.up.notify_waiters();
        }
    }
}
