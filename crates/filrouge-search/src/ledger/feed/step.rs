//! One step of a feed: it brings some sessions of the index up to date.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_engine::{ChangedSession, ChangedSessions};
use filrouge_store::ledger::Position;
use filrouge_store::text_index::{
    IndexState, IndexVersion, IndexedSession, Key, SessionSelection, TextIndex,
};
use filrouge_types::{Result, TenantId, Timestamp, lock};

use super::{FeedStep, LedgerFeed, Page, State, StepLimits};
use crate::ledger::documents::UNREADABLE;
use crate::ledger::position;
use crate::ledger::reading::{LedgerReader, ReadOutcome, StepUpdates};
use crate::ledger::shard::key_of;

impl LedgerFeed {
    pub(super) async fn run_step(&self, state: &mut State, limits: StepLimits) -> Result<FeedStep> {
        self.engine.index_feed.forget_pending().await?;
        let IndexState { seen, sessions } = self.forgotten_sessions(FORGOTTEN_PER_LOOKUP).await?;
        let store = self.engine.index_feed.store_id();
        let Some(after) = position::decode(seen.position.as_deref(), store) else {
            return self.rebuild(state).await;
        };
        self.find_unreadable(state, &seen).await?;
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
            return self
                .read_again(state, (&seen, &sessions), &after, limits)
                .await;
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
    async fn rebuild(&self, state: &mut State) -> Result<FeedStep> {
        tracing::info!(
            "the search index does not belong to this state of the ledger: it is rebuilt"
        );
        *state = State::default();
        self.call_index(|index| index.clear()).await?;
        Ok(FeedStep::More)
    }

    /// Looks up the sessions that could not be read, if this is due: what prevented it may have been repaired, or other
    /// processes may have added some to the index, whose newest version is `seen`.
    async fn find_unreadable(&self, state: &mut State, seen: &IndexVersion) -> Result<()> {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        let must_retry = is_due(state.next_retry);
        if !must_retry && (*seen == state.looked_up || !is_due(state.next_lookup)) {
            return Ok(());
        }
        let call = |index: &dyn TextIndex| index.state(SessionSelection::Stamped(UNREADABLE));
        let found = self.call_index(call).await?;
        lock(&self.unreadable).replace(&found.sessions);
        state.looked_up = found.seen;
        state.next_lookup = Some(now + LOOKUP_INTERVAL);
        if must_retry {
            let sessions = found.sessions.iter();
            state.unreadable = sessions.filter_map(touched_from_entry).collect();
            state.next_retry = Some(now + RETRY_INTERVAL);
        }
        Ok(())
    }

    /// Reads forgotten sessions again, and then those that could not be read. No further commit may touch them: a
    /// refused redaction, for example, makes the index forget a session but writes no commit.
    async fn read_again(
        &self,
        state: &mut State,
        (seen, forgotten): (&IndexVersion, &[IndexedSession]),
        at: &Position,
        limits: StepLimits,
    ) -> Result<FeedStep> {
        let again = forgotten.iter().filter_map(touched_from_entry);
        let sessions: Vec<ChangedSession> = again.collect();
        if !sessions.is_empty() {
            self.index_sessions(seen, &sessions, (at, at), limits)
                .await?;
        } else if state.unreadable.is_empty() {
            return Ok(FeedStep::Done);
        } else {
            let completed = self
                .index_sessions(seen, &state.unreadable, (at, at), limits)
                .await?;
            state.unreadable.drain(..completed);
        }
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
    ) -> Result<usize> {
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
    ) -> Result<bool> {
        if step_updates.updates.is_empty() && !done {
            return Ok(true);
        }
        let position = position::encode(position, self.engine.index_feed.store_id());
        let (seen, updates) = (seen.clone(), Arc::new(step_updates.updates));
        let applied = updates.clone();
        let call =
            move |index: &dyn TextIndex| index.change(Some(&seen), &applied, Some(&position));
        let written = self.call_index(call).await?;
        if written {
            lock(&self.counts).documents += step_updates.documents;
            lock(&self.unreadable).apply(&updates);
        }
        Ok(written)
    }

    /// Returns the index's entries for these sessions.
    async fn indexed_sessions(
        &self,
        sessions: &[ChangedSession],
    ) -> Result<HashMap<Key, IndexedSession>> {
        let keys: Vec<Key> = sessions.iter().map(key_of).collect();
        let call = move |index: &dyn TextIndex| index.state(SessionSelection::Named(&keys));
        let sessions = self.call_index(call).await?.sessions;
        let by_key = sessions.iter().map(|session| {
            let key = (session.shard.realm.clone(), session.entry.key.clone());
            (key, session.clone())
        });
        Ok(by_key.collect())
    }

    /// Makes the index forget sessions that a process without the index has erased. Returns whether there were any.
    async fn forget_erased(
        &self,
        sessions: &[ChangedSession],
        indexed: &HashMap<Key, IndexedSession>,
    ) -> Result<bool> {
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
    async fn forget(&self, realm: Box<[u8]>, key: Box<str>) -> Result<()> {
        lock(&self.counts).forgotten += 1;
        let forget = move |index: &dyn TextIndex| index.forget(&realm, &key);
        self.call_index(forget).await.map(drop)
    }
}

/// The number of commits examined at once.
const COMMITS_PER_PAGE: usize = 512;

/// The number of touched sessions that are looked up at once.
const SESSIONS_PER_LOOKUP: usize = 256;

/// The number of forgotten sessions that are looked up at once, to be read again.
const FORGOTTEN_PER_LOOKUP: usize = 64;

/// The time between two attempts to read the sessions that could not be read.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);

/// The minimum time between two lookups of these sessions while the index changes. A lookup reads the entries of all
/// sessions in the index.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(10);

/// Describes a session that must be read again as if commits had touched all of it; `None` for an entry that is no
/// session of a ledger.
fn touched_from_entry(session: &IndexedSession) -> Option<ChangedSession> {
    let tenant = std::str::from_utf8(&session.shard.realm).ok()?;
    Some(ChangedSession {
        tenant: TenantId::new(tenant).ok()?,
        session: session.entry.key.parse().ok()?,
        // Less than the number of every later change, and greater than that of a forgotten session, which is 0.
        newest: session.entry.stamp[0].max(1),
        erased: false,
        must_reread_entirely: true,
        is_patched: false,
        seq_ranges: Vec::new(),
    })
}
