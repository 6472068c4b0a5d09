//! Runs one webhook: reads the feed, sends, and records what was delivered.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::backoff::Backoff;
use filrouge_engine::notes::{Stored, read_note, write_note};
use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{Clock, ErrorCode, Failure, Timestamp};
use tokio::sync::watch;
use tokio::time::sleep;

use super::batch::Batch;
use super::counters::WebhookCounters;
use super::dead_letters::{self, DeadLetter};
use super::message::Message;
use super::sender::{MessageSender, Refusal, SendOutcome};
use super::state::{PendingRetry, State, note_name};
use super::{WebhookSettings, WebhookStart};

/// The pause after a new commit, so that changes which follow each other closely are sent together.
const GATHER_PAUSE: Duration = Duration::from_millis(20);
/// How often the webhook's note is read during a wait, because another process or an operator may have changed it.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The number of commits without a change for the webhook after which the note's cursor is moved. So a restart does not
/// examine all of them again.
const CURSOR_WRITE_COMMITS: u64 = 4096;
/// How long a message in progress may take when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The worker's next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Step again at once.
    Again,
    /// Wait for a commit.
    Commit,
    /// Wait until this time.
    At(Timestamp),
}

/// A running webhook.
pub(super) struct Worker<P> {
    pub(super) settings: WebhookSettings,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) sender: P,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) backoff: Backoff,
    pub(super) counters: WebhookCounters,
    /// The name of this process in claims.
    pub(super) holder: String,
    /// The position up to which this process has read: between the note's cursor and it, there is no change for the
    /// webhook.
    pub(super) position: Option<ChangeCursor>,
    /// The code of the newest query of the store if it failed; `None` if it succeeded.
    pub(super) last_failure: Option<ErrorCode>,
}

