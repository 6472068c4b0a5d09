//! The generations of a projection: which one queries see, and how a rebuild replaces it.

use filrouge_engine::notes::Stored;
use filrouge_store::ledger::Position;

use super::{CHECK_EVERY, Next, Projector};
use crate::calls::{Calls, StepError};
use crate::position::StoredPosition;
use crate::state::State;
use crate::target::TargetError;

impl Projector {
    /// Compares the target's published generation with the note, and begins a rebuild if they differ, or if the
    /// settings have changed.
    pub(super) async fn check_target(&mut self, stored: Stored<State>) -> Result<Next, StepError> {
        let positions = stored.value.generations();
        let positions: Vec<Position> = positions.map(|g| (&g.position).into()).collect();
        for position in positions {
            let feed = &self.engine.index_feed;
            if feed.changed_after(position, 1).await?.is_none() {
                return self.start_over(stored).await;
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
        let Some(generation) = building else {
            return match state.published.is_some() && state.queried == seen {
                true => {
                    self.check_at = Some(self.clock.now().after(CHECK_EVERY));
                    Ok(Next::Again)
                }
                false if state.queried == seen || seen.is_none() || state.queried.is_none() => {
                    self.begin(stored, seen).await
                }
                false => self.start_over(stored).await,
            };
        };
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        let calls = self.calls(&stored);
        calls
            .call(self.projection.target.create(generation))
            .await?;
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
        tracing::info!(projection = %self.projection.name, "the projection is built from the ledger's beginning");
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

    /// Forgets all generations: they belong to another store, or to a state of this store that a restore has undone.
    pub(super) async fn start_over(&mut self, stored: Stored<State>) -> Result<Next, StepError> {
        tracing::warn!(projection = %self.projection.name, "the projection does not belong to this state of the ledger");
        let Some(stored) = self.claim(stored).await? else {
            return Ok(Next::Again);
        };
        self.check_at = None;
        self.feeds.clear();
        self.change_state(stored, |state| {
            (state.published, state.building, state.queried) = (None, None, None);
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
