//! Keeps a projection up to date: one process at a time reads the changes of the ledger, or of the history that is
//! copied, and writes them to the target.

mod batch;
mod claim;
mod history;
mod letters;
mod rebuild;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use filrouge_engine::Engine;
use filrouge_engine::backoff::Backoff;
use filrouge_engine::notes::{Stored, new_holder};
use filrouge_store::{Entropy, Ledger};
use filrouge_types::{Clock, ErrorCode, Failure, Timestamp};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::calls::{Calls, StepError};
use crate::feed::{COMMITS_PER_PAGE, Feed};
use crate::history::feed::HistoryFeed;
use crate::projection::Projection;
use crate::state::{DeadLetter, State, Uncleaned, change_uncleaned, read_letters, read_uncleaned};
use crate::status::count_lag;
use crate::target::TargetError;

/// The pause after a new commit, so that changes which follow each other closely are written together.
const GATHER_PAUSE: Duration = Duration::from_millis(20);
/// How often the notes are read during a wait, because another process may have changed them.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of sessions in one write: each write waits for a flush of the target, so those of a page of short
/// sessions are written together.
const BATCH_SESSIONS: usize = COMMITS_PER_PAGE;
/// How long a step may read sessions before it writes them.
const READ_TIME: Duration = Duration::from_secs(10);
/// The longest wait after a failure: cleaning must not wait longer than this when the target is back.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How often the target's published generation is compared with the note while nothing else is done.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How often a history of another program is scanned.
const SCAN_EVERY: Duration = Duration::from_secs(10);
/// How often dead letters are tried again.
const RETRY_LETTERS_EVERY: Duration = Duration::from_secs(600);
/// How long a step in progress may take when the process stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// What the projector does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It steps again at once.
    Again,
    /// It waits for a commit.
    Commit,
    /// It waits until this time.
    At(Timestamp),
}

/// Keeps one projection up to date.
pub struct Projector {
    pub(crate) projection: Arc<Projection>,
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    backoff: Backoff,
    /// The name of this process in claims.
    holder: String,
    /// At most one for each generation that is kept up to date.
    feeds: Vec<Feed>,
    /// The same for a projection of another program's history.
    history_feeds: Vec<HistoryFeed>,
    /// The maximum number of sessions in the next write.
    batch_sessions: usize,
    /// Whether the next step prefers the generation that is being built.
    prefers_building: bool,
    /// When the target is checked next.
    check_at: Option<Timestamp>,
    /// The generation that this process has created, or found created, in the target.
    created: Option<u64>,
    /// The code of the newest query of the store if it failed; `None` if it succeeded.
    last_failure: Option<ErrorCode>,
}

impl Projector {
    /// Prepares a projector of a projection of the engine's ledger.
    ///
    /// # Errors
    /// Those of `entropy`.
    pub fn new(
        projection: Arc<Projection>,
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, Failure> {
        let holder = new_holder(entropy.as_ref())?;
        Ok(Self {
            projection,
            engine,
            clock,
            backoff: Backoff::new(entropy),
            holder,
            feeds: Vec::new(),
            history_feeds: Vec::new(),
            batch_sessions: BATCH_SESSIONS,
            prefers_building: false,
            check_at: None,
            created: None,
            last_failure: None,
        })
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        self.engine.ledger()
    }

    fn calls(&self, stored: &Stored<State>) -> Calls<'_> {
        Calls {
            engine: &self.engine,
            projection: &self.projection,
            clock: self.clock.as_ref(),
            claimed_until: stored.value.claim.as_ref().map(|claim| claim.until),
        }
    }

