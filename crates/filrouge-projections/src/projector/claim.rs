//! The note with a projection's state: the claim of the process that writes to the target, and what it records.

use filrouge_engine::notes::{Claim, Stored, read_note, write_note};
use filrouge_types::Result;

use super::{LONGEST_WAIT, Next, Projector, READ_TIME};
use crate::position::StoredPosition;
use crate::state::{State, shortened, state_note};
use crate::target::TargetError;

impl Projector {
    /// Loads the projection's state; creates it if the store has no note of the projection.
    pub(crate) async fn load_state(&self) -> Result<Stored<State>> {
        let note = state_note(&self.projection.name);
        loop {
            if let Some(stored) = read_note(self.ledger(), &note).await? {
                return Ok(stored);
            }
            if write_note(self.ledger(), &note, 0, &State::default()).await? {
                tracing::info!(projection = %self.projection.name, "the projection begins");
            }
        }
    }

    /// Claims the right to write to the target, unless this process has it for long enough. `None` if another process
    /// wrote first.
    pub(super) async fn claim(&self, mut stored: Stored<State>) -> Result<Option<Stored<State>>> {
        let now = self.clock.now();
        let needed = now.after(READ_TIME + self.projection.timeout);
        let claim = stored.value.live_claim(now);
        if claim.is_some_and(|claim| claim.holder == self.holder && claim.until >= needed) {
            return Ok(Some(stored));
        }
        stored.value.claim = Some(Claim {
            holder: self.holder.clone(),
            until: now.after(READ_TIME + 2 * self.projection.timeout),
        });
        let note = state_note(&self.projection.name);
        let written = write_note(self.ledger(), &note, stored.version, &stored.value).await?;
        stored.version += 1;
        Ok(written.then_some(stored))
    }

    /// Changes the state, unless another process holds the claim now. A process that rebuilds the projection may have
    /// changed the state meanwhile.
    pub(super) async fn change_state(
        &self,
        mut stored: Stored<State>,
        change: impl Fn(&mut State),
    ) -> Result<()> {
        let note = state_note(&self.projection.name);
        loop {
            let before = stored.value.clone();
            change(&mut stored.value);
            if stored.value == before {
                return Ok(());
            }
            if write_note(self.ledger(), &note, stored.version, &stored.value).await? {
                return Ok(());
            }
            match read_note::<State>(self.ledger(), &note).await? {
                Some(newest) => stored = newest,
                None => return Ok(()),
            }
            let holder = stored.value.claim.as_ref().map(|claim| &claim.holder);
            if holder != Some(&self.holder) {
                tracing::warn!(projection = %self.projection.name, "another process keeps the projection up to date now");
                return Ok(());
            }
        }
    }

    /// Records that the target works, if the note says that it did not.
    pub(super) async fn record_success(&self, stored: Stored<State>) -> Result<()> {
        if stored.value.failures > 0 {
            tracing::info!(projection = %self.projection.name, "the projection is fed again");
        }
        self.projection.counts.set_failure(None);
        self.change_state(stored, State::record_success).await
    }

    /// Records that a call of the target failed, and returns when it is called again. The claim stays until it ends,
    /// because the target may still be executing the call.
    pub(super) async fn record_failure(
        &mut self,
        error: &TargetError,
        generation: Option<u64>,
    ) -> Result<Next> {
        let stored = self.load_state().await?;
        let failures = stored.value.failures.saturating_add(1);
        let wait = self.backoff.wait_after(failures, None).min(LONGEST_WAIT);
        let (retry_at, reason) = (self.clock.now().after(wait), shortened(&error.to_string()));
        if failures == 1 {
            tracing::warn!(projection = %self.projection.name, reason, "the projection cannot be fed; this is tried again");
        }
        self.projection.counts.set_failure(Some(reason.clone()));
        (self.check_at, self.created) = (None, None);
        if matches!(error, TargetError::Unavailable(_)) {
            self.shrink_batches();
        }
        let is_altered = matches!(error, TargetError::Altered(_));
        let (now, newest) = (self.clock.now(), self.engine.index_feed.position());
        self.change_state(stored, |state| {
            (state.failures, state.retry_at) = (failures, Some(retry_at));
            state.last_error = Some(reason.clone());
            if is_altered {
                let was_building = state.building.is_some();
                state.drop_generation(generation);
                if was_building && state.building.is_none() && state.published.is_some() {
                    state.begin_rebuild(None, now, StoredPosition::from(&newest));
                }
            }
        })
        .await?;
        Ok(Next::At(retry_at))
    }

    pub(super) fn note_failure(&self, state: &State) {
        let counts = &self.projection.counts;
        counts.set_failure(state.last_error.clone());
    }

    /// Releases this process's claim when the process stops, so that another process can continue at once.
    pub(crate) async fn release(&self) {
        let Ok(stored) = self.load_state().await else {
            return;
        };
        let claim = stored.value.live_claim(self.clock.now());
        // After a failure, the target may still be executing a call.
        let is_own = claim.is_some_and(|claim| claim.holder == self.holder);
        if !is_own || stored.value.failures > 0 {
            return;
        }
        let released = self.change_state(stored, |state| state.claim = None);
        if let Err(failure) = released.await {
            tracing::warn!(projection = %self.projection.name, %failure, "the projection's claim was not released; it expires");
        }
    }
}
