//! Brings single sessions up to date, and keeps the dead letters.

use filrouge_engine::notes::Stored;
use filrouge_types::Failure;

use super::Projector;
use crate::calls::StepError;
use crate::projection::Counts;
use crate::state::{DeadLetter, State, change_letters, shortened};
use crate::target::SessionKey;

impl Projector {
    /// Brings a session up to date in all generations, and updates its dead letter.
    pub(super) async fn refresh(
        &self,
        stored: &Stored<State>,
        key: &SessionKey,
        commit: u64,
    ) -> Result<(), StepError> {
        let generations: Vec<u64> = stored.value.generations().map(|g| g.generation).collect();
        let refreshed = self
            .calls(stored)
            .refresh(key, &generations, commit)
            .await?;
        if self.projection.has_history_of(&key.tenant) {
            // A letter with this key names a session of the history, not of the ledger.
            return Ok(());
        }
        let refusals = refreshed.refusal.map(|reason| (key.clone(), reason));
        self.update_letters(refusals.as_slice(), std::slice::from_ref(key))
            .await?;
        Ok(())
    }

    /// Adds dead letters for the refused sessions, and removes those of the other sessions that were written entirely.
    pub(super) async fn update_letters(
        &self,
        refusals: &[(SessionKey, String)],
        written: &[SessionKey],
    ) -> Result<(), Failure> {
        let now = self.clock.now();
        for (key, reason) in refusals {
            tracing::error!(projection = %self.projection.name, session_id = %key.session, reason,
                "a session was refused: it is among the projection's dead letters");
        }
        Counts::add(&self.projection.counts.dead_letters, refusals.len());
        change_letters(self.ledger(), &self.projection.name, |letters| {
            let mut added = Vec::new();
            for (key, reason) in refusals {
                let before = letters.iter().find(|letter| letter.key() == *key);
                added.push(DeadLetter {
                    tenant: key.tenant.clone(),
                    session_id: key.session.clone(),
                    reason: shortened(reason),
                    attempts: before.map_or(0, |letter| letter.attempts) + 1,
                    at: now,
                });
            }
            let is_done = |key| written.contains(&key) || added.iter().any(|a| a.key() == key);
            letters.retain(|letter| !is_done(letter.key()));
            letters.extend(added);
        })
        .await
    }
}
