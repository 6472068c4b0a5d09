//! The exact state of a session after a failure: open turns, drafts, unanswered calls, failed turns, and what an
//! operator can do about each.
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

pub use findings::{Finding, Level, count, span};
pub use report::{
    Diagnosis, Draft, DraftPiece, FailedTurn, LastItem, PendingTurn, Recorder, TEXT_MAX, TURNS_MAX,
    TurnError, UnansweredCall, Unreadable, Verification,
};

impl Context {
    /// The state of a session with its newest `items` items, from one consistent snapshot of the store.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's errors. Data that differs from what was written is no
    /// error, but part of the diagnosis.
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
            .query_session(scope, session, move |snapshot| {
                session::examine(snapshot, &viewer, &id, now, items)
            })
            .await?;
        for turn in &mut diagnosis.pending {
            if let Some(recorder) = &mut turn.recorder {
                recorder.gone = self.ledger.has_exited(&recorder.writer);
            }
            turn.interrupted_in_ms = self.interrupted_in(turn);
        }
        diagnosis.findings = findings::derive(&diagnosis);
        Ok(diagnosis)
    }

    /// The time in milliseconds until the sweep may interrupt a turn that stays silent; `None` when it never will.
    fn interrupted_in(&self, turn: &PendingTurn) -> Option<u64> {
        if turn.status != TurnStatus::Open {
            return None;
        }
        match &turn.recorder {
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
