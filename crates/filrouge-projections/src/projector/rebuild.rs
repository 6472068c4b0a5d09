//! The generations of a projection: which one queries see, and how a rebuild replaces it.

use filrouge_engine::notes::Stored;
use filrouge_store::ledger::Position;

use super::{CHECK_EVERY, Next, Projector};
use crate::calls::{Calls, StepError};
use crate::position::{StoredPosition, furthest, has_reached};
use crate::state::{Filled, State};
use crate::target::TargetError;

/// Why all generations in the target are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// They belong to another store, or to a state of this store that a restore has undone.
    OtherStore,
    /// The target has an older state than the note says: somebody has put a copy back.
    OlderTarget,
}

impl Mismatch {
    const fn as_str(self) -> &'static str {
        match self {
            Self::OtherStore => "the projection does not belong to this state of the ledger",
            Self::OlderTarget => {
                "the target has an older state than before, such as a backup: it is filled anew"
            }
        }
    }
}

impl Projector {
    /// Compares the target's published generation and the stamps with the note, and begins a rebuild if they differ, or
    /// if the settings have changed.
    pub(super) async fn check_target(&mut self, stored: Stored<State>) -> Result<Next, StepError> {
        let positions = stored.value.generations();
        let positions: Vec<Position> = positions.map(|g| (&g.position).into()).collect();
        for position in positions {
            if !self.is_of_store(position).await? {
                return self.start_over(stored, Mismatch::OtherStore).await;
            }
        }
        let reading = Calls {
            claimed_until: None,
            ..self.calls(&stored)
        };
        let seen = match reading.call(self.projection.target.published()).await {
            // Somebody else has changed what queries see: the next publication corrects it.
            Err(StepError::Target(TargetError::Altered(_), _)) => None,
            seen => seen?,
        };
        let state = &stored.value;
        let building = state.building.as_ref().map(|filled| filled.generation);
        if seen.is_some() && seen == building {
            // A process stopped after it had published the generation.
            return self.record_published(stored).await;
        }
        if state.fingerprint != self.projection.fingerprint() {
            return self.begin(stored, seen).await;
        }
        // One that queries do not see any more was deleted, not put back.
        let published = state.published.clone().filter(|_| state.queried == seen);
        if let Some(published) = &published
            && let Some(mismatch) = self.compare_stamp(reading, published).await?
        {
            return self.start_over(stored, mismatch).await;
        }
        let Some(generation) = building else {
            return match published.is_some() {
                true => {
                    self.check_at = Some(self.clock.now().after(CHECK_EVERY));
                    Ok(Next::Again)
                }
                false if state.queried == seen || seen.is_none() || state.queried.is_none() => {
                    self.begin(stored, seen).await
                }
                false => self.start_over(stored, Mismatch::OtherStore).await,
            };
        };
        self.create(stored, generation, seen).await
    }

    /// Whether a position is a commit of the store.
    async fn is_of_store(&self, position: Position) -> Result<bool, StepError> {
        let feed = &self.engine.index_feed;
        Ok(feed.changed_after(position, 1).await?.is_some())
    }

    /// Creates the generation that is built, unless the target has it, and checks its stamp.
    async fn create(
        &mut self,
        stored: Stored<State>,
        generation: u64,
        seen: Option<u64>,
    ) -> Result<Next, StepError> {
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        let calls = self.calls(&stored);
        calls
            .call(self.projection.target.create(generation))
            .await?;
        if let Some(building) = &stored.value.building
            && let Some(mismatch) = self.compare_stamp(calls, building).await?
        {
            return self.start_over(stored, mismatch).await;
        }
        self.created = Some(generation);
        if seen.is_some() && seen != stored.value.queried {
            // The versions of its rows may not be those of this store, so it cannot be cleaned: it is replaced at once.
            return self.publish(stored).await;
        }
        self.record_success(stored).await?;
        self.check_at = Some(self.clock.now().after(CHECK_EVERY));
        Ok(Next::Again)
    }

