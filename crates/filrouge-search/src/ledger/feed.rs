//! Keeps the ledger's index up to date in steps: a step reads the next commits, finds the sessions that they touched,
//! and updates these in the index.

mod step;

use std::sync::{Arc, Mutex as PlainMutex};
use std::time::{Duration, Instant};

use filrouge_engine::{Caller, ChangedSession, ChangedSessions, Engine};
use filrouge_store::ledger::Position;
use filrouge_store::text_index::{
    IndexScope, IndexState, IndexVersion, SessionSelection, TextIndex,
};
use filrouge_types::{Clock, Failure, Timestamp, lock};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use super::counts::{FeedCounts, Progress};
use super::on_blocking_thread;
use super::unreadable::{Unreadable, UnreadableSessions};
use super::verified_texts::{UnitCache, VerifiedTexts, unit_cache};
use crate::embed::{Embedder, embed_texts};
use crate::texts::Texts;

/// The maximum duration of a step while a caller waits for it.
const MAX_STEP_TIME: Duration = Duration::from_millis(500);
/// The approximate number of bytes that a step writes to the index while a caller waits for it.
const MAX_STEP_BYTES: usize = 16 << 20;

/// The number of messages that are embedded at once.
const MESSAGES_PER_EMBEDDING: usize = 8;

/// The limits of a step: it ends after the session with which it reaches one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// The number of bytes written to the index.
    pub bytes: usize,
    /// The time spent on reading sessions.
    pub time: Duration,
}

/// Whether a step left work to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStep {
    /// More work remains.
    More,
    /// The index contains everything that could be read.
    Done,
}

/// Keeps an index up to date with the ledger of an engine. Any number of feeds, in any number of processes, may work on
/// one index.
pub struct LedgerFeed {
    pub(super) engine: Arc<Engine>,
    index: Arc<dyn TextIndex>,
    pub(super) clock: Arc<dyn Clock>,
    embedder: Option<Arc<dyn Embedder>>,
    state: Mutex<State>,
    /// The failure of the newest step; `None` if it succeeded.
    failure: PlainMutex<Option<Failure>>,
    counts: Arc<PlainMutex<FeedCounts>>,
    /// The sessions that the index lacks because they could not be read.
    unreadable: PlainMutex<UnreadableSessions>,
    /// The texts that searches have read recently.
    cache: Arc<UnitCache>,
}

#[derive(Default)]
struct State {
    page: Option<Page>,
    /// The commit count up to which the index was complete at the newest check.
    indexed_commit: u64,
    /// The ledger's commit count at the newest check.
    newest: u64,
    /// As in [`Progress`].
    as_of: Option<Timestamp>,
    /// The sessions that could not be read earlier, and are still to be tried again.
    unreadable: Vec<ChangedSession>,
    /// When such sessions are looked up next, to try them again; `None` before the first time.
    next_retry: Option<Instant>,
    /// The version of the index at their newest lookup, and when the next one is possible.
    looked_up: IndexVersion,
    next_lookup: Option<Instant>,
}

/// A page of commits that is being read.
struct Page {
    /// The position after which the page's commits begin.
    after: Position,
    touches: ChangedSessions,
    /// The number of touched sessions that are already done.
    completed: usize,
}

impl LedgerFeed {
    /// Creates a feed that updates `index` from the engine's ledger, for all tenants. It continues from the position
    /// that the index has stored.
    #[must_use]
    pub fn new(engine: Arc<Engine>, index: Arc<dyn TextIndex>, clock: Arc<dyn Clock>) -> Self {
        Self {
            engine,
            index,
            clock,
            embedder: None,
            state: Mutex::default(),
            failure: PlainMutex::default(),
            counts: Arc::default(),
            unreadable: PlainMutex::default(),
            cache: Arc::new(unit_cache()),
        }
    }

