//! Writes that wait for the ledger: what is answered meanwhile, and what is refused as the rules would.

use std::sync::Arc;
use std::time::Instant;

use filrouge_store::command::{Command, Outcome, Write};
use filrouge_store::rows::HeadLease;
use filrouge_store::rules::refusal;
use filrouge_store::rules::tenure::Tenure;
use filrouge_store::{Durability, Stored};
use filrouge_types::{ErrorCode, Failure, TurnStatus, UNPLACED};

use super::Core;
use super::folder::Entry;
use super::frame::{LeaseNow, Place};
use super::known::{Key, Known};
use super::provisional::{self, word};
use super::state::{Attempt, Waits};
use super::write::unavailable;

/// An entry that is to be queued.
pub(super) struct Queueing {
    /// The lease as it was given here, and what stood before: that stands again when the entry cannot be kept.
    pub(super) lease: Option<(LeaseNow, (u64, Option<HeadLease>))>,
    pub(super) command: Command,
    pub(super) outcome: Outcome,
    pub(super) attempt: Option<Attempt>,
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
        let command = provisional::keyed(command, self.entropy.as_ref())?;
        let known = self.state().known(key).cloned();
        let known = known.ok_or_else(|| unavailable("the session is not known here any more"))?;
        // What is not known here is the ledger's affair, if that is only slow.
        let newer = command.scope.hold.is_some_and(|h| h.fence > known.fence);
        let now = self.clock.now();
        let outcome = provisional::outcome(&command, &known, &self.keyring, now);
        if failure.is_none() && (newer || outcome.is_none()) && !self.state().is_down() {
            self.wait_settled(key).await?;
            return Box::pin(self.written(command)).await;
        }
        let repeated = self.repeated(key, &command, &known);
        self.check_fence(key, &command, &known, matches!(repeated, Ok(Some(_))))?;
        if let Some(outcome) = repeated? {
            if command.scope.hold.is_some_and(|hold| hold.release) {
                self.state().change(key, |known| known.give_free(now));
            }
            return Ok(spooled(outcome));
        }
        if let Write::PutCheckpoint(put) = &command.write
            && put.seq.is_some_and(|seq| seq > known.last_seq)
        {
            let what = "the seq is not known here, and the ledger does not answer";
            let hint = "name no seq while writes wait: the checkpoint covers all that was written before it";
            return Err(failure.unwrap_or_else(|| unavailable(what)).with_hint(hint));
        }
        let Some(outcome) = outcome else {
            let what = "the turn is not known here, and the ledger does not answer";
            return Err(failure.unwrap_or_else(|| unavailable(what)));
        };
        let queueing = Queueing {
            lease: None,
            command: provisional::queued(&command, now),
            outcome: outcome.clone(),
            attempt,
        };
        self.enqueue(key, queueing).await?;
        Ok(spooled(outcome))
    }

    /// As the rules do, by the lease as it is known here; what `repeats` an earlier write is answered under a lease whose
    /// time is up as well.
    fn check_fence(
        &self,
        key: &Key,
        command: &Command,
        known: &Known,
        repeats: bool,
    ) -> Result<(), Failure> {
        let Some(hold) = command.scope.hold else {
            return Ok(());
        };
        if hold.fence > known.fence {
            return Err(unavailable(
                "the fence is not known here, and the ledger does not answer",
            ));
        }
        let unknown = HeadLease {
            fence: known.fence,
            ..HeadLease::default()
        };
        let event = matches!(command.write, Write::RecordEvent(_));
        // Of a lease that was not given here the time is not known.
        let untimed = event || known.held.is_none() || repeats;
        let tenure = Tenure {
            session: &key.1,
            lease: known.held.as_ref().unwrap_or(&unknown),
            now: self.clock.now(),
        };
        tenure.check_fence(hold.fence, untimed)
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
            Write::Append(append) => {
                match known.appended(append) {
                    Some(true) => Some(Outcome::Appended {
                        first_seq: UNPLACED,
                        last_seq: UNPLACED,
                        replayed: true,
                        put: None,
                    }),
                    Some(false) => {
                        let what = "the items' ids were used with another body, which waits";
                        return Err(Failure::new(ErrorCode::IdempotencyMismatch, what)
                        .with_hint("send a batch again exactly as it was first sent, or take new item ids"));
                    }
                    None => match known.turn(append.turn_id) {
                        Some(k) if k.turn.status != TurnStatus::Open => {
                            let redacted = k.turn.deleted_at.is_some();
                            return Err(refusal::turn_closed(
                                &append.turn_id,
                                k.turn.status,
                                redacted,
                            ));
                        }
                        _ => None,
                    },
                }
            }
            Write::PutCheckpoint(put) if self.state().is_queued(key) => {
                known.repeats(put).map(|checkpoint| Outcome::Checkpoint {
                    checkpoint: Box::new(checkpoint.clone()),
                    created: false,
                    last_seq: known.last_seq,
                })
            }
            _ => None,
        };
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
        let put = tokio::task::spawn_blocking(move || {
            let given = queueing.lease.clone();
            let put = core.put(&to, queueing);
            if put.is_err()
                && let Some((lease, before)) = given
            {
                core.take_back(&to, &lease, before);
            }
            put
        });
        let ended = |e: tokio::task::JoinError| {
            Failure::new(ErrorCode::Internal, format!("the spool: {e}"))
        };
        put.await.map_err(ended)??;
        tracing::warn!(reason = %what, tenant_id = %crate::calls::word(key.0.as_str()), call_id = %crate::calls::word(key.1.as_str()), "[CALL_JOURNAL_WARN] pg_down");
        Ok(())
    }

    /// A lease that was given here and cannot be kept on disk was not given.
    fn take_back(&self, key: &Key, lease: &LeaseNow, before: (u64, Option<HeadLease>)) {
        let mut state = self.state();
        if state.known(key).is_some_and(|k| k.fence == lease.fence) {
            state.change(key, |known| (known.fence, known.held) = before);
        }
    }

    fn put(&self, key: &Key, queueing: Queueing) -> Result<(), Failure> {
        let Queueing {
            lease,
            command,
            outcome,
            attempt,
        } = queueing;
        let lease = lease.map(|(lease, _)| lease);
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
        self.check_not_overtaken(key, &entry, &command)?;
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
        state.change(key, |known| {
            known.learn(&command, &outcome, now);
            known.noted(&command);
        });
        drop(state);
        // Here, for who waits for the answer may have gone.
        self.wake.notify_one();
        Ok(())
    }

    /// Somebody may have been found to have the session since the write was asked.
    fn check_not_overtaken(
        &self,
        key: &Key,
        entry: &Entry,
        command: &Command,
    ) -> Result<(), Failure> {
        let hold = command.scope.hold.map(|hold| hold.fence);
        let fence = entry.lease.as_ref().map(|lease| lease.fence).or(hold);
        match self.state().known(key) {
            Some(known) if fence.is_none_or(|fence| fence == known.fence) => Ok(()),
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

/// The answer to a write that waits.
pub(super) const fn spooled(outcome: Outcome) -> Stored {
    Stored {
        outcome,
        durability: Durability::Spooled,
    }
}

fn full(what: String) -> Failure {
    Failure::new(ErrorCode::SpoolFull, what)
        .with_hint("nothing of what waits is lost; bring the ledger back, or raise `spool.bytes`")
}
