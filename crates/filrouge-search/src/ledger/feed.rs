//! Keeps the ledger's index up to date in steps: a step reads the next commits, finds the sessions that they touched,
//! and updates these in the index.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as PlainMutex};
use std::time::{Duration, Instant};

use filrouge_engine::{Caller, ChangedSession, ChangedSessions, Engine};
use filrouge_store::ledger::Position;
use filrouge_store::text_index::{
    IndexState, IndexVersion, IndexedSession, Key, SessionSelection, TextIndex,
};
use filrouge_types::{Clock, Failure, TenantId, Timestamp, lock};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use super::counts::{FeedCounts, Progress};
use super::reading::{LedgerReader, ReadOutcome, StepUpdates};
use super::shard::key_of;
use super::verified_texts::{UnitCache, VerifiedTexts, unit_cache};
use super::{on_blocking_thread, position};
use crate::embed::{Embedder, embed_texts};
use crate::texts::Texts;

/// The number of commits examined at once.
const COMMITS_PER_PAGE: usize = 512;
/// The number of touched sessions that are looked up at once.
const SESSIONS_PER_LOOKUP: usize = 256;
/// The number of forgotten sessions that are looked up at once, to be read again.
const FORGOTTEN_PER_LOOKUP: usize = 64;
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

    async fn run_step(&self, state: &mut State, limits: StepLimits) -> Result<FeedStep, Failure> {
        self.engine.index_feed.forget_pending().await?;
        let IndexState { seen, sessions } = self.forgotten_sessions(FORGOTTEN_PER_LOOKUP).await?;
        let store = self.engine.index_feed.store_id();
        let Some(after) = position::decode(seen.position.as_deref(), store) else {
            return self.rebuild(state).await;
        };
        if state.page.as_ref().is_none_or(|page| page.after != after) {
            let now = self.clock.now();
            let Some(touches) = self
                .engine
                .index_feed
                .changed_after(after.clone(), COMMITS_PER_PAGE)
                .await?
            else {
                return self.rebuild(state).await;
            };
            self.record_progress(state, &after, &touches, now);
            state.page = Some(Page {
                after: after.clone(),
                touches,
                completed: 0,
            });
        }
        let Some(page) = &mut state.page else {
            return Ok(FeedStep::More);
        };
        let upto = &page.touches.end;
        if *upto == after {
            state.page = None;
            return self.read_forgotten(&seen, &sessions, &after, limits).await;
        }
        let sessions = page
            .touches
            .sessions
            .get(page.completed..)
            .unwrap_or_default();
        let completed = self
            .index_sessions(&seen, sessions, (&after, upto), limits)
            .await?;
        page.completed += completed;
        Ok(FeedStep::More)
    }

    /// Records how far the index is behind the ledger. `after` is the index's position; `now` is a time before the
    /// commits were read.
    fn record_progress(
        &self,
        state: &mut State,
        after: &Position,
        touches: &ChangedSessions,
        now: Timestamp,
    ) {
        let lag_commits = touches.newest - after.commit_count();
        state.indexed_commit = after.commit_count();
        state.newest = touches.newest;
        state.as_of = if lag_commits == 0 {
            Some(now)
        } else {
            touches.since
        };
        let mut counts = lock(&self.counts);
        counts.unreadable += touches.unreadable;
        counts.lag_commits = lag_commits;
    }

    /// Empties the index, which belongs to another store, or to a state of this store that a restore has undone.
    async fn rebuild(&self, state: &mut State) -> Result<FeedStep, Failure> {
        tracing::info!(
            "the search index does not belong to this state of the ledger: it is rebuilt"
        );
        *state = State::default();
        self.call_index(|index| index.clear()).await?;
        Ok(FeedStep::More)
    }

    /// Reads forgotten sessions again. No further commit may touch them: a refused redaction, for example, makes the
    /// index forget a session but writes no commit.
    async fn read_forgotten(
        &self,
        seen: &IndexVersion,
        forgotten: &[IndexedSession],
        at: &Position,
        limits: StepLimits,
    ) -> Result<FeedStep, Failure> {
        let again = forgotten.iter().filter_map(touched_from_forgotten);
        let sessions: Vec<ChangedSession> = again.collect();
        if sessions.is_empty() {
            return Ok(FeedStep::Done);
        }
        self.index_sessions(seen, &sessions, (at, at), limits)
            .await?;
        Ok(FeedStep::More)
    }

    /// Writes the current state of some of these sessions to the index. Together with the last session of the list, it
    /// also writes the position `upto`; until then, the position remains `after`. Returns the number of sessions that
    /// were completed.
    async fn index_sessions(
        &self,
        seen: &IndexVersion,
        sessions: &[ChangedSession],
        (after, upto): (&Position, &Position),
        limits: StepLimits,
    ) -> Result<usize, Failure> {
        let next_sessions = sessions.get(..SESSIONS_PER_LOOKUP).unwrap_or(sessions);
        let indexed = self.indexed_sessions(next_sessions).await?;
        if self.forget_erased(next_sessions, &indexed).await? {
            return Ok(0);
        }
        let (began, mut step_updates) = (Instant::now(), StepUpdates::default());
        let reader = LedgerReader {
            engine: &self.engine,
            counts: &self.counts,
        };
        for touched in next_sessions {
            let indexed_session = indexed.get(&key_of(touched));
            match reader.read_update(touched, indexed_session).await? {
                ReadOutcome::NoUpdate => {}
                ReadOutcome::Changed(update) => step_updates.add(*update),
                ReadOutcome::Gone(update) => step_updates.updates.push(update),
                ReadOutcome::MustForget => {
                    step_updates.must_forget = Some(key_of(touched));
                    break;
                }
            }
            step_updates.completed += 1;
            if step_updates.bytes >= limits.bytes || began.elapsed() >= limits.time {
                break;
            }
        }
        let done = step_updates.completed == sessions.len();
        let position = if done { upto } else { after };
        let (completed, must_forget) = (step_updates.completed, step_updates.must_forget.take());
        if !self
            .write_updates(seen, step_updates, position, done)
            .await?
        {
            lock(&self.counts).refused += 1;
            return Ok(0);
        }
        if let Some((realm, key)) = must_forget {
            self.forget(realm, key).await?;
        }
        Ok(completed)
    }

    /// Writes the updates of a step, and a position, to the index. Returns false, and writes nothing, if the index has
    /// changed since it had the version `seen`.
    async fn write_updates(
        &self,
        seen: &IndexVersion,
        step_updates: StepUpdates,
        position: &Position,
        done: bool,
    ) -> Result<bool, Failure> {
        if step_updates.updates.is_empty() && !done {
            return Ok(true);
        }
        let position = position::encode(position, self.engine.index_feed.store_id());
        let (seen, updates, documents) =
            (seen.clone(), step_updates.updates, step_updates.documents);
        let call =
            move |index: &dyn TextIndex| index.change(Some(&seen), &updates, Some(&position));
        let written = self.call_index(call).await?;
        if written {
            lock(&self.counts).documents += documents;
        }
        Ok(written)
    }

    /// Returns the index's entries for these sessions.
    async fn indexed_sessions(
        &self,
        sessions: &[ChangedSession],
    ) -> Result<HashMap<Key, IndexedSession>, Failure> {
        let keys: Vec<Key> = sessions.iter().map(key_of).collect();
        let call = move |index: &dyn TextIndex| index.state(SessionSelection::Named(&keys));
        let sessions = self.call_index(call).await?.sessions;
        let by_key = sessions.iter().map(|session| {
            let key = (session.shard.realm.clone(), session.entry.key.clone());
            (key, session.clone())
        });
        Ok(by_key.collect())
    }

    /// Returns the version of the index, and at most `limit` of the forgotten sessions that must be read again.
    pub(super) async fn forgotten_sessions(&self, limit: usize) -> Result<IndexState, Failure> {
        self.call_index(move |index| index.state(SessionSelection::Unread(limit)))
            .await
    }

    /// Makes the index forget sessions that a process without the index has erased. Returns whether there were any.
    async fn forget_erased(
        &self,
        sessions: &[ChangedSession],
        indexed: &HashMap<Key, IndexedSession>,
    ) -> Result<bool, Failure> {
        let mut has_erased = false;
        for touched in sessions.iter().filter(|touched| touched.erased) {
            let key = key_of(touched);
            if indexed
                .get(&key)
                .is_some_and(|session| session.entry.stamp[0] != 0)
            {
                self.forget(key.0, key.1).await?;
                has_erased = true;
            }
        }
        Ok(has_erased)
    }

    /// Makes the index forget a session: its documents are removed, and it must be read again.
    async fn forget(&self, realm: Box<[u8]>, key: Box<str>) -> Result<(), Failure> {
        lock(&self.counts).forgotten += 1;
        let forget = move |index: &dyn TextIndex| index.forget(&realm, &key);
        self.call_index(forget).await.map(drop)
    }
}

/// Describes a forgotten session as if commits had touched all of it; `None` for an entry that is no session of a
/// ledger.
fn touched_from_forgotten(session: &IndexedSession) -> Option<ChangedSession> {
    let tenant = std::str::from_utf8(&session.shard.realm).ok()?;
    Some(ChangedSession {
        tenant: TenantId::new(tenant).ok()?,
        session: session.entry.key.parse().ok()?,
        // Greater than the number in the entry, which is 0, and less than that of every later change.
        newest: 1,
        erased: false,
        must_reread_entirely: true,
        seq_ranges: Vec::new(),
    })
}
