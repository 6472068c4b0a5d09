//! Writes that wait for the ledger.

use std::sync::Arc;
use std::time::Instant;

use filrouge_store::command::{Append, Command, Hold, Outcome, Write};
use filrouge_store::record::Batch;
use filrouge_store::{Durability, Entropy, Stored, random_id};
use filrouge_types::{ErrorCode, Failure, ItemId, Timestamp};

use super::Core;
use super::files::Files;
use super::folder::Entry;
use super::frame::Place;
use super::here::{Here, unavailable};
use super::known::{Key, Known};
use super::lease::kept;
use super::state::{Attempt, State, Waits};

/// In one word what a write is, as `[CALL_JOURNAL_WARN]` says it.
fn word(write: &Write) -> &'static str {
    match write {
        Write::Start(_) => "ensure",
        Write::Append(_) => "append",
        Write::Close(_) => "finalize",
        Write::PutCheckpoint(_) => "checkpoint",
        Write::RecordEvent(_) => "event",
        Write::Lease(_) => "lease",
        _ => "write",
    }
}

/// Gives the items of an append of which none has a key one of their own, so that doing it twice does it once. One item
/// that has a key does that for its whole batch, and a retry by the caller must find the others as they were.
pub(super) fn keyed(command: Command, entropy: &dyn Entropy) -> Result<Command, Failure> {
    let Write::Append(append) = command.write else {
        return Ok(command);
    };
    let named = append.batch.items().any(|item| item.item_id.is_some());
    if named || append.progress.is_some() {
        let write = Write::Append(append);
        return Ok(Command { write, ..command });
    }
    let word = random_id(entropy)?;
    let mut entries = append.batch.entries().to_vec();
    for (n, entry) in entries.iter_mut().enumerate() {
        let id = ItemId::new(format!("spool:{word}:{n}"));
        let internal =
            |e: filrouge_types::IdError| Failure::new(ErrorCode::Internal, e.to_string());
        entry.item.item_id = Some(id.map_err(internal)?);
    }
    let append = Append {
        batch: Batch::seal(entries, entropy)?,
        ..Arc::unwrap_or_clone(append)
    };
    let write = Write::Append(Arc::new(append));
    Ok(Command { write, ..command })
}

/// The command as it waits: late, it is still taken if nobody else has taken the session, and an event happened when it was
/// reported.
fn queued(mut command: Command, now: Timestamp) -> Command {
    if let Write::RecordEvent(event) = &mut command.write {
        event.at.get_or_insert(now);
    }
    command.scope.hold = command.scope.hold.map(|hold| Hold {
        queued: true,
        ..hold
    });
    command
}

impl Core {
    /// Queues a write, behind those of its session that wait.
    pub(super) async fn queue(
        self: &Arc<Self>,
        key: &Key,
        command: Command,
        attempt: Option<Attempt>,
        failure: Option<Failure>,
    ) -> Result<Stored, Failure> {
        let command = keyed(command, self.entropy.as_ref())?;
        match self.enqueue(key, command.clone(), attempt).await {
            // What is not known here is the ledger's affair, if that is only slow.
            Err(refused)
                if refused.code == ErrorCode::StoreUnavailable
                    && failure.is_none()
                    && !self.state().is_down() =>
            {
                self.wait_settled(key).await?;
                Box::pin(self.written(command)).await
            }
            answer => answer,
        }
    }

    /// Has the rules answer a write, and puts it on disk behind the others of its session.
    pub(super) async fn enqueue(
        self: &Arc<Self>,
        key: &Key,
        command: Command,
        attempt: Option<Attempt>,
    ) -> Result<Stored, Failure> {
        let what = word(&command.write);
        let (core, to) = (self.clone(), key.clone());
        let put = tokio::task::spawn_blocking(move || core.put(&to, command, attempt));
        let ended = |e: tokio::task::JoinError| {
            Failure::new(ErrorCode::Internal, format!("the spool: {e}"))
        };
        let (outcome, waits) = put.await.map_err(ended)??;
        if waits {
            tracing::warn!(reason = %what, tenant_id = %crate::calls::word(key.0.as_str()), call_id = %crate::calls::word(key.1.as_str()), "[CALL_JOURNAL_WARN] pg_down");
        }
        Ok(Stored {
            outcome,
            durability: Durability::Spooled,
        })
    }