impl<P: MessageSender> Worker<P> {
    /// Runs the webhook until `stopping` becomes true, then releases its claim.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut commits = self.ledger.commits();
        while !*stopping.borrow() {
            commits.borrow_and_update();
            let step = tokio::select! {
                step = self.step() => step,
                () = stop_deadline(&mut stopping) => break,
            };
            let waiting = async {
                match self.next_action(step) {
                    Next::Again => {}
                    Next::Commit => {
                        // A closed ledger has no more commits.
                        if commits.changed().await.is_err() {
                            std::future::pending::<()>().await;
                        }
                        sleep(GATHER_PAUSE).await;
                    }
                    Next::At(time) => sleep(self.time_until(time).min(POLL_INTERVAL)).await,
                }
            };
            tokio::select! {
                () = waiting => {}
                () = wait_until_stopping(&mut stopping) => {}
            }
        }
        self.release().await;
    }

    /// Returns the time from now until `time`.
    fn time_until(&self, time: Timestamp) -> Duration {
        let left = time.as_micros() - self.clock.now().as_micros();
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Returns the next action after a step. After a failure, logs it and returns a retry.
    fn next_action(&mut self, step: Result<Next, Failure>) -> Next {
        match step {
            Ok(next) => {
                if self.last_failure.take().is_some() {
                    tracing::info!(webhook = %self.settings.feed.name, "the webhook continues");
                }
                next
            }
            Err(failure) => {
                self.log_failure(&failure);
                if let Some(position) = &self.position {
                    self.count_lag(position);
                }
                Next::At(self.clock.now().after(POLL_INTERVAL))
            }
        }
    }

    /// Logs a failure of the store, unless the query before it failed with the same code.
    pub(super) fn log_failure(&mut self, failure: &Failure) {
        if self.last_failure.replace(failure.code) != Some(failure.code) {
            tracing::error!(webhook = %self.settings.feed.name, %failure, "the webhook waits: the store cannot be queried");
        }
    }

    /// Performs one step: sends a dead letter again, retries a refused batch, or sends a new one. Returns when to call
    /// it again.
    pub(super) async fn step(&mut self) -> Result<Next, Failure> {
        let stored = self.load_state().await?;
        let state = &stored.value;
        let now = self.clock.now();
        if state.disabled_at.is_some() {
            return Ok(Next::At(now.after(POLL_INTERVAL)));
        }
        if state.redeliver {
            return self.redeliver(stored).await;
        }
        if let Some(retry) = state.retry.as_ref().filter(|retry| now < retry.at) {
            return Ok(Next::At(retry.at));
        }
        let end: Option<ChangeCursor> = match &state.retry {
            Some(retry) => Some(retry.next_cursor.parse()?),
            None => None,
        };
        let after = self.read_position(state.parse_cursor()?);
        let batch = Batch::read(self.ledger.as_ref(), &self.settings.feed, after, end).await?;
        self.count_lag(&batch.after);
        if batch.changes.is_empty() {
            return self.skip_empty(stored, &batch).await;
        }
        let stored = match self.claim(stored).await? {
            Ok(stored) => stored,
            Err(next) => return Ok(next),
        };
        let outcome = self.send_batch(&batch).await?;
        self.record_outcome(stored, batch, outcome).await
    }

    /// Returns the position to read from: in each lane the note's cursor, or the position up to which this process has
    /// read if that is further.
    fn read_position(&self, cursor: ChangeCursor) -> ChangeCursor {
        self.position.iter().fold(cursor, ChangeCursor::later)
    }

    fn count_lag(&self, after: &ChangeCursor) {
        let newest = self.ledger.position().commit_count();
        self.counters
            .set_lag(newest.saturating_sub(after.commit_count()));
    }

    /// Loads the webhook's state; creates it if the store has no note of the webhook.
    pub(super) async fn load_state(&self) -> Result<Stored<State>, Failure> {
        let note = note_name(&self.settings.feed.name);
        loop {
            if let Some(stored) = read_note(self.ledger.as_ref(), &note).await? {
                return Ok(stored);
            }
            let start = match self.settings.from {
                WebhookStart::Beginning => ChangeCursor::default(),
                WebhookStart::Newest => ChangeCursor::after(&self.ledger.position()),
            };
            let state = State::starting_at(&start);
            if write_note(self.ledger.as_ref(), &note, 0, &state).await? {
                tracing::info!(webhook = %self.settings.feed.name, cursor = state.cursor, "the webhook begins");
            }
        }
    }

    /// Records that a batch contains no change for the webhook: in memory, and only rarely in the note, because each
    /// write of the note is a commit that must be examined too.
    async fn skip_empty(&mut self, stored: Stored<State>, batch: &Batch) -> Result<Next, Failure> {
        let now = self.clock.now();
        let cursor = stored.value.parse_cursor()?;
        self.position = Some(batch.next.clone());
        self.count_lag(&batch.next);
        let (next, written) = (batch.next.commit_count(), cursor.commit_count());
        let commits_since_write = next.saturating_sub(written);
        // A refused batch had changes. If it has none now, the configured kinds of changes have changed since, and
        // there is nothing to retry.
        if (batch.is_at_end || commits_since_write >= CURSOR_WRITE_COMMITS)
            && self.end_of_other_claim(&stored.value, now).is_none()
        {
            let mut state = stored.value;
            state.cursor = batch.next.to_string();
            state.retry = None;
            let note = note_name(&self.settings.feed.name);
            // If another process wrote first, the cursor stays as that process wrote it, which is correct too.
            write_note(self.ledger.as_ref(), &note, stored.version, &state).await?;
        }
        Ok(if batch.has_more {
            Next::Again
        } else {
            Next::Commit
        })
    }

    /// Sends one message with the batch's changes; counts and logs the outcome.
    pub(super) async fn send_batch(&self, batch: &Batch) -> Result<SendOutcome, Failure> {
        let store = self.ledger.store_id();
        let message = Message::new(&self.settings, store, batch, self.clock.now())?;
        let id = message.id.clone();
        let outcome = self.sender.send(message).await;
        self.counters.count_message(match outcome {
            SendOutcome::Delivered => "taken",
            SendOutcome::Gone => "gone",
            SendOutcome::Refused { refusal, .. } => refusal.label(),
        });
        let webhook = self.settings.feed.name.as_str();
        match outcome {
            SendOutcome::Delivered => {
                tracing::debug!(
                    webhook,
                    id,
                    changes = batch.changes.len(),
                    "a webhook's message was delivered"
                );
            }
            SendOutcome::Gone => tracing::error!(
                webhook,
                id,
                "the receiver answers 410: the webhook is disabled until `filrouge doctor webhooks --enable` is run"
            ),
            SendOutcome::Refused { refusal, .. } => {
                tracing::warn!(webhook, id, error = %refusal, "a webhook's message was not delivered");
            }
        }
        Ok(outcome)
    }

    /// Records the outcome of sending a batch in the note.
    async fn record_outcome(
        &mut self,
        stored: Stored<State>,
        batch: Batch,
        outcome: SendOutcome,
    ) -> Result<Next, Failure> {
        match outcome {
            SendOutcome::Delivered => {
                let claim = self.new_claim();
                self.save_outcome(stored, |state| {
                    state.cursor = batch.next.to_string();
                    state.retry = None;
                    state.record_delivery(claim.clone());
                })
                .await;
                Ok(Next::Again)
            }
            SendOutcome::Gone => Ok(self.disable(stored).await),
            SendOutcome::Refused {
                refusal,
                retry_after,
            } => {
                let attempts = stored
                    .value
                    .retry
                    .as_ref()
                    .map_or(0, |retry| retry.attempts)
                    + 1;
                if attempts >= self.settings.max_attempts.get() {
                    return self.abandon_batch(stored, &batch, attempts, refusal).await;
                }
                let wait = self.backoff.wait_after(attempts, retry_after);
                let at = self.clock.now().after(wait);
                self.save_outcome(stored, |state| {
                    // No change before the batch is left to send, so every process begins the retry where this batch
                    // begins.
                    state.cursor = batch.after.to_string();
                    state.retry = Some(PendingRetry {
                        next_cursor: batch.next.to_string(),
                        attempts,
                        at,
                    });
                    state.record_refusal(refusal);
                })
                .await;
                Ok(Next::At(at))
            }
        }
    }

    /// Makes a refused batch a dead letter, and continues after it.
    async fn abandon_batch(
        &mut self,
        stored: Stored<State>,
        batch: &Batch,
        attempts: u32,
        refusal: Refusal,
    ) -> Result<Next, Failure> {
        let letter = DeadLetter {
            after: batch.after.to_string(),
            next_cursor: batch.next.to_string(),
            attempts,
            error: refusal.to_string(),
            at: self.clock.now(),
        };
        let webhook = &self.settings.feed.name;
        tracing::error!(%webhook, after = letter.after, next_cursor = letter.next_cursor, error = letter.error, attempts,
            "changes were abandoned: they are among the dead letters (`filrouge doctor webhooks`)");
        // The dead letter is written before the cursor moves: a crash between the two may repeat a dead letter, but
        // cannot lose one.
        dead_letters::change_letters(self.ledger.as_ref(), webhook, |letters| {
            letters.add(letter.clone());
        })
        .await?;
        self.counters.dead_letters.inc();
        self.save_outcome(stored, |state| {
            state.cursor = batch.next.to_string();
            state.retry = None;
            state.record_refusal(refusal);
        })
        .await;
        Ok(Next::Again)
    }

    /// Disables the webhook after the receiver responded 410; an operator can enable it again.
    pub(super) async fn disable(&mut self, stored: Stored<State>) -> Next {
        let now = self.clock.now();
        self.save_outcome(stored, |state| {
            state.record_refusal(Refusal::Status(410));
            state.disabled_at = Some(now);
            state.redeliver = false;
        })
        .await;
        Next::At(now.after(POLL_INTERVAL))
    }
}

async fn wait_until_stopping(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender also means that the server stops.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn stop_deadline(stopping: &mut watch::Receiver<bool>) {
    wait_until_stopping(stopping).await;
    sleep(STOP_GRACE).await;
}
