//! Feeding from the history of another program: scans of it are compared with what the generations have.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_engine::is_of_session;
use filrouge_engine::notes::Stored;
use filrouge_types::{Failure, SessionId};

use super::batch::Batch;
use super::rebuild::Mismatch;
use super::{Next, Projector, READ_TIME, RETRY_LETTERS_EVERY, SCAN_EVERY};
use crate::calls::{Calls, StepError};
use crate::history::ForeignHistory;
use crate::history::feed::{Change, HistoryFeed, Pass};
use crate::state::{DeadLetter, Filled, State};
use crate::target::{SessionKey, Stamp, TargetError, Update};

impl Projector {
    /// Scans the history if that is due, and writes some changes to one generation, or publishes a generation that is
    /// complete.
    pub(super) async fn feed_history(
        &mut self,
        stored: Stored<State>,
        history: &Arc<ForeignHistory>,
        letters: &[DeadLetter],
    ) -> Result<Next, StepError> {
        self.align_history_feeds(&stored.value);
        self.scan_if_due(history, letters).await?;
        let lag = self.history_feeds.first().map_or(0, HistoryFeed::lag);
        let counts = &self.projection.counts;
        counts.lag_commits.store(lag, Ordering::Relaxed);
        if self.history_is_complete(&stored.value) {
            return self.publish(stored).await;
        }
        let has_work = |feed: &HistoryFeed| feed.pass.is_some();
        let next = match self.prefers_building {
            true => self.history_feeds.iter().rposition(has_work),
            false => self.history_feeds.iter().position(has_work),
        };
        self.prefers_building = !self.prefers_building;
        let Some(index) = next else {
            self.record_success(stored).await?;
            return Ok(Next::Commit);
        };
        match self.claim(stored).await? {
            Some(stored) => self.write_pass(stored, index, letters).await,
            None => Ok(Next::Again),
        }
    }

    /// Makes the feeds those of the generations in the note, the published one first.
    fn align_history_feeds(&mut self, state: &State) {
        let mut before = std::mem::take(&mut self.history_feeds);
        for filled in state.generations() {
            let known = before.iter().position(|feed| feed.continues(filled));
            self.history_feeds.push(match known {
                Some(index) => before.swap_remove(index),
                None => HistoryFeed::new(filled),
            });
        }
    }

    /// Whether the generation that is built has everything that the published one has.
    fn history_is_complete(&self, state: &State) -> bool {
        let newest = self.history_feeds.iter().filter_map(|feed| feed.scanned_at);
        let feed = self.history_feeds.last().filter(|feed| feed.pass.is_none());
        state.building.is_some() && feed.is_some_and(|feed| feed.scanned_at == newest.max())
    }

    /// Scans the history for the feeds without changes to write: at times, and for the generation that is built also if
    /// the published one has a newer state.
    async fn scan_if_due(
        &mut self,
        history: &Arc<ForeignHistory>,
        letters: &[DeadLetter],
    ) -> Result<(), StepError> {
        let now = self.clock.now();
        let newest = self.history_feeds.iter().filter_map(|feed| feed.scanned_at);
        let newest = newest.max();
        let last = self.history_feeds.last().map(|feed| feed.generation);
        let is_due = |feed: &HistoryFeed| {
            let at = feed.scanned_at.filter(|at| at.after(SCAN_EVERY) > now);
            let is_behind = at < newest && last == Some(feed.generation);
            feed.pass.is_none() && (at.is_none() || is_behind)
        };
        if !self.history_feeds.iter().any(is_due) {
            return Ok(());
        }
        let scan = history.scan().await.map_err(unavailable)?;
        let retried = letters.iter().filter(|letter| {
            letter.at.after(RETRY_LETTERS_EVERY) <= now
                && letter.key() == scan.key(&letter.session_id)
        });
        let mut retried: BTreeSet<SessionId> = retried.map(|l| l.session_id.clone()).collect();
        let mut due = Vec::new();
        for (index, feed) in self.history_feeds.iter().enumerate() {
            if is_due(feed) {
                let in_target = match feed.needs_sessions_of_target(&scan) {
                    true => self.sessions_of_target(feed.generation).await?,
                    false => Vec::new(),
                };
                due.push((index, in_target));
            }
        }
        // A dead letter may be that of the newest generation only, which has it until it has the session.
        for (index, in_target) in due.into_iter().rev() {
            let is_newest = index + 1 == self.history_feeds.len();
            if !is_newest {
                retried.clear();
            }
            let feed = &mut self.history_feeds[index];
            feed.scanned_at = Some(now);
            feed.compare(scan.clone(), &in_target, &retried);
        }
        Ok(())
    }

    async fn sessions_of_target(&self, generation: u64) -> Result<Vec<SessionId>, StepError> {
        let listed = self.projection.target_sessions(generation).await;
        let listed = listed.map_err(|error| StepError::Target(error, Some(generation)))?;
        Ok(listed.into_iter().map(|key| key.session).collect())
    }

    /// Records which groups of sessions are written next, and the version of their rows.
    async fn begin_pass(&mut self, stored: Stored<State>, index: usize) -> Result<Next, StepError> {
        // Greater than every earlier one, also if an older state of the store was restored.
        let now = u64::try_from(self.clock.now().as_micros()).unwrap_or(0);
        let version = now.max(stored.value.history_version + 1);
        let generation = self.history_feeds[index].generation;
        let stamp = match self.stamp_history(&stored, generation).await? {
            Ok(stamp) => stamp,
            Err(mismatch) => return self.start_over(stored, mismatch).await,
        };
        let feed = &mut self.history_feeds[index];
        let (sums, lag) = (feed.begin(version, stamp), feed.lag());
        self.change_state(stored, |state| {
            state.history_version = version;
            state.advance_history(generation, &sums, stamp, lag);
        })
        .await?;
        Ok(Next::Again)
    }

