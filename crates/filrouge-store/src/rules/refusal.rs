//! Refusals in the words of the rules, for whoever has to give them without a write.

use filrouge_types::{ErrorCode, Failure, TurnId, TurnStatus};

pub use super::lease::check_hold;

/// A write to a turn that takes none.
#[must_use]
pub fn turn_closed(id: &TurnId, status: TurnStatus, redacted: bool) -> Failure {
    let failure = Failure::new(ErrorCode::TurnClosed, format!("turn {id} is {status}"));
    if redacted {
        failure.with_hint("it was redacted and takes nothing any more: start another turn")
    } else if status.is_closed() {
        failure.with_hint("start another turn, or replace this one")
    } else {
        failure.with_hint("start it again with the same request_id to open it")
    }
}

/// A write that expects the session to stand elsewhere.
#[must_use]
pub fn seq_conflict(expected: u64, actual: u64) -> Failure {
    let what = format!("expected_seq is {expected}, the session stands at {actual}");
    let mut failure = Failure::new(ErrorCode::SeqConflict, what)
        .with_hint("read the items after expected_seq, then append again");
    failure.actual_seq = Some(actual);
    failure
}