    /// Begins to build a generation. One that has other settings is not kept up to date any more.
    async fn begin(&mut self, stored: Stored<State>, seen: Option<u64>) -> Result<Next, StepError> {
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        tracing::info!(projection = %self.projection.name, "the projection is built anew");
        let fingerprint = self.projection.fingerprint();
        let newest = StoredPosition::from(&self.engine.index_feed.position());
        let now = self.clock.now();
        self.check_at = None;
        self.change_state(stored, |state| {
            state.published = None;
            state.fingerprint.clone_from(&fingerprint);
            if seen.is_none() {
                state.queried = None;
            }
            state.begin_rebuild(seen, now, newest.clone());
        })
        .await?;
        Ok(Next::Again)
    }

    /// Compares the stamp of a generation with the note. Returns what is wrong.
    async fn compare_stamp(
        &self,
        calls: Calls<'_>,
        filled: &Filled,
    ) -> Result<Option<Mismatch>, StepError> {
        Ok(match self.projection.history {
            Some(_) => self.history_stamped(calls, filled).await?.err(),
            None => self.stamped(calls, filled).await?.err(),
        })
    }

    /// Compares the stamp of a generation with the note. Returns the stamp's position, or what is wrong. A process stamps
    /// a generation before it moves the position in the note, so the stamp is never behind the note, except in an older
    /// state of the target.
    async fn stamped(
        &self,
        calls: Calls<'_>,
        filled: &Filled,
    ) -> Result<Result<Position, Mismatch>, StepError> {
        let stamp = self.projection.target.stamp(filled.generation);
        let stamp = calls.call(stamp).await?;
        let stamped = Position::from(&StoredPosition::of_stamp(stamp.as_ref()));
        let in_note = Position::from(&filled.position);
        if !has_reached(&stamped, &in_note) {
            return Ok(Err(Mismatch::OlderTarget));
        }
        // A process has stopped between the stamp and the note, or the ledger was restored to a state before the stamp.
        if stamped != in_note && !self.is_of_store(stamped.clone()).await? {
            return Ok(Err(Mismatch::OtherStore));
        }
        Ok(Ok(stamped))
    }

    /// Stamps a generation that has everything of the ledger up to a position. Returns what is wrong if its stamp does
    /// not agree with the note; then it is not stamped.
    pub(super) async fn stamp(
        &self,
        stored: &Stored<State>,
        generation: u64,
        position: &StoredPosition,
    ) -> Result<Option<Mismatch>, StepError> {
        let calls = self.calls(stored);
        let mut reached = Position::from(position);
        let mut generations = stored.value.generations();
        if let Some(filled) = generations.find(|filled| filled.generation == generation) {
            match self.stamped(calls, filled).await? {
                // A process that has stopped before it wrote the note was further in some lanes.
                Ok(stamped) => reached = furthest(reached, &stamped),
                Err(mismatch) => return Ok(Some(mismatch)),
            }
        }
        let stamp = StoredPosition::from(&reached).stamp()?;
        let stamped = self.projection.target.set_stamp(generation, &stamp);
        calls.call(stamped).await?;
        Ok(None)
    }

    /// Forgets all generations. Queries see a new, empty one at once: what they see now may have erased words.
    pub(super) async fn start_over(
        &mut self,
        stored: Stored<State>,
        mismatch: Mismatch,
    ) -> Result<Next, StepError> {
        tracing::warn!(projection = %self.projection.name, "{}", mismatch.as_str());
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        self.check_at = None;
        self.feeds.clear();
        self.change_state(stored, |state| {
            (state.published, state.building, state.queried) = (None, None, None);
            if mismatch == Mismatch::OlderTarget {
                state.older_states = state.older_states.saturating_add(1);
            }
        })
        .await?;
        Ok(Next::Again)
    }

    /// Makes the generation that is built the one that queries see.
    pub(super) async fn publish(&mut self, stored: Stored<State>) -> Result<Next, StepError> {
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        if let Some(building) = &stored.value.building {
            let publish = self.projection.target.publish(building.generation);
            self.calls(&stored).call(publish).await?;
        }
        self.record_published(stored).await
    }

    async fn record_published(&mut self, stored: Stored<State>) -> Result<Next, StepError> {
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        if let Some(building) = &stored.value.building {
            let generation = building.generation;
            tracing::info!(projection = %self.projection.name, generation, "a generation was published");
            self.change_state(stored, |state| state.record_published(generation))
                .await?;
        }
        Ok(Next::Again)
    }
}
