//! One step of the feed: the next commits, what they have touched, and the change of the index that follows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as PlainMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use filrouge_engine::{Engine, Touched, Touches};
use filrouge_store::ledger::Position;
use filrouge_store::text_index::{IndexedSession, Key, Known, Seen, TextIndex, Which};
use filrouge_types::{Clock, Failure, TenantId, Timestamp};
use quick_cache::sync::Cache;
use tokio::sync::{Mutex, watch};

use super::counts::{FeedCounts, Progress};
use super::reading::{Batch, Reader, Reading};
use super::shard::key_of;
use super::{aside, position};
use crate::embed::{Embedder, fill};

/// Commits looked at at once.
const COMMITS: usize = 512;
/// Sessions of them that are looked up at once.
const SESSIONS: usize = 256;
/// Sessions that were forgotten and are to be read again, looked up at once.
const FORGOTTEN: usize = 64;
/// How long one of the steps lasts that somebody waits for.
const STEP: Duration = Duration::from_millis(500);
/// How many bytes it puts into the index at once, about.
const STEP_BYTES: usize = 16 << 20;

/// Messages that are embedded at once.
const EMBEDDED: usize = 8;
/// Excerpts of which it is remembered that a record says the same.
const VOUCHED: usize = 1 << 16;

/// What one step takes on: it ends behind the session with which it has this much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Bytes that are put into the index.
    pub bytes: usize,
    /// Time for reading them.
    pub time: Duration,
}

/// Whether a step has left something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is more.
    More,
    /// The index holds all that there was.
    Done,
}

/// Keeps an index in step with the ledger of an engine. Any number of them, in any number of processes, may be at work.
pub struct LedgerFeed {
    pub(super) engine: Arc<Engine>,
    index: Arc<dyn TextIndex>,
    pub(super) clock: Arc<dyn Clock>,
    embedder: Option<Arc<dyn Embedder>>,
    state: Mutex<State>,
    /// Why the last step was not made.
    failure: PlainMutex<Option<Failure>>,
    counts: PlainMutex<FeedCounts>,
    /// What records have vouched for, of what was shown last.
    pub(crate) vouched: Cache<u64, ()>,
}

#[derive(Default)]
struct State {
    page: Option<Page>,
    /// The position that the index had last.
    at: u64,
    newest: u64,
    as_of: Option<Timestamp>,
}

/// Commits under way.
struct Page {
    after: Position,
    touches: Touches,
    /// How many of its sessions are done.
    next: usize,
}

impl LedgerFeed {
    /// A feed of `index` with what the engine's ledger holds, in all tenants. It begins where the index stands.
    #[must_use]
    pub fn new(engine: Arc<Engine>, index: Arc<dyn TextIndex>, clock: Arc<dyn Clock>) -> Self {
        Self {
            engine,
            index,
            clock,
            embedder: None,
            state: Mutex::default(),
            failure: PlainMutex::default(),
            counts: PlainMutex::default(),
            vouched: Cache::new(VOUCHED),
        }
    }

