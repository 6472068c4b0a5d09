//! The drain: what waits goes into the ledger, each session's writes in their order, as soon as it answers. Sessions do not
//! wait for each other: one whose writes are not taken rests, and is asked again ever less often.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::{Ledger, Stored};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::Core;
use super::folder::Entry;
use super::known::Key;
use super::lease::told;
use super::state::Attempt;
use crate::calls::{Journaled, word, word_of};
use crate::trace::Trace;

/// Sessions that are drained at once.
const AT_ONCE: usize = 16;
/// How long the end of a try is waited for that took too long, and that of all when the drain is stopped.
const TRY: Duration = Duration::from_secs(30);
/// How often a write is tried that the ledger fails at without saying why.
const TRIES: u8 = 5;
/// How long a small question to the ledger may take, in the patience of a write.
const PROBE: u32 = 5;

/// Drains until it is stopped, between two writes.
pub(super) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let mut drain = Drain {
        rests: Rest::new(core.options.pause.0),
        core: core.clone(),
        stop: stop.clone(),
        tasks: JoinSet::new(),
        keys: HashMap::new(),
        resting: HashMap::new(),
        probing: false,
    };
    while !*stop.borrow_and_update() {
        let again = drain.go_on();
        let again = async {
            match again {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = core.wake.notified() => {}
            Some(ended) = drain.tasks.join_next_with_id() => drain.ended(ended),
            () = again => {}
            changed = stop.changed() => if changed.is_err() { break },
        }
    }
    let ended = async { while drain.tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(TRY, ended).await.is_err() {
        tracing::warn!("[SPOOL] a write has no answer: it is done again by the next process");
    }
}

/// When somebody is asked again.
struct Rest {
    until: Instant,
    pause: Duration,
}

impl Rest {
    fn new(pause: Duration) -> Self {
        Self {
            until: Instant::now(),
            pause,
        }
    }

    /// Ever longer.
    fn begin(&mut self, most: Duration) {
        self.until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(most);
    }
}

/// How a task of the drain has ended.
enum Ended {
    /// Whether the ledger answers.
    Probed(bool),
    /// Nothing of the session waits any more.
    Drained,
    /// Its first write is not taken just now; whether others were before.
    Stuck { moved: bool },
}

struct Drain {
    core: Arc<Core>,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<Ended>,
    /// The sessions that are being drained.
    keys: HashMap<Id, Key>,
    /// Those that are not asked for a while.
    resting: HashMap<Key, Rest>,
    /// The ledger is being asked whether it is back.
    probing: bool,
    /// When it is asked next.
    rests: Rest,
}

impl Drain {
    /// Begins what is due; when to look again if nothing happens before.
    fn go_on(&mut self) -> Option<Instant> {
        if !self.core.state().is_down() {
            self.rests = Rest::new(self.core.options.pause.0);
            let (due, next) = self.due();
            due.into_iter().for_each(|key| self.begin(key));
            return next;
        }
        if self.probing {
            return None;
        }
        if self.rests.until > Instant::now() {
            return Some(self.rests.until);
        }
        self.probing = true;
        let (core, mut stop) = (self.core.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                answers = core.answers() => Ended::Probed(answers),
                _ = stop.wait_for(|stop| *stop) => Ended::Probed(false),
            }
        });
        None
    }

    /// The sessions that may be asked, as many as may be drained at once, and when the next one may.
    fn due(&mut self) -> (Vec<Key>, Option<Instant>) {
        let room = AT_ONCE.saturating_sub(self.keys.len());
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        let (now, state) = (Instant::now(), self.core.state());
        self.resting.retain(|key, _| state.is_queued(key));
        for key in state.queues.keys() {
            if due.len() >= room {
                break;
            }
            if self.keys.values().any(|k| k == key) {
                continue;
            }
            match self.resting.get(key) {
                Some(rest) if rest.until > now => {
                    next = Some(next.map_or(rest.until, |at| at.min(rest.until)));
                }
                _ => due.push(key.clone()),
            }
        }
        (due, next)
    }

    /// The session that was asked longest ago.
    fn next_to_try(&self) -> Option<Key> {
        if self.keys.len() >= AT_ONCE {
            return None;
        }
        let state = self.core.state();
        let idle = state.queues.keys();
        let idle = idle.filter(|key| !self.keys.values().any(|k| k == *key));
        idle.min_by_key(|key| self.resting.get(key).map(|rest| rest.until))
            .cloned()
    }

    fn begin(&mut self, key: Key) {
        let (core, stop, of) = (self.core.clone(), self.stop.clone(), key.clone());
        let task = self
            .tasks
            .spawn(async move { session(&core, &of, &stop).await });
        self.keys.insert(task.id(), key);
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (first, most) = self.core.options.pause;
        let (id, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "[SPOOL] a task of the drain has ended by itself");
                (error.id(), Ended::Stuck { moved: false })
            }
        };
        let Some(key) = self.keys.remove(&id) else {
            self.probing = false;
            self.rests.begin(most);
            // It answers what it is asked; one session finds out whether it takes writes.
            if let (Ended::Probed(true), Some(key)) = (ended, self.next_to_try()) {
                self.begin(key);
            }
            return;
        };
        match ended {
            Ended::Stuck { moved } => {
                let rest = self.resting.entry(key);
                let rest = rest.or_insert_with(|| Rest::new(first));
                if moved {
                    rest.pause = first;
                }
                rest.begin(most);
            }
            Ended::Drained | Ended::Probed(_) => {
                self.resting.remove(&key);
            }
        }
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

/// Drains one session, as far as it goes.
async fn session(core: &Arc<Core>, key: &Key, stop: &watch::Receiver<bool>) -> Ended {
    let mut moved = false;
    while !*stop.borrow() {
        let Some(head) = core.head(key) else {
            return Ended::Drained;
        };
        if !first(core, key, head).await {
            break;
        }
        moved = true;
    }
    Ended::Stuck { moved }
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
        let trace = Trace::begin(&command.scope, &command.write);
        let journaled = Journaled::of(&command.scope, &command.write);
        let stored = self.inner.write(command.clone()).await?;
        let outcome = &stored.outcome;
        if let Some(trace) = trace {
            trace.done(outcome);
        }
        if let Some(journaled) = journaled {
            journaled.done(outcome);
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
            self.wake.notify_one();
        }
    }
}
