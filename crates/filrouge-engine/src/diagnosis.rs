//! The exact state of a session at the moment something went wrong: what is open, what was shown, which calls wait
//! for an answer, how turns have failed, and what is to be done about it.
//!
//! It only reads, and shows what can be read: what fails verification is told as such, beside the rest.

use std::time::Duration;

use filrouge_types::{Failure, SessionId, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Context;

mod drafts;
mod findings;
mod items;
mod look;
mod report;
#[cfg(test)]
mod tests;

pub use findings::{Finding, Level, count, span};
pub use report::{
    Diagnosis, Draft, DraftPiece, FailedTurn, LastItem, PendingTurn, Recorder, TEXT_MAX, TURNS_MAX,
    TurnError, UnansweredCall, Unreadable, Verification,
};

impl Context {
    /// The state of a session with its newest `items` items, from one consistent sight of the store.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the store's when it does not answer. What is not as it was
    /// written is part of the diagnosis.
    pub async fn diagnose(
        &self,
        caller: &Caller,
        session: &SessionId,
        items: usize,
    ) -> Result<Diagnosis, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let now = self.clock.now();
        let (viewer, id) = (scope.clone(), session.clone());
        let mut diagnosis = self
            .ledger
            .ask_in(scope, session, move |sight| {
                look::look(sight, &viewer, &id, now, items)
            })
            .await?;
        for turn in &mut diagnosis.pending {
            if let Some(recorder) = &mut turn.recorder {
                recorder.gone = self.ledger.is_gone(&recorder.writer);
            }
            turn.interrupted_in_ms = self.interrupted_in(turn);
        }
        diagnosis.findings = findings::of(&diagnosis);
        Ok(diagnosis)
    }

    /// How long a turn that nobody writes to is left alone; as the sweep has it.
    fn interrupted_in(&self, turn: &PendingTurn) -> Option<u64> {
        if turn.status != TurnStatus::Open {
            return None;
        }
        match &turn.recorder {
            Some(recorder) if recorder.gone => Some(0),
            Some(recorder) => Some(left(self.settings.stream_timeout, recorder.beat_age_ms)),
            None if turn.waits_for_human => None,
            None => Some(left(self.settings.turn_timeout, turn.silent_ms)),
        }
    }
}

fn left(timeout: Duration, silent_ms: u64) -> u64 {
    let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    timeout.saturating_sub(silent_ms)
}