    /// The answer to a write, and whether it waits now: one that repeats an earlier one does not.
    fn put(
        &self,
        key: &Key,
        command: Command,
        attempt: Option<Attempt>,
    ) -> Result<(Outcome, bool), Failure> {
        let now = self.clock.now();
        // So that writes are on disk in the order in which the rules have taken them.
        let mut files = self.files();
        let answer = self.ruled(key, &command, now);
        let kept = match &answer {
            Ok((outcome, true)) => self.keep(&mut files, key, (command, now), outcome, attempt),
            _ => Ok(()),
        };
        let mut state = self.state();
        if kept.is_err() || !state.is_queued(key) {
            // What no file has was not done.
            state.here.remove(key);
        }
        kept.and(answer)
    }

    /// The session as it goes on here; `None` when it is not known any more.
    ///
    /// # Errors
    /// Those of the rows.
    pub(super) fn here<'s>(
        &self,
        state: &'s mut State,
        key: &Key,
    ) -> Result<Option<(&'s mut Here, &'s Known)>, Failure> {
        let queued = state.is_queued(key);
        let Some(known) = state.known.get(key, queued) else {
            return Ok(None);
        };
        if !state.here.contains_key(key) {
            let mut here = Here::begin(
                self.keyring.clone(),
                self.entropy.clone(),
                self.clock.clone(),
                key,
                known,
            )?;
            for waits in state.queues.get(key).into_iter().flatten() {
                here.repeat(&waits.entry, self.entropy.as_ref());
            }
            state.here.insert(key.clone(), here);
        }
        Ok(state.here.get_mut(key).map(|here| (here, known)))
    }

    fn ruled(
        &self,
        key: &Key,
        command: &Command,
        now: Timestamp,
    ) -> Result<(Outcome, bool), Failure> {
        let mut state = self.state();
        let (here, known) = self
            .here(&mut state, key)?
            .ok_or_else(|| unavailable("the session is not known here any more"))?;
        here.answer(command, known, now)
    }

    fn keep(
        &self,
        files: &mut Files,
        key: &Key,
        (command, now): (Command, Timestamp),
        outcome: &Outcome,
        attempt: Option<Attempt>,
    ) -> Result<(), Failure> {
        let lease = match outcome {
            Outcome::Lease { lease, .. } => Some(kept(lease, now)),
            _ => None,
        };
        let what = word(&command.write).to_owned();
        let body = queued(command, now)
            .encode()
            .ok_or_else(|| unavailable("the write does not wait for the ledger"))?;
        let folder = files.own()?;
        let entry = Entry {
            place: Place {
                id: folder.next_id(),
                at: now.as_micros(),
                tenant: key.0.as_str().to_owned(),
                session: key.1.as_str().to_owned(),
                what,
            },
            lease,
            body,
        };
        self.check_room(key, entry.bytes())?;
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
        drop(state);
        // Here, for who waits for the answer may have gone.
        self.wake.notify_one();
        Ok(())
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

    pub(super) fn not_kept(&self, e: &std::io::Error) -> Failure {
        let what = format!("the spool {}: {e}", self.options.directory.display());
        match e.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                self.state().counts.full += 1;
                full(what)
            }
            _ => unavailable(&what),
        }
    }
}

fn full(what: String) -> Failure {
    Failure::new(ErrorCode::SpoolFull, what)
        .with_hint("nothing of what waits is lost; bring the ledger back, or raise `spool.bytes`")
}
