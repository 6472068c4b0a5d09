//! One step of feeding: the sessions of some commits are read, and their rows are written.

use std::sync::atomic::Ordering;

use filrouge_engine::notes::Stored;
use filrouge_engine::{ChangedSession, is_of_session};
use filrouge_store::ledger::Position;
use filrouge_types::Timestamp;

use super::rebuild::Mismatch;
use super::{BATCH_SESSIONS, Next, Projector, READ_TIME};
use crate::calls::StepError;
use crate::feed::{COMMITS_PER_PAGE, Feed, Page, read_change};
use crate::position::{StoredPosition, has_reached};
use crate::state::{DeadLetter, Filled, State};
use crate::target::{SessionKey, SessionUpdate, Update};

/// The approximate number of bytes in one write with [`BATCH_SESSIONS`] sessions.
const BATCH_BYTES: usize = 4 << 20;
/// The number of commits without a change for the projection after which the note's position is moved. So a restart
/// does not examine all of them again.
const POSITION_WRITE_COMMITS: u64 = 4096;

/// What a step found in the next sessions.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) updates: Vec<Update>,
    bytes: usize,
    /// Sessions with erased contents, and the commits that erased them.
    erased: Vec<(SessionKey, u64)>,
    /// Sessions that were read entirely, and their versions.
    entire: Vec<(SessionKey, u64)>,
    /// Sessions without current rows, and the reasons.
    pub(super) refusals: Vec<(SessionKey, String)>,
    /// The number of sessions that were examined.
    pub(super) completed: usize,
}

impl Batch {
    /// Whether what is in the batch should be written before more is read, if a batch has at most this many sessions,
    /// and as large a share of the bytes.
    pub(super) fn is_full(&self, max_sessions: usize) -> bool {
        self.updates.len() >= max_sessions
            || self.erased.len() >= max_sessions
            || self.bytes >= BATCH_BYTES / BATCH_SESSIONS * max_sessions
    }
}

impl Projector {
    /// Writes some of the next changes to one generation, or publishes a generation that is complete.
    pub(super) async fn feed(
        &mut self,
        stored: Stored<State>,
        letters: &[DeadLetter],
    ) -> Result<Next, StepError> {
        self.align_feeds(&stored.value);
        for feed in &mut self.feeds {
            if !feed.load_page(&self.engine).await? {
                return self.start_over(stored, Mismatch::OtherStore).await;
            }
        }
        self.count_feed_lag();
        if self.is_complete(&stored.value) {
            return self.publish(stored).await;
        }
        let has_work = |feed: &Feed| feed.page.as_ref().is_some_and(|p| p.end != feed.position);
        let next = match self.prefers_building {
            true => self.feeds.iter().rposition(has_work),
            false => self.feeds.iter().position(has_work),
        };
        self.prefers_building = !self.prefers_building;
        let Some(index) = next else {
            for feed in &mut self.feeds {
                feed.page = None;
            }
            self.record_success(stored).await?;
            return Ok(Next::Commit);
        };
        let is_empty = |page: &Page| page.sessions.is_empty();
        if self.feeds[index].page.as_ref().is_some_and(is_empty) {
            return self.skip_page(stored, index).await;
        }
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        self.write_batch(stored, index, letters).await
    }

    /// Makes the feeds those of the generations in the note, the published one first. A feed stays if the note is not
    /// further.
    fn align_feeds(&mut self, state: &State) {
        let mut before = std::mem::take(&mut self.feeds);
        for filled in state.generations() {
            let known = before.iter().position(|feed| feed.continues(filled));
            self.feeds.push(match known {
                Some(index) => before.swap_remove(index),
                None => Feed::new(filled),
            });
        }
    }

    fn count_feed_lag(&self) {
        let Some(feed) = self.feeds.first() else {
            return;
        };
        let lag = feed
            .page
            .as_ref()
            .map_or(0, |page| match page.sessions.is_empty() {
                true => 0,
                false => page.newest.saturating_sub(feed.position.commit_count()),
            });
        let counts = &self.projection.counts;
        counts.lag_commits.store(lag, Ordering::Relaxed);
    }

    /// Whether the generation that is built has everything that the published one has.
    fn is_complete(&self, state: &State) -> bool {
        let (Some(building), Some(feed)) = (&state.building, self.feeds.last()) else {
            return false;
        };
        let Some(page) = &feed.page else {
            return false;
        };
        let lag = page.newest.saturating_sub(feed.position.commit_count());
        let is_at_end = page.end == feed.position;
        let is_near_end = lag <= COMMITS_PER_PAGE as u64
            && page.completed == 0
            && has_reached(&feed.position, &Position::from(&building.began_at));
        let reaches =
            |other: &Filled| has_reached(&feed.position, &Position::from(&other.position));
        (is_at_end || is_near_end) && state.published.as_ref().is_none_or(reaches)
    }

    /// Records that a page has no change for the projection: in memory, and only rarely in the note, because each write
    /// of the note is a commit that must be examined too.
    async fn skip_page(&mut self, stored: Stored<State>, index: usize) -> Result<Next, StepError> {
        let feed = &mut self.feeds[index];
        let Some(page) = feed.page.take() else {
            return Ok(Next::Again);
        };
        feed.position = page.end;
        let (generation, position) = (feed.generation, StoredPosition::from(&feed.position));
        let in_note = stored
            .value
            .generations()
            .find(|filled| filled.generation == generation);
        let written = in_note.map_or(0, Filled::commit_count);
        if feed.position.commit_count().saturating_sub(written) < POSITION_WRITE_COMMITS {
            return Ok(Next::Again);
        }
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        if let Some(mismatch) = self.stamp(&stored, generation, &position).await? {
            return self.start_over(stored, mismatch).await;
        }
        self.change_state(stored, |state| state.advance(generation, &position))
            .await?;
        Ok(Next::Again)
    }

