//! Adds writes to the spool's queue.

use std::sync::Arc;
use std::time::Instant;

use filrouge_store::command::{Append, Command, FencingToken, Outcome, Write};
use filrouge_store::record::Batch;
use filrouge_store::{CommittedWrite, Durability, Entropy, random_id};
use filrouge_types::{ErrorCode, Failure, ItemId, Timestamp};

use super::Core;
use super::files::Files;
use super::folder::Entry;
use super::frame::EntryInfo;
use super::known::{KnownSession, SessionKey};
use super::lease::spooled_lease;
use super::local_session::{LocalSession, unavailable};
use super::state::{Attempt, QueuedEntry, State};

use crate::shared::internal;

/// The kind of a write as one word, for the log marker `[CALL_JOURNAL_WARN]` and for lists of the spool's contents.
fn kind_of(write: &Write) -> &'static str {
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

/// Adds an id to every item of an append if no item has one, so that the ledger recognizes the write when the drain
/// sends it again. If the caller has given any item an id, the items stay unchanged: one id is enough to recognize all
/// of them, and a retry by the caller must be equal to them.
pub(super) fn with_item_ids(command: Command, entropy: &dyn Entropy) -> Result<Command, Failure> {
    let Write::Append(append) = command.write else {
        return Ok(command);
    };
    let has_ids = append.batch.items().any(|item| item.item_id.is_some());
    if has_ids || append.progress.is_some() {
        let write = Write::Append(append);
        return Ok(Command { write, ..command });
    }
    let random = random_id(entropy)?;
    let mut entries = append.batch.entries().to_vec();
    for (n, entry) in entries.iter_mut().enumerate() {
        let id = ItemId::new(format!("spool:{random}:{n}"));
        entry.item.item_id = Some(id.map_err(|e| internal(e.to_string()))?);
    }
    let append = Append {
        batch: Batch::pack(entries, entropy)?,
        ..Arc::unwrap_or_clone(append)
    };
    let write = Write::Append(Arc::new(append));
    Ok(Command { write, ..command })
}

/// The command as it is stored in the queue. It is marked as queued: the ledger accepts it even after its lease has
/// expired, unless another caller has acquired the session's lease. An event without a time gets the present.
fn to_queued(mut command: Command, now: Timestamp) -> Command {
    if let Write::RecordEvent(event) = &mut command.write {
        event.at.get_or_insert(now);
    }
    command.scope.fence = command.scope.fence.map(|token| FencingToken {
        queued: true,
        ..token
    });
    command
}

impl Core {
    /// Queues a write after the session's other queued writes.
    ///
    /// `attempt` is the write's first attempt, if it has not ended. `failure` is the reason why that attempt has no
    /// answer; `None` if there was no attempt. In the latter case, a write that needs state that this process does not
    /// know waits for a slow ledger instead.
    pub(super) async fn queue(
        self: &Arc<Self>,
        key: &SessionKey,
        command: Command,
        attempt: Option<Attempt>,
        failure: Option<Failure>,
    ) -> Result<CommittedWrite, Failure> {
        let command = with_item_ids(command, self.entropy.as_ref())?;
        match self.enqueue(key, command.clone(), attempt).await {
            // The answer needs state that this process does not know. A ledger that is only slow can still answer.
            Err(refused)
                if refused.code == ErrorCode::StoreUnavailable
                    && failure.is_none()
                    && !self.state().is_ledger_unavailable() =>
            {
                self.wait_until_drained(key).await?;
                Box::pin(self.write_or_queue(command)).await
            }
            answer => answer,
        }
    }

    /// Answers a write by the ledger's rules over the known state, and stores it on disk after the session's other
    /// entries. A write that the rules refuse or recognize as a replay is not stored.
    pub(super) async fn enqueue(
        self: &Arc<Self>,
        key: &SessionKey,
        command: Command,
        attempt: Option<Attempt>,
    ) -> Result<CommittedWrite, Failure> {
        let kind = kind_of(&command.write);
        let (core, session) = (self.clone(), key.clone());
        let answer = tokio::task::spawn_blocking(move || {
            core.answer_and_persist(&session, command, attempt)
        });
        let answer = answer.await;
        let (outcome, is_new) = answer.map_err(|e| internal(format!("the spool: {e}")))??;
        if is_new {
            let store = self.inner.backend().kind;
            tracing::warn!(reason = %kind, tenant_id = %crate::calls::log_word(key.0.as_str()), call_id = %crate::calls::log_word(key.1.as_str()), "[CALL_JOURNAL_WARN] {store}_down");
        }
        Ok(CommittedWrite {
            outcome,
            durability: Durability::Spooled,
        })
    }

