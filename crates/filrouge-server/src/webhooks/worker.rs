//! Runs one webhook: reads the feed, sends, and records what was delivered.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{Clock, ErrorCode, Failure, Timestamp};
use tokio::sync::watch;
use tokio::time::sleep;

use super::backoff::Backoff;
use super::batch::{Batch, sort_key};
use super::counters::WebhookCounters;
use super::dead::{self, DeadLetter};
use super::message::Message;
use super::post::{Post, Refusal, Sent};
use super::state::{Retry, State, Stored, later, load, note_name, put};
use super::{WebhookSettings, WebhookStart};

/// The pause after a new commit, so that the changes of this time are sent together.
const GATHER: Duration = Duration::from_millis(20);
/// How often the webhook's note is read during a wait, because another process or an operator may have changed it.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// The note's cursor is moved once this many commits after it contain no change for the webhook, so that a restart does
/// not examine all of them again.
const STORE_AFTER: u64 = 4096;
/// How long a message in progress may take when the server stops.
const LAST_MOMENT: Duration = Duration::from_secs(3);

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
    pub(super) post: P,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) backoff: Backoff,
    pub(super) counters: WebhookCounters,
    /// The name of this process in claims.
    pub(super) holder: String,
    /// The position up to which this process has read: between the note's cursor and it, there is no change for the
    /// webhook.
    pub(super) position: Option<ChangeCursor>,
    /// Why the newest query of the store failed; `None` if it succeeded.
    pub(super) failing: Option<ErrorCode>,
}

