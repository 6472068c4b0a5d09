//! The drain: what waits goes into the ledger, each session's writes in their order, as soon as it answers.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{Command, Outcome, Write};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Core;
use super::folder::{Dead, Entry};
use super::known::Key;
use super::state::{Attempt, Letter, refusal};
use crate::calls::Journaled;
use crate::trace::Trace;

/// Sessions that are drained at once.
const AT_ONCE: usize = 16;
/// How long the end of a try is waited for that took too long.
const TRY: Duration = Duration::from_secs(30);

/// Drains until it is stopped, between two writes.
pub(super) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let (first, most) = core.options.pause;
    let mut pause = first;
    loop {
        if *stop.borrow_and_update() {
            return;
        }
        let keys: Vec<Key> = core.state().queues.keys().cloned().collect();
        if keys.is_empty() {
            tokio::select! {
                () = core.wake.notified() => {}
                changed = stop.changed() => if changed.is_err() { return },
            }
            continue;
        }
        match round(&core, keys, &stop).await {
            true => pause = first,
            false => {
                let until = Instant::now() + pause;
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    changed = stop.changed() => if changed.is_err() { return },
                }
                pause = (pause * 2).min(most);
            }
        }
    }
}

/// Drains what can be drained; whether all of it could.
async fn round(core: &Arc<Core>, keys: Vec<Key>, stop: &watch::Receiver<bool>) -> bool {
    let mut keys = keys.into_iter();
    let mut well = true;
    // One alone finds out whether the ledger is back.
    if core.state().down.is_some()
        && let Some(key) = keys.next()
    {
        well &= session(core, &key, stop).await;
        if core.state().down.is_some() {
            return false;
        }
    }
    let mut under_way = JoinSet::new();
    for key in keys {
        if under_way.len() >= AT_ONCE {
            well &= matches!(under_way.join_next().await, Some(Ok(true)));
        }
        let (core, stop) = (core.clone(), stop.clone());
        under_way.spawn(async move { session(&core, &key, &stop).await });
    }
    while let Some(drained) = under_way.join_next().await {
        well &= matches!(drained, Ok(true));
    }
    well
}

struct Head {
    folder: usize,
    entry: Arc<Entry>,
    attempt: Option<Attempt>,
    last: bool,
}

/// Drains one session; whether nothing of it waits any more.
async fn session(core: &Arc<Core>, key: &Key, stop: &watch::Receiver<bool>) -> bool {
    while !*stop.borrow() {
        let Some(head) = core.head(key) else {
            return true;
        };
        let Head {
            folder,
            entry,
            attempt,
            last,
        } = head;
        let done = match core.decoded(&entry) {
            Ok(command) => {
                let answer = match attempt {
                    Some(attempt) => core.ended(attempt).await,
                    None => None,
                };
                if let (Some(given), Some(Ok(Outcome::Lease { lease, .. }))) =
                    (&entry.lease, &answer)
                {
                    core.give_back(given, &command, lease).await;
                }
                let answer = match answer {
                    Some(answer) if entry.lease.is_none() && !may_be_done(&answer) => answer,
                    // Nobody knows, or it was not done: again, which changes nothing if it was.
                    _ => core.put_into_ledger(key, &entry, &command).await,
                };
                Done {
                    answer,
                    command: Some(command),
                }
            }
            Err(failure) => Done {
                answer: Err(Failure::new(ErrorCode::Invalid, failure.detail)),
                command: None,
            },
        };
        if let Err(failure) = &done.answer
            && failure.code.status() >= 500
        {
            core.not_drained(key, failure);
            return false;
        }
        core.is_up();
        let (worker, to) = (core.clone(), key.clone());
        let settled = move || worker.settle(&to, (folder, &entry), &done, last);
        match tokio::task::spawn_blocking(settled).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "[SPOOL] an entry cannot be crossed out");
                return false;
            }
            Err(error) => {
                tracing::error!(%error, "[SPOOL] an entry cannot be crossed out");
                return false;
            }
        }
    }
    false
}

struct Done {
    answer: Result<Outcome, Failure>,
    command: Option<Command>,
}