    /// Answers a write, and stores it on disk unless it is a replay. Also returns whether it was stored.
    fn answer_and_persist(
        &self,
        key: &SessionKey,
        command: Command,
        attempt: Option<Attempt>,
    ) -> Result<(Outcome, bool), Failure> {
        let now = self.clock.now();
        // The files are locked before the rules run, so that the order on disk is the order in which the rules accept
        // the writes.
        let mut files = self.files();
        let is_lease = matches!(command.write, Write::Lease(_));
        let begins = is_lease && self.begin_if_unknown(key, &command)?;
        let mut answer = self
            .local_session(&mut self.state(), key)
            .and_then(|local| {
                let unknown = || unavailable("the session is no longer known here");
                let (local_session, known) = local.ok_or_else(unknown)?;
                local_session.answer(&command, known, now)
            });
        let persisted = match &answer {
            Ok((outcome, true)) => self.persist(&mut files, key, (command, now), outcome, attempt),
            _ => Ok(()),
        };
        if begins && let Ok((Outcome::Lease { created, .. }, _)) = &mut answer {
            *created = true;
        }
        let mut state = self.state();
        let is_queued = state.is_queued(key);
        if persisted.is_err() || !is_queued {
            // The rows may contain a write that is not on disk, so they are dropped and rebuilt when next needed.
            state.local_sessions.remove(key);
        }
        if begins && !is_queued {
            state.known.forget(key);
        }
        drop(state);
        if begins && is_queued {
            self.seen.add(key);
        }
        persisted.and(answer)
    }

    /// The session's rows in memory, rebuilt if there are none, and its known state; `None` if the session is not
    /// known.
    ///
    /// # Errors
    /// Errors of the rows.
    pub(super) fn local_session<'s>(
        &self,
        state: &'s mut State,
        key: &SessionKey,
    ) -> Result<Option<(&'s mut LocalSession, &'s KnownSession)>, Failure> {
        let is_queued = state.is_queued(key);
        let Some(known) = state.known.get(key, is_queued) else {
            return Ok(None);
        };
        if !state.local_sessions.contains_key(key) {
            let mut local_session = LocalSession::rebuild(
                self.keyring.clone(),
                self.entropy.clone(),
                self.clock.clone(),
                key,
                known,
            )?;
            for queued in state.queues.get(key).into_iter().flatten() {
                local_session.apply_entry(&queued.entry, self.entropy.as_ref());
            }
            state.local_sessions.insert(key.clone(), local_session);
        }
        Ok(state
            .local_sessions
            .get_mut(key)
            .map(|local_session| (local_session, known)))
    }

    fn persist(
        &self,
        files: &mut Files,
        key: &SessionKey,
        (command, now): (Command, Timestamp),
        outcome: &Outcome,
        attempt: Option<Attempt>,
    ) -> Result<(), Failure> {
        let lease = match outcome {
            Outcome::Lease { lease, .. } => Some(spooled_lease(lease, now)),
            _ => None,
        };
        let what = kind_of(&command.write).to_owned();
        let body = to_queued(command, now)
            .encode()
            .ok_or_else(|| unavailable("a write of this kind cannot be queued"))?;
        let folder = files.own_folder()?;
        let entry = Entry {
            info: EntryInfo {
                id: folder.next_id(),
                at: now.as_micros(),
                tenant: key.0.as_str().to_owned(),
                session: key.1.as_str().to_owned(),
                what,
            },
            lease,
            body,
        };
        self.check_space(key, entry.bytes())?;
        folder.append(&entry).map_err(|e| self.write_failure(&e))?;
        let queued = QueuedEntry {
            entry: Arc::new(entry),
            folder: 0,
            since: Instant::now(),
            attempt,
        };
        let mut state = self.state();
        state.counts.spooled += 1;
        state.push(key, queued);
        drop(state);
        // The drain is woken here and not by the caller, because the caller's future may have been dropped.
        self.wake.notify_one();
        Ok(())
    }

    fn check_space(&self, key: &SessionKey, bytes: u64) -> Result<(), Failure> {
        let mut state = self.state();
        let session_entries = state.queues.get(key).map_or(0, |queue| queue.len());
        let detail = if state.bytes + bytes > self.options.bytes {
            let (held, max) = (state.bytes, self.options.bytes);
            format!("the spool holds {held} of at most {max} bytes")
        } else if session_entries >= self.options.session_entries {
            format!(
                "the spool holds {session_entries} writes of session {:?}, the maximum",
                key.1.as_str()
            )
        } else {
            return Ok(());
        };
        state.counts.full += 1;
        Err(spool_full(detail))
    }

    pub(super) fn write_failure(&self, e: &std::io::Error) -> Failure {
        let detail = format!("the spool {}: {e}", self.options.directory.display());
        match e.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                self.state().counts.full += 1;
                spool_full(detail)
            }
            _ => unavailable(&detail),
        }
    }
}

fn spool_full(detail: String) -> Failure {
    Failure::new(ErrorCode::SpoolFull, detail)
        .with_hint("queued writes are kept; restore the ledger, or raise `spool.bytes`")
}
