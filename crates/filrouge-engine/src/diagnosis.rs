//! The exact state of a session after a failure: open turns, drafts, unanswered calls and failed turns, each with a
//! hint for the operator.
//!
//! A diagnosis only reads. It shows everything that is readable, and reports data that fails verification as
//! unreadable.

use std::time::Duration;

use filrouge_types::{Failure, SessionId, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Context;

mod drafts;
mod findings;
mod items;
mod report;
mod session;
#[cfg(test)]
mod tests;

pub use findings::{Finding, Level, format_count, format_duration};
pub use report::{
    Diagnosis, Draft, DraftPiece, FailedTurn, LastItem, PendingTurn, Recorder, TEXT_MAX, TURNS_MAX,
    TurnError, UnansweredCall, Unreadable, Verification,
};

impl Context {
    /// The state of a session with its newest `items` items, from one consistent snapshot of the store.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's errors. Data that differs from the written data is
    /// reported in the diagnosis, not as an error.
    pub async fn diagnose(
        &self,
        caller: &Caller,
        session: &SessionId,
        items: usize,
    ) -> Result<Diagnosis, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let now = self.clock.now();
        let mut diagnosis = self
            .ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                session::examine(snapshot, scope, id, now, items)
            })
            .await?;
        for turn in &mut diagnosis.pending {
            if let Some(recorder) = &mut turn.recorder {
                recorder.gone = self.ledger.has_exited(&recorder.writer).await;
            }
            turn.interrupted_in_ms = self.interrupted_in_ms(turn);
        }
        diagnosis.findings = findings::derive_findings(&diagnosis);
        Ok(diagnosis)
    }

    /// The time in milliseconds until the sweep may interrupt a turn that stays silent; `None` when it never will.
    fn interrupted_in_ms(&self, turn: &PendingTurn) -> Option<u64> {
        match &turn.recorder {
            _ if turn.status != TurnStatus::Open => None,
            Some(recorder) if recorder.gone => Some(0),
            Some(recorder) => Some(remaining_ms(
                self.settings.stream_timeout,
                recorder.beat_age_ms,
            )),
            None if turn.waits_for_human => None,
            None => Some(remaining_ms(self.settings.turn_timeout, turn.silent_ms)),
        }
    }
}

fn remaining_ms(timeout: Duration, silent_ms: u64) -> u64 {
    let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    timeout.saturating_sub(silent_ms)
}