    /// Reads some sessions of a feed's page and writes them. With the last one, moves the position.
    async fn write_batch(
        &mut self,
        mut stored: Stored<State>,
        index: usize,
        letters: &[DeadLetter],
    ) -> Result<Next, StepError> {
        let batch = self.read_batch(index, letters).await?;
        let generation = self.feeds[index].generation;
        let refused = self.calls(&stored).write(generation, batch.updates).await?;
        self.enlarge_batches();
        for (key, commit) in &batch.erased {
            // Many erasures take longer than one claim.
            let Some(renewed) = self.claim(stored).await? else {
                return Ok(Next::Again);
            };
            stored = renewed;
            self.refresh(&stored, key, *commit).await?;
        }
        let mut refusals = batch.refusals;
        refusals.extend(
            refused
                .into_iter()
                .map(|refused| (refused.key, refused.reason)),
        );
        let mut written = Vec::new();
        for (key, version) in batch.entire {
            if refusals.iter().all(|(refused, _)| *refused != key) {
                self.feeds[index].remember(key.clone(), version);
                written.push(key);
            }
        }
        let has_letter = |key: &SessionKey| letters.iter().any(|letter| letter.key() == *key);
        // A dead letter may be that of the newest generation only, which has it until it has the session.
        let newest = self.feeds.last().map(|feed| feed.generation);
        written.retain(|key| newest == Some(generation) && has_letter(key));
        if !refusals.is_empty() || !written.is_empty() {
            self.update_letters(&refusals, &written).await?;
        }
        let feed = &mut self.feeds[index];
        let Some(page) = &mut feed.page else {
            return Ok(Next::Again);
        };
        page.completed += batch.completed;
        if page.completed < page.sessions.len() {
            self.record_success(stored).await?;
            return Ok(Next::Again);
        }
        let position = StoredPosition::from(&page.end);
        if let Some(mismatch) = self.stamp(&stored, generation, &position).await? {
            return self.start_over(stored, mismatch).await;
        }
        let feed = &mut self.feeds[index];
        if let Some(page) = feed.page.take() {
            feed.position = page.end;
        }
        self.projection.counts.set_failure(None);
        self.change_state(stored, |state| {
            state.advance(generation, &position);
            state.record_success();
        })
        .await?;
        Ok(Next::Again)
    }

    async fn read_batch(&self, index: usize, letters: &[DeadLetter]) -> Result<Batch, StepError> {
        let (feed, end) = (&self.feeds[index], self.clock.now().after(READ_TIME));
        let mut batch = Batch::default();
        let Some(page) = &feed.page else {
            return Ok(batch);
        };
        for changed in page.sessions.iter().skip(page.completed) {
            self.read_session(feed, changed, letters, &mut batch)
                .await?;
            batch.completed += 1;
            if batch.is_full(self.batch_sessions) || self.is_after(end) {
                break;
            }
        }
        Ok(batch)
    }

    /// After a write that succeeded, the next one may have a few more sessions.
    pub(super) fn enlarge_batches(&mut self) {
        let larger = self.batch_sessions + self.batch_sessions / 8 + 1;
        self.batch_sessions = larger.min(BATCH_SESSIONS);
    }

    /// After a call without an answer, the next write has fewer sessions: perhaps they took too long together.
    pub(super) fn shrink_batches(&mut self) {
        self.batch_sessions = (self.batch_sessions / 4).max(1);
    }

    pub(super) fn is_after(&self, end: Timestamp) -> bool {
        self.clock.now() >= end
    }

    async fn read_session(
        &self,
        feed: &Feed,
        changed: &ChangedSession,
        letters: &[DeadLetter],
        batch: &mut Batch,
    ) -> Result<(), StepError> {
        let key = SessionKey {
            tenant: changed.tenant.clone(),
            session: changed.session.clone(),
        };
        if !self.projection.selection.has_tenant(&key.tenant) {
            return Ok(());
        }
        let never_had = feed.never_had(&self.engine, changed);
        if changed.erased {
            if !never_had {
                batch.erased.push((key, changed.newest));
            }
            return Ok(());
        }
        if feed.has_written(&key, changed) {
            return Ok(());
        }
        let has_letter = letters.iter().any(|letter| letter.key() == key);
        let read = read_change(&self.engine, &self.projection, changed, has_letter).await;
        match read {
            Ok(Some(read)) if read.is_redacted && !never_had => {
                batch.erased.push((key, changed.newest));
            }
            Ok(Some(read)) => self.add_update(&read.update, batch),
            Ok(None) => batch.updates.push(Update::Removed {
                key,
                version: changed.newest,
            }),
            Err(failure) if is_of_session(&failure) => {
                batch.refusals.push((key, failure.code.to_string()));
            }
            Err(failure) => return Err(failure.into()),
        }
        Ok(())
    }

    pub(super) fn add_update(&self, update: &SessionUpdate, batch: &mut Batch) {
        let turns = update.recorded.turns.iter();
        let items = turns
            .flat_map(|(_, items)| items)
            .chain(&update.recorded.loose);
        batch.bytes += items.map(|item| item.body.bytes()).sum::<usize>();
        if update.is_entire {
            batch.entire.push((update.key.clone(), update.version));
        }
        batch.updates.push(Update::Rows {
            key: update.key.clone(),
            version: update.version,
            is_entire: update.is_entire,
            rows: self.projection.target.rows(update),
        });
    }
}