fn may_be_done(answer: &Result<Outcome, Failure>) -> bool {
    matches!(answer, Err(failure) if failure.code.status() >= 500)
}

impl Core {
    fn head(&self, key: &Key) -> Option<Head> {
        let mut state = self.state();
        let queue = state.queues.get_mut(key)?;
        let last = queue.len() == 1;
        let first = queue.front_mut()?;
        Some(Head {
            folder: first.folder,
            entry: first.entry.clone(),
            attempt: first.attempt.take(),
            last,
        })
    }

    fn decoded(&self, entry: &Entry) -> Result<Command, Failure> {
        Command::decode(&entry.body, self.entropy.as_ref())
    }

    /// How a try has ended; `None` when it goes on for too long.
    async fn ended(&self, attempt: Attempt) -> Option<Result<Outcome, Failure>> {
        tokio::time::timeout(TRY, attempt).await.ok()?.ok()
    }

    async fn put_into_ledger(
        &self,
        key: &Key,
        entry: &Entry,
        command: &Command,
    ) -> Result<Outcome, Failure> {
        if let Some(lease) = &entry.lease {
            return self.tell_lease(lease, command).await;
        }
        let trace = Trace::begin(&command.scope, &command.write);
        let journaled = Journaled::of(&command.scope, &command.write);
        let outcome = self.inner.write(command.clone()).await?;
        if let Some(trace) = trace {
            trace.done(&outcome);
        }
        if let Some(journaled) = journaled {
            journaled.done(&outcome);
        }
        if let Outcome::Checkpoint {
            checkpoint,
            created: true,
            ..
        } = &outcome
        {
            let state = checkpoint.label.as_deref().unwrap_or("-");
            tracing::info!(tenant_id = %key.0, call_id = %key.1, seq = checkpoint.seq, state, "[CHECKPOINT]");
        }
        Ok(outcome)
    }

    fn not_drained(&self, key: &Key, failure: &Failure) {
        if failure.code == ErrorCode::StoreUnavailable {
            return self.went_down(failure);
        }
        tracing::warn!(tenant_id = %key.0, call_id = %key.1, err = %failure.code, "[SPOOL] a write cannot be drained yet");
    }

    fn is_up(&self) {
        let mut state = self.state();
        if state.down.take().is_some() {
            let (entries, sessions) = (state.entries, state.queues.len());
            tracing::info!(entries, sessions, "[SPOOL] the ledger is back: draining");
        }
    }

    /// Somebody else has taken the session: what was written here under a lease that the ledger does not know is refused,
    /// also where the other's fence has the same number. The lease is crossed out last, so that a process that dies in
    /// between finds it first.
    fn overtaken(&self, key: &Key, failure: &Failure) -> std::io::Result<()> {
        let now = self.clock.now();
        let mut files = self.files();
        let mut state = self.state();
        state.known.forget(key);
        let waits = state.queues.remove(key).unwrap_or_default();
        tracing::warn!(tenant_id = %key.0, call_id = %key.1, err = %failure.code, writes = waits.len(), "[SPOOL] somebody else has taken the session");
        let mut touched = std::collections::BTreeSet::new();
        let (leases, writes): (Vec<_>, Vec<_>) =
            waits.iter().partition(|w| w.entry.lease.is_some());
        for waits in writes.into_iter().chain(leases.into_iter().rev()) {
            let (nth, entry) = (waits.folder, &waits.entry);
            state.entries -= 1;
            state.bytes -= entry.bytes();
            touched.insert(nth);
            let Some(folder) = files.at(nth) else {
                continue;
            };
            if entry.lease.is_none() {
                let letter = folder.next_id();
                let dead = dead(entry, refusal(letter, now, failure), failure);
                folder.bury(&dead)?;
                state.counts.refused += 1;
                state.dead.push(Letter::of(nth, &dead));
                tracing::error!(tenant_id = %key.0, call_id = %key.1, what = %entry.place.what, letter, err = %failure.code, "[SPOOL] the ledger has refused a write: a dead letter");
            }
            folder.done(entry.place.id, true)?;
        }
        let waiting: Vec<_> = touched.iter().map(|n| (*n, state.of_folder(*n))).collect();
        drop(state);
        for (nth, waiting) in waiting {
            tidied(&mut files, nth, &waiting)?;
        }
        self.settled.send_modify(|n| *n += 1);
        Ok(())
    }