    /// Makes the feed also embed messages of people and agents while it has no other work.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        self.embedder = embedder;
        self
    }

    /// Embeds a few messages. Returns whether more may have to be embedded; false without an embedder.
    ///
    /// # Errors
    /// Those of the index and of the embedder.
    pub async fn embed(&self) -> Result<bool, Failure> {
        let Some(embedder) = self.embedder.clone() else {
            return Ok(false);
        };
        let texts = self.texts(None, Handle::current());
        let embedded = on_blocking_thread(move || {
            embed_texts(Texts::Verified(&texts), &*embedder, MESSAGES_PER_EMBEDDING)
        });
        Ok(embedded.await?? == MESSAGES_PER_EMBEDDING)
    }

    /// The texts of the documents that the index names, for a search by `caller`, or for the feed itself. `runtime` is
    /// the engine's.
    pub(crate) fn texts(&self, caller: Option<Caller>, runtime: Handle) -> VerifiedTexts {
        let indexed = (self.engine.clone(), self.index.clone());
        let shared = (self.cache.clone(), self.counts.clone());
        VerifiedTexts::new(indexed, shared, caller, runtime)
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &dyn TextIndex {
        self.index.as_ref()
    }

    /// The feed's counters.
    #[must_use]
    pub fn counts(&self) -> FeedCounts {
        FeedCounts {
            damaged: self.index.damaged(),
            ..*lock(&self.counts)
        }
    }

    /// The sessions within `reach` that the index lacks because they could not be read, as of the newest step. What other
    /// processes changed in the index is known ten seconds later; that they could read such a session again, ten minutes
    /// later.
    pub(crate) fn unreadable(&self, reach: &IndexScope) -> Unreadable {
        lock(&self.unreadable).within(reach)
    }

    /// The failure of the newest step; `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }

    /// Returns a receiver that is notified of the ledger's commits.
    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.engine.index_feed.commits()
    }

    /// Calls the index on a blocking thread.
    pub(super) async fn call_index<R: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn TextIndex) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let index = self.index.clone();
        on_blocking_thread(move || call(index.as_ref())).await?
    }

    /// Runs steps until the index is up to date, `budget` is used up, or `stopped` returns true; at least one step.
    ///
    /// # Errors
    /// Those of the ledger and the index; the steps done so far remain applied.
    pub async fn catch_up(
        &self,
        budget: Duration,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Progress, Failure> {
        let began = Instant::now();
        loop {
            let left = budget.saturating_sub(began.elapsed());
            let limits = StepLimits {
                bytes: MAX_STEP_BYTES,
                time: left.min(MAX_STEP_TIME),
            };
            let done = self.step(limits).await? == FeedStep::Done;
            if done || began.elapsed() >= budget || stopped() {
                return self.progress(done).await;
            }
        }
    }

    async fn progress(&self, done: bool) -> Result<Progress, Failure> {
        let forgotten = match done {
            true => Vec::new(),
            false => self.forgotten_sessions(1).await?.sessions,
        };
        let state = self.state.lock().await;
        let newest = self
            .engine
            .index_feed
            .position()
            .commit_count()
            .max(state.newest);
        Ok(Progress {
            lag_commits: newest.saturating_sub(state.indexed_commit),
            as_of: state.as_of,
            forgotten: !forgotten.is_empty(),
            done,
        })
    }

    /// Runs one step: indexes some sessions of the next commits, or some forgotten ones.
    ///
    /// # Errors
    /// Those of the ledger and the index; the index is then unchanged. A session that cannot be read is not an error.
    pub async fn step(&self, limits: StepLimits) -> Result<FeedStep, Failure> {
        let mut state = self.state.lock().await;
        let began = Instant::now();
        let step = self.run_step(&mut state, limits).await;
        let mut counts = lock(&self.counts);
        counts.micros += u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        counts.failed += u64::from(step.is_err());
        drop(counts);
        *lock(&self.failure) = step.as_ref().err().cloned();
        step
    }

    /// Returns the version of the index, and at most `limit` of the forgotten sessions that must be read again.
    pub(super) async fn forgotten_sessions(&self, limit: usize) -> Result<IndexState, Failure> {
        self.call_index(move |index| index.state(SessionSelection::Unread(limit)))
            .await
    }
}