    /// Keeps the projection up to date until `stopping` becomes true, then releases its claim.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut commits = self.engine.index_feed.commits();
        let idle_time = match self.projection.history {
            Some(_) => SCAN_EVERY,
            None => CHECK_EVERY,
        };
        while !*stopping.borrow() {
            commits.borrow_and_update();
            let step = tokio::select! {
                step = self.step() => step,
                // The claim stays: a call of the target may still be in progress.
                () = stop_deadline(&mut stopping) => return,
            };
            let next = self.next_action(step);
            let waiting = async {
                match next {
                    Next::Again => {}
                    Next::Commit => {
                        tokio::select! {
                            changed = commits.changed() => match changed {
                                Ok(()) => sleep(GATHER_PAUSE).await,
                                // A closed ledger has no more commits.
                                Err(_) => std::future::pending::<()>().await,
                            },
                            () = sleep(idle_time) => {}
                        }
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

    /// Runs steps until the projection is up to date. After a failure it waits as [`Self::run`] does, and continues.
    /// Returns the reason if no row was written since the first failure, and the next attempt is later than
    /// `retry_time` after it.
    ///
    /// # Errors
    /// The ledger's errors.
    pub async fn catch_up(mut self, retry_time: Duration) -> Result<Option<String>, Failure> {
        // The number of rows at the first failure, and when it is too late for another attempt.
        let mut failed: Option<(u64, Timestamp)> = None;
        let reason = loop {
            match self.step().await? {
                Next::Again => {}
                Next::Commit => break None,
                Next::At(time) => {
                    let counts = self.projection.counts.values();
                    if let Some(reason) = counts.failure {
                        let same = failed.filter(|(rows, _)| *rows == counts.rows);
                        let end = self.clock.now().after(retry_time);
                        let (_, end) = *failed.insert(same.unwrap_or((counts.rows, end)));
                        if time > end {
                            break Some(reason);
                        }
                    }
                    sleep(self.time_until(time).min(POLL_INTERVAL)).await;
                }
            }
        };
        self.release().await;
        Ok(reason)
    }

    fn time_until(&self, time: Timestamp) -> Duration {
        let left = time.as_micros() - self.clock.now().as_micros();
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Returns the next action after a step. After a failure of the ledger, logs it and returns a retry.
    fn next_action(&mut self, step: Result<Next, Failure>) -> Next {
        let projection = &self.projection.name;
        match step {
            Ok(next) => {
                if self.last_failure.take().is_some() {
                    tracing::info!(%projection, "the projection continues");
                }
                next
            }
            Err(failure) => {
                if self.last_failure.replace(failure.code) != Some(failure.code) {
                    tracing::error!(%projection, %failure, "the projection waits: the store cannot be queried");
                }
                Next::At(self.clock.now().after(POLL_INTERVAL))
            }
        }
    }

    /// Performs one step. Returns when to call it again.
    ///
    /// A step that is dropped leaves at most writes to the target that the next step of any process repeats.
    pub(crate) async fn step(&mut self) -> Result<Next, Failure> {
        let stored = self.load_state().await?;
        let now = self.clock.now();
        if let Some(retry_at) = stored.value.retry_at.filter(|retry_at| now < *retry_at) {
            self.note_failure(&stored.value);
            self.count_lag(&stored.value).await?;
            return Ok(Next::At(retry_at));
        }
        let claim = stored.value.live_claim(now);
        if let Some(claim) = claim.filter(|claim| claim.holder != self.holder) {
            let until = claim.until;
            self.note_failure(&stored.value);
            self.count_lag(&stored.value).await?;
            return Ok(Next::At(until.min(now.after(POLL_INTERVAL))));
        }
        match self.try_step(stored).await {
            Ok(next) => Ok(next),
            Err(StepError::Ledger(failure)) => Err(failure),
            Err(StepError::ClaimEnds) => Ok(Next::Again),
            Err(StepError::Target(error, generation)) => {
                self.record_failure(&error, generation).await
            }
        }
    }

    async fn try_step(&mut self, stored: Stored<State>) -> Result<Next, StepError> {
        let state = &stored.value;
        let has_generation = state.generations().next().is_some();
        let is_changed = state.fingerprint != self.projection.fingerprint();
        // Another process may have begun a rebuild.
        let building = state.building.as_ref().map(|filled| filled.generation);
        let must_create = building.is_some() && building != self.created;
        let now = self.clock.now();
        let is_due = self.check_at.is_none_or(|at| at <= now);
        if !has_generation || is_changed || must_create || is_due {
            return self.check_target(stored).await;
        }
        let is_building = state.building.is_some();
        let letters = read_letters(self.ledger(), &self.projection.name).await?;
        let history = self.projection.history.clone();
        match self.refresh_next(&stored, &letters).await {
            // Somebody has altered a generation that the one being built replaces: the session waits for that.
            Err(StepError::Target(TargetError::Altered(_), None)) if is_building => {}
            Ok(None) => {}
            Ok(Some(next)) => return Ok(next),
            Err(error) => return Err(error),
        }
        match history {
            Some(history) => self.feed_history(stored, &history, &letters).await,
            None => self.feed(stored, &letters).await,
        }
    }

    /// Refreshes the first session that must be cleaned, or else the first dead letter that is due. `None` if there is
    /// neither.
    async fn refresh_next(
        &mut self,
        stored: &Stored<State>,
        letters: &[DeadLetter],
    ) -> Result<Option<Next>, StepError> {
        let now = self.clock.now();
        let uncleaned = read_uncleaned(self.ledger(), &self.projection.name).await?;
        let uncleaned = uncleaned.into_iter().next();
        let due = letters.iter().find(|letter| {
            // A session of a history is tried again after a scan.
            letter.at.after(RETRY_LETTERS_EVERY) <= now
                && !self.projection.has_history_of(&letter.tenant)
        });
        if uncleaned.is_none() && due.is_none() {
            return Ok(None);
        }
        let Some(stored) = self.claim(stored.clone()).await? else {
            return Ok(Some(Next::Again));
        };
        if let Some(first) = uncleaned {
            return Ok(Some(self.clean(stored, first).await?));
        }
        if let Some(letter) = due {
            self.refresh(&stored, &letter.key(), 0).await?;
            self.record_success(stored).await?;
        }
        Ok(Some(Next::Again))
    }

    /// Cleans one session in the target.
    async fn clean(
        &mut self,
        stored: Stored<State>,
        uncleaned: Uncleaned,
    ) -> Result<Next, StepError> {
        let key = uncleaned.key();
        self.refresh(&stored, &key, uncleaned.commit).await?;
        // An entry that was written meanwhile differs, and stays.
        change_uncleaned(self.ledger(), &self.projection.name, |entries| {
            entries.retain(|entry| *entry != uncleaned);
        })
        .await?;
        self.record_success(stored).await?;
        Ok(Next::Again)
    }

    /// Counts the commits that the generation lacks, while this process does not feed it. A history is not scanned for
    /// that.
    async fn count_lag(&self, state: &State) -> Result<(), Failure> {
        if self.projection.history.is_some() {
            return Ok(());
        }
        let lag = count_lag(&self.engine, None, state).await?;
        let counts = &self.projection.counts;
        counts.lag_commits.store(lag, Ordering::Relaxed);
        Ok(())
    }
}

async fn wait_until_stopping(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender also means that the process stops.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn stop_deadline(stopping: &mut watch::Receiver<bool>) {
    wait_until_stopping(stopping).await;
    sleep(STOP_GRACE).await;
}