    /// Compares the stamp of a generation with the note. Returns the number of the stamp, 0 without one, or what is
    /// wrong. A process stamps a generation before it changes the note, so the stamp is never behind the note, except in
    /// an older state of the target.
    pub(super) async fn history_stamped(
        &self,
        calls: Calls<'_>,
        filled: &Filled,
    ) -> Result<Result<u64, Mismatch>, StepError> {
        let stamp = self.projection.target.stamp(filled.generation);
        let stamp = calls.call(stamp).await?;
        let (number, noted) = (
            stamp.as_ref().map_or(0, |s| s.commits),
            filled.history_stamp,
        );
        if number < noted {
            return Ok(Err(Mismatch::OlderTarget));
        }
        // Otherwise a process has stopped between the stamp and the note.
        let is_undone = number > noted && stamp.is_some_and(|s| s.position != noted.to_string());
        Ok(match is_undone {
            true => Err(Mismatch::OtherStore),
            false => Ok(number),
        })
    }

    /// Stamps a generation before the note is changed. Returns the number of the stamp; what is wrong if the one before
    /// does not agree with the note: then it stays.
    async fn stamp_history(
        &self,
        stored: &Stored<State>,
        generation: u64,
    ) -> Result<Result<u64, Mismatch>, StepError> {
        let (calls, mut number, mut noted) = (self.calls(stored), 0, 0);
        let mut generations = stored.value.generations();
        if let Some(filled) = generations.find(|filled| filled.generation == generation) {
            match self.history_stamped(calls, filled).await? {
                Ok(stamped) => (number, noted) = (stamped, filled.history_stamp),
                Err(mismatch) => return Ok(Err(mismatch)),
            }
        }
        let stamp = Stamp {
            commits: number + 1,
            position: noted.to_string(),
        };
        let stamped = self.projection.target.set_stamp(generation, &stamp);
        calls.call(stamped).await?;
        Ok(Ok(stamp.commits))
    }

    /// Writes some changes of a feed.
    async fn write_pass(
        &mut self,
        stored: Stored<State>,
        index: usize,
        letters: &[DeadLetter],
    ) -> Result<Next, StepError> {
        let feed = &self.history_feeds[index];
        let generation = feed.generation;
        let Some(version) = feed.pass.as_ref().and_then(|pass| pass.version) else {
            return self.begin_pass(stored, index).await;
        };
        let batch = self.read_changes(index, version).await?;
        let completed = batch.completed;
        self.write_changed(&stored, generation, batch, letters)
            .await?;
        self.enlarge_batches();
        let stamp = match self.stamp_history(&stored, generation).await? {
            Ok(stamp) => stamp,
            Err(mismatch) => return self.start_over(stored, mismatch).await,
        };
        let feed = &mut self.history_feeds[index];
        let (sums, lag) = (feed.complete(completed, stamp), feed.lag());
        self.projection.counts.set_failure(None);
        self.change_state(stored, |state| {
            state.advance_history(generation, &sums, stamp, lag);
            state.record_success();
        })
        .await?;
        Ok(Next::Again)
    }

    /// Writes what a batch has to a generation, and updates the dead letters.
    async fn write_changed(
        &self,
        stored: &Stored<State>,
        generation: u64,
        batch: Batch,
        letters: &[DeadLetter],
    ) -> Result<(), StepError> {
        let keys: Vec<SessionKey> = batch.updates.iter().map(|u| u.key().clone()).collect();
        let refused = self.calls(stored).write(generation, batch.updates).await?;
        let mut refusals = batch.refusals;
        refusals.extend(
            refused
                .into_iter()
                .map(|refused| (refused.key, refused.reason)),
        );
        let is_written = |key: &SessionKey| refusals.iter().all(|(refused, _)| refused != key);
        let has_letter = |key: &SessionKey| letters.iter().any(|letter| letter.key() == *key);
        let newest = self.history_feeds.last().map(|feed| feed.generation);
        let keys = keys.into_iter().filter(|_| newest == Some(generation));
        let written: Vec<_> = keys
            .filter(|key| is_written(key) && has_letter(key))
            .collect();
        if !refusals.is_empty() || !written.is_empty() {
            self.update_letters(&refusals, &written).await?;
        }
        Ok(())
    }

    /// Reads some sessions of a feed's changes.
    async fn read_changes(&self, index: usize, version: u64) -> Result<Batch, StepError> {
        let end = self.clock.now().after(READ_TIME);
        let mut batch = Batch::default();
        let Some(pass) = &self.history_feeds[index].pass else {
            return Ok(batch);
        };
        for change in pass.changes.iter().skip(pass.completed) {
            self.read_changed(pass, change, version, &mut batch).await?;
            batch.completed += 1;
            if batch.is_full(self.batch_sessions) || self.is_after(end) {
                break;
            }
        }
        Ok(batch)
    }

    async fn read_changed(
        &self,
        pass: &Pass,
        change: &Change,
        version: u64,
        batch: &mut Batch,
    ) -> Result<(), StepError> {
        let key = pass.scan.key(&change.session);
        match pass.scan.read(&change.session, version).await {
            Ok(Some(mut update)) => {
                self.projection.selection.apply(&mut update);
                self.add_update(&update, batch);
            }
            Ok(None) => batch.updates.push(Update::Removed { key, version }),
            Err(failure) if is_of_session(&failure) => {
                batch.refusals.push((key, failure.code.to_string()));
            }
            Err(failure) => return Err(unavailable(failure)),
        }
        Ok(())
    }
}

/// A history that cannot be read is tried again as a target that does not answer.
fn unavailable(failure: Failure) -> StepError {
    TargetError::Unavailable(failure.detail).into()
}
