//! The failures with which the rules refuse a write. Callers that refuse a write before it reaches the rules also use
//! them.

use filrouge_types::{ErrorCode, Failure, Result, TurnId, TurnStatus};

pub use super::lease::check_lease;

/// The refusal of a write to a turn that is not open. `is_redacted` states whether the turn was redacted.
pub fn turn_closed(id: &TurnId, status: TurnStatus, is_redacted: bool) -> Failure {
    let failure = Failure::new(ErrorCode::TurnClosed, format!("turn {id} is {status}"));
    if is_redacted {
        failure.with_hint("it was redacted and accepts no more items: start another turn")
    } else if status.is_closed() {
        failure.with_hint("start another turn, or replace this one; it takes only items of channel error and system_note")
    } else {
        failure.with_hint("start it again with the same request_id to open it; until then it takes only items of channel error and system_note")
    }
}

/// Refuses a write whose `expected_seq` differs from `actual`, the session's newest seq.
///
/// # Errors
/// `seq_conflict`.
pub fn check_expected_seq(expected: Option<u64>, actual: u64) -> Result<()> {
    let Some(expected) = expected.filter(|seq| *seq != actual) else {
        return Ok(());
    };
    let detail = format!("expected_seq is {expected}, the session's newest seq is {actual}");
    let mut failure = Failure::new(ErrorCode::SeqConflict, detail)
        .with_hint("read the items after expected_seq, then write again");
    failure.actual_seq = Some(actual);
    Err(failure)
}