impl<P: Post> Worker<P> {
    /// Runs the webhook until `stopping` becomes true, then releases its claim.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut commits = self.ledger.commits();
        while !*stopping.borrow() {
            commits.borrow_and_update();
            let step = tokio::select! {
                step = self.step() => step,
                () = last_moment(&mut stopping) => break,
            };
            let idle = async {
                match self.next(step) {
                    Next::Again => {}
                    Next::Commit => {
                        // A closed ledger has no more commits.
                        if commits.changed().await.is_err() {
                            std::future::pending::<()>().await;
                        }
                        sleep(GATHER).await;
                    }
                    Next::At(time) => sleep(self.left(time).min(POLL)).await,
                }
            };
            tokio::select! {
                () = idle => {}
                () = stopped(&mut stopping) => {}
            }
        }
        self.release().await;
    }

    /// Returns the time from now until `time`.
    fn left(&self, time: Timestamp) -> Duration {
        let left = time.as_micros() - self.clock.now().as_micros();
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Returns the next action after a step; after a failure, which it logs, that is a retry.
    fn next(&mut self, step: Result<Next, Failure>) -> Next {
        match step {
            Ok(next) => {
                if self.failing.take().is_some() {
                    tracing::info!(webhook = %self.settings.feed.name, "the webhook continues");
                }
                next
            }
            Err(failure) => {
                self.log_failure(&failure);
                if let Some(position) = self.position {
                    self.count_lag(position);
                }
                Next::At(later(self.clock.now(), POLL))
            }
        }
    }

    /// Logs a failure of the store, unless the query before it failed with the same code.
    pub(super) fn log_failure(&mut self, failure: &Failure) {
        if self.failing.replace(failure.code) != Some(failure.code) {
            tracing::error!(webhook = %self.settings.feed.name, %failure, "the webhook waits: the store cannot be queried");
        }
    }

    /// Performs one step: sends a dead letter again, retries a refused batch, or sends a new one. Returns when to call
    /// it again.
    pub(super) async fn step(&mut self) -> Result<Next, Failure> {
        let stored = self.stored().await?;
        let state = &stored.value;
        let now = self.clock.now();
        if state.disabled_at.is_some() {
            return Ok(Next::At(later(now, POLL)));
        }
        if state.redeliver {
            return self.redeliver(stored).await;
        }
        if let Some(retry) = state.retry.as_ref().filter(|retry| now < retry.at) {
            return Ok(Next::At(retry.at));
        }
        let bound: Option<ChangeCursor> = match &state.retry {
            Some(retry) => Some(retry.next_cursor.parse()?),
            None => None,
        };
        let after = self.after(state.cursor()?);
        let batch = Batch::read(self.ledger.as_ref(), &self.settings.feed, after, bound).await?;
        self.count_lag(after);
        if batch.changes.is_empty() {
            return self.skip_empty(stored, &batch, bound).await;
        }
        let stored = match self.claim(stored).await? {
            Ok(stored) => stored,
            Err(next) => return Ok(next),
        };
        let sent = self.send(&batch).await?;
        self.record_outcome(stored, batch, sent).await
    }

    /// Returns the position to read from: the note's cursor, or the position up to which this process has read if that
    /// is further.
    fn after(&self, cursor: ChangeCursor) -> ChangeCursor {
        match self.position {
            Some(position) if sort_key(position) > sort_key(cursor) => position,
            _ => cursor,
        }
    }

    fn count_lag(&self, after: ChangeCursor) {
        let newest = self.ledger.position().commit_no;
        self.counters.lag(newest.saturating_sub(after.commit_no));
    }

    /// Loads the webhook's state; creates it if the store has no note of the webhook.
    pub(super) async fn stored(&self) -> Result<Stored<State>, Failure> {
        let note = note_name(&self.settings.feed.name);
        loop {
            if let Some(stored) = load(self.ledger.as_ref(), &note).await? {
                return Ok(stored);
            }
            let start = match self.settings.from {
                WebhookStart::Beginning => ChangeCursor::default(),
                WebhookStart::Newest => {
                    ChangeCursor::after_commit(self.ledger.position().commit_no)
                }
            };
            let state = State::beginning(start);
            if put(self.ledger.as_ref(), &note, 0, &state).await? {
                tracing::info!(webhook = %self.settings.feed.name, cursor = state.cursor, "the webhook begins");
            }
        }
    }

    /// Records that a batch contains no change for the webhook: in memory, and only rarely in the note, because each
    /// write of the note is a commit that must be examined too.
    async fn skip_empty(
        &mut self,
        stored: Stored<State>,
        batch: &Batch,
        bound: Option<ChangeCursor>,
    ) -> Result<Next, Failure> {
        let now = self.clock.now();
        let cursor = stored.value.cursor()?;
        self.position = Some(batch.next);
        self.count_lag(batch.next);
        let unstored = batch.next.commit_no.saturating_sub(cursor.commit_no);
        // A refused batch had changes. If it has none now, the kinds that the webhook reports were configured
        // differently then.
        let stale = bound.is_some_and(|bound| sort_key(batch.next) >= sort_key(bound));
        if (stale || unstored >= STORE_AFTER) && self.other_claim(&stored.value, now).is_none() {
            let mut state = stored.value;
            state.cursor = batch.next.to_string();
            state.retry = None;
            let note = note_name(&self.settings.feed.name);
            // If another process wrote first, the cursor stays as that process wrote it, which is correct too.
            put(self.ledger.as_ref(), &note, stored.version, &state).await?;
        }
        Ok(if batch.more {
            Next::Again
        } else {
            Next::Commit
        })
    }

    /// Sends one message with the batch's changes; counts and logs the outcome.
    pub(super) async fn send(&self, batch: &Batch) -> Result<Sent, Failure> {
        let store = self.ledger.store_id();
        let message = Message::new(&self.settings, store, batch, self.clock.now())?;
        let id = message.id.clone();
        let sent = self.post.post(message).await;
        self.counters.sent(match sent {
            Sent::Delivered => "taken",
            Sent::Gone => "gone",
            Sent::Refused { why, .. } => why.label(),
        });
        let webhook = self.settings.feed.name.as_str();
        match sent {
            Sent::Delivered => {
                tracing::debug!(
                    webhook,
                    id,
                    changes = batch.changes.len(),
                    "a webhook's message was delivered"
                );
            }
            Sent::Gone => tracing::error!(
                webhook,
                id,
                "the receiver answers 410: the webhook is disabled until `filrouge doctor webhooks --enable` is run"
            ),
            Sent::Refused { why, .. } => {
                tracing::warn!(webhook, id, error = %why, "a webhook's message was not delivered");
            }
        }
        Ok(sent)
    }

    /// Records the outcome of sending a batch in the note.
    async fn record_outcome(
        &mut self,
        stored: Stored<State>,
        batch: Batch,
        sent: Sent,
    ) -> Result<Next, Failure> {
        match sent {
            Sent::Delivered => {
                let claim = self.new_claim();
                self.save(stored, |state| {
                    state.cursor = batch.next.to_string();
                    state.retry = None;
                    state.record_delivery(claim.clone());
                })
                .await;
                Ok(Next::Again)
            }
            Sent::Gone => Ok(self.disable(stored).await),
            Sent::Refused { why, retry_after } => {
                let attempts = stored
                    .value
                    .retry
                    .as_ref()
                    .map_or(0, |retry| retry.attempts)
                    + 1;
                if attempts >= self.settings.max_attempts.get() {
                    return self.give_up(stored, &batch, attempts, why).await;
                }
                Ok(self
                    .retry_later(stored, &batch, attempts, why, retry_after)
                    .await)
            }
        }
    }

    /// Records a refused batch, and when it is sent again.
    async fn retry_later(
        &mut self,
        stored: Stored<State>,
        batch: &Batch,
        attempts: u32,
        why: Refusal,
        retry_after: Option<Duration>,
    ) -> Next {
        let now = self.clock.now();
        let at = later(now, self.backoff.after(attempts, retry_after));
        self.save(stored, |state| {
            state.retry = Some(Retry {
                next_cursor: batch.next.to_string(),
                attempts,
                at,
            });
            state.record_refusal(why);
        })
        .await;
        Next::At(at)
    }

    /// Makes a refused batch a dead letter, and continues after it.
    async fn give_up(
        &mut self,
        stored: Stored<State>,
        batch: &Batch,
        attempts: u32,
        why: Refusal,
    ) -> Result<Next, Failure> {
        let letter = DeadLetter {
            after: batch.after.to_string(),
            next_cursor: batch.next.to_string(),
            attempts,
            error: why.to_string(),
            at: self.clock.now(),
        };
        let webhook = &self.settings.feed.name;
        tracing::error!(%webhook, after = letter.after, next_cursor = letter.next_cursor, error = letter.error, attempts,
            "changes were abandoned: they are among the dead letters (`filrouge doctor webhooks`)");
        // The dead letter is written before the cursor moves: a crash between the two may repeat a dead letter, but
        // cannot lose one.
        dead::change(self.ledger.as_ref(), webhook, |dead| {
            dead.put(letter.clone());
        })
        .await?;
        self.counters.dead.inc();
        self.save(stored, |state| {
            state.cursor = batch.next.to_string();
            state.retry = None;
            state.record_refusal(why);
        })
        .await;
        Ok(Next::Again)
    }

    /// Disables the webhook after the receiver responded 410; an operator can enable it again.
    pub(super) async fn disable(&mut self, stored: Stored<State>) -> Next {
        let now = self.clock.now();
        self.save(stored, |state| {
            state.record_refusal(Refusal::Status(410));
            state.disabled_at = Some(now);
            state.redeliver = false;
        })
        .await;
        Next::At(later(now, POLL))
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender also means that the server stops.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn last_moment(stopping: &mut watch::Receiver<bool>) {
    stopped(stopping).await;
    sleep(LAST_MOMENT).await;
}