    /// Crosses an entry out that the ledger has taken, or keeps it as a dead letter.
    fn settle(
        &self,
        key: &Key,
        (nth, entry): (usize, &Entry),
        done: &Done,
        last: bool,
    ) -> std::io::Result<()> {
        let id = entry.place.id;
        let now = self.clock.now();
        let mut files = self.files();
        if let Some(folder) = files.at(nth) {
            if let (Err(failure), None) = (&done.answer, &entry.lease) {
                let letter = folder.next_id();
                let dead = dead(entry, refusal(letter, now, failure), failure);
                folder.bury(&dead)?;
                let mut state = self.state();
                state.counts.refused += 1;
                state.dead.push(Letter::of(nth, &dead));
                tracing::error!(tenant_id = %key.0, call_id = %key.1, what = %entry.place.what, letter, err = %failure.code, "[SPOOL] the ledger has refused a write: a dead letter");
            }
            if let (Err(failure), Some(_)) = (&done.answer, &entry.lease) {
                drop(files);
                return self.overtaken(key, failure);
            }
            // Done twice, one that covers whatever is there would cover more than it was meant to; and a fence that was given
            // is told once.
            let covers = entry.lease.is_some()
                || done.command.as_ref().is_some_and(
                    |c| matches!(&c.write, Write::PutCheckpoint(put) if put.seq.is_none()),
                );
            if let Err(error) = folder.done(id, last || covers) {
                // It is done again after a restart, which changes nothing.
                tracing::warn!(%error, "[SPOOL] an entry that is done with is not crossed out");
            }
        }
        let mut state = self.state();
        state.pop(key, (nth, id));
        match (&done.answer, &done.command) {
            (Ok(outcome), Some(command)) if entry.lease.is_none() => {
                state.counts.drained += 1;
                state.change(key, |known| known.drained(command, outcome));
            }
            (Ok(_), _) => state.counts.drained += 1,
            // Somebody else has the session: what is known of it is of no use any more.
            (Err(_), _) if !state.is_queued(key) => {
                state.known.forget(key);
            }
            (Err(_), _) => {}
        }
        let (waiting, empty) = (state.of_folder(nth), state.entries == 0);
        let drained = state.counts.drained;
        let is_settled = !state.is_queued(key);
        drop(state);
        if empty {
            tracing::info!(drained, "[SPOOL] nothing waits any more");
        }
        tidied(&mut files, nth, &waiting)?;
        if is_settled {
            self.settled.send_modify(|n| *n += 1);
        }
        Ok(())
    }
}

/// Keeps the file of entries short, and takes away a folder that somebody else had left and that is empty now.
fn tidied(
    files: &mut super::files::Files,
    nth: usize,
    waiting: &[Arc<Entry>],
) -> std::io::Result<()> {
    let Some(folder) = files.at(nth) else {
        return Ok(());
    };
    if waiting.is_empty() {
        folder.empty()?;
        if nth > 0
            && let Some(folder) = files.folders.get_mut(nth).and_then(Option::take)
        {
            let kept = folder.remove_if_empty()?;
            if let Some(slot) = files.folders.get_mut(nth) {
                *slot = kept;
            }
        }
        return Ok(());
    }
    if folder.is_worn(waiting.iter().map(|entry| entry.bytes()).sum()) {
        folder.rewrite(waiting.iter().map(AsRef::as_ref))?;
    }
    Ok(())
}

fn dead(entry: &Entry, refusal: super::frame::Refusal, failure: &Failure) -> Dead {
    // What was erased is not kept here either.
    let erased = failure.code == ErrorCode::SessionErased;
    Dead {
        place: Some(entry.place.clone()),
        refusal,
        body: if erased {
            Vec::new()
        } else {
            entry.body.clone()
        },
    }
}