    /// The same, which also gives what people and agents have said its vectors, while there is nothing else to do.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        self.embedder = embedder;
        self
    }

    /// Embeds a few messages; whether there are more.
    ///
    /// # Errors
    /// The index's and the embedder's.
    pub async fn embed(&self) -> Result<bool, Failure> {
        let Some(embedder) = self.embedder.clone() else {
            return Ok(false);
        };
        let few = self.indexed(move |index| fill(index, &*embedder, EMBEDDED));
        Ok(few.await? == EMBEDDED)
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &dyn TextIndex {
        self.index.as_ref()
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> FeedCounts {
        *self.counting()
    }

    pub(crate) fn counting(&self) -> MutexGuard<'_, FeedCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last step was not made; `None` when it was.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failed().clone()
    }

    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.engine.index_feed.commits()
    }

    /// Asks the index, on a thread that may wait.
    pub(super) async fn indexed<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn TextIndex) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let index = self.index.clone();
        aside(move || ask(index.as_ref())).await?
    }

    /// Goes on until the index holds everything, `budget` is over, or `stopped` says so; at least one step is made.
    ///
    /// # Errors
    /// The ledger's and the index's; what was done so far stays.
    pub async fn catch_up(
        &self,
        budget: Duration,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Progress, Failure> {
        let began = Instant::now();
        loop {
            let left = budget.saturating_sub(began.elapsed());
            let effort = Effort {
                bytes: STEP_BYTES,
                time: left.min(STEP),
            };
            let done = self.step(effort).await? == Step::Done;
            if done || began.elapsed() >= budget || stopped() {
                return self.progress(done).await;
            }
        }
    }

    async fn progress(&self, done: bool) -> Result<Progress, Failure> {
        let waiting = match done {
            true => Vec::new(),
            false => self.unread(1).await?.sessions,
        };
        let state = self.state.lock().await;
        let newest = self
            .engine
            .index_feed
            .position()
            .commit_no
            .max(state.newest);
        Ok(Progress {
            behind: newest.saturating_sub(state.at),
            as_of: state.as_of,
            forgotten: !waiting.is_empty(),
            done,
        })
    }

    /// Makes one step: some sessions of the next commits, or some that were forgotten.
    ///
    /// # Errors
    /// The ledger's and the index's: nothing was changed then. A session that cannot be read is no error.
    pub async fn step(&self, effort: Effort) -> Result<Step, Failure> {
        let mut state = self.state.lock().await;
        let began = Instant::now();
        let step = self.next(&mut state, effort).await;
        let mut counts = self.counting();
        counts.micros += u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        counts.failed += u64::from(step.is_err());
        drop(counts);
        *self.failed() = step.as_ref().err().cloned();
        step
    }

    fn failed(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self, state: &mut State, effort: Effort) -> Result<Step, Failure> {
        self.engine.index_feed.forget_owed().await?;
        let Known { seen, sessions } = self.unread(FORGOTTEN).await?;
        let store = self.engine.index_feed.store_id();
        let Some(after) = position::decode(seen.position.as_deref(), store) else {
            return self.begin_anew(state).await;
        };
        if state.page.as_ref().is_none_or(|page| page.after != after) {
            let now = self.clock.now();
            let Some(touches) = self
                .engine
                .index_feed
                .touched_behind(after, COMMITS)
                .await?
            else {
                return self.begin_anew(state).await;
            };
            self.look(state, after, &touches, now);
            state.page = Some(Page {
                after,
                touches,
                next: 0,
            });
        }
        let Some(page) = &mut state.page else {
            return Ok(Step::More);
        };
        let upto = page.touches.upto;
        if upto == after {
            let newest = page.touches.newest;
            state.page = None;
            return self
                .read_forgotten(&seen, &sessions, (after, newest), effort)
                .await;
        }
        let sessions = page.touches.sessions.get(page.next..).unwrap_or_default();
        let taken = self.feed(&seen, sessions, (after, upto), effort).await?;
        page.next += taken;
        Ok(Step::More)
    }

    /// Notes what is known of how far the index is.
    fn look(&self, state: &mut State, after: Position, touches: &Touches, now: Timestamp) {
        let behind = touches.newest - after.commit_no;
        state.at = after.commit_no;
        state.newest = touches.newest;
        state.as_of = if behind == 0 {
            Some(now)
        } else {
            touches.since
        };
        let mut counts = self.counting();
        counts.unreadable += touches.unreadable;
        counts.behind = behind;
    }

    /// The index is of another store, or of this one as it was before it was put back to an older state.
    async fn begin_anew(&self, state: &mut State) -> Result<Step, Failure> {
        tracing::info!("the search index is not of this ledger as it stands: it is built anew");
        *state = State::default();
        self.indexed(|index| index.clear()).await?;
        Ok(Step::More)
    }

    /// Reads sessions that were forgotten again: no commit may tell of them, as when a redaction was refused.
    async fn read_forgotten(
        &self,
        seen: &Seen,
        found: &[IndexedSession],
        (at, newest): (Position, u64),
        effort: Effort,
    ) -> Result<Step, Failure> {
        let again = found
            .iter()
            .filter_map(|session| forgotten(session, newest));
        let sessions: Vec<Touched> = again.collect();
        if sessions.is_empty() {
            return Ok(Step::Done);
        }
        self.feed(seen, &sessions, (at, at), effort).await?;
        Ok(Step::More)
    }

    /// Puts what has become of some of these sessions, and with the last of them the position behind them; how many were
    /// done.
    async fn feed(
        &self,
        seen: &Seen,
        sessions: &[Touched],
        (after, upto): (Position, Position),
        effort: Effort,
    ) -> Result<usize, Failure> {
        let window = sessions.get(..SESSIONS).unwrap_or(sessions);
        let known = self.known(window).await?;
        if self.tell_of_erasures(window, &known).await? {
            return Ok(0);
        }
        let (began, mut batch) = (Instant::now(), Batch::default());
        let reader = Reader {
            engine: &self.engine,
            counts: &self.counts,
        };
        for touched in window {
            let known = known.get(&key_of(touched));
            match reader.reading(touched, known).await? {
                Reading::Known => {}
                Reading::Changed(update) => batch.put(*update),
                Reading::Gone(update) => batch.updates.push(update),
                Reading::Untold => {
                    batch.untold = Some(key_of(touched));
                    break;
                }
            }
            batch.taken += 1;
            if batch.weight >= effort.bytes || began.elapsed() >= effort.time {
                break;
            }
        }
        let done = batch.taken == sessions.len();
        let position = if done { upto } else { after };
        let (taken, untold) = (batch.taken, batch.untold.take());
        if !self.put(seen, batch, &position, done).await? {
            self.counting().refused += 1;
            return Ok(0);
        }
        if let Some((realm, key)) = untold {
            self.tell(realm, key).await?;
        }
        Ok(taken)
    }

    async fn put(
        &self,
        seen: &Seen,
        batch: Batch,
        position: &Position,
        done: bool,
    ) -> Result<bool, Failure> {
        if batch.updates.is_empty() && !done {
            return Ok(true);
        }
        let position = position::encode(position, self.engine.index_feed.store_id());
        let (seen, updates, documents) = (seen.clone(), batch.updates, batch.documents);
        let ask = move |index: &dyn TextIndex| index.change(Some(&seen), &updates, Some(&position));
        let put = self.indexed(ask).await?;
        if put {
            self.counting().documents += documents;
        }
        Ok(put)
    }

    /// What the index knows of these sessions.
    async fn known(&self, sessions: &[Touched]) -> Result<HashMap<Key, IndexedSession>, Failure> {
        let keys: Vec<Key> = sessions.iter().map(key_of).collect();
        let ask = move |index: &dyn TextIndex| index.known(Which::Named(&keys));
        let known = self.indexed(ask).await?.sessions;
        let known = known.iter().map(|session| {
            let key = (session.shard.realm.clone(), session.entry.key.clone());
            (key, session.clone())
        });
        Ok(known.collect())
    }

    /// How the index is, with at most so many sessions that were forgotten.
    pub(super) async fn unread(&self, limit: usize) -> Result<Known, Failure> {
        self.indexed(move |index| index.known(Which::Unread(limit)))
            .await
    }

    /// Forgets sessions that a process without the index has erased; whether there were any.
    async fn tell_of_erasures(
        &self,
        sessions: &[Touched],
        known: &HashMap<Key, IndexedSession>,
    ) -> Result<bool, Failure> {
        let mut told = false;
        for touched in sessions.iter().filter(|touched| touched.erased) {
            let key = key_of(touched);
            if known
                .get(&key)
                .is_some_and(|known| known.entry.stamp[0] != 0)
            {
                self.tell(key.0, key.1).await?;
                told = true;
            }
        }
        Ok(told)
    }

    async fn tell(&self, realm: Box<[u8]>, key: Box<str>) -> Result<(), Failure> {
        self.counting().forgotten += 1;
        let forget = move |index: &dyn TextIndex| index.forget(&realm, &key);
        self.indexed(forget).await.map(drop)
    }
}

/// A session of a ledger; others may lie in the same index.
fn forgotten(session: &IndexedSession, newest: u64) -> Option<Touched> {
    let tenant = std::str::from_utf8(&session.shard.realm).ok()?;
    Some(Touched {
        tenant: TenantId::new(tenant).ok()?,
        session: session.entry.key.parse().ok()?,
        newest: newest.max(1),
        erased: false,
        whole: true,
        spans: Vec::new(),
    })
}
