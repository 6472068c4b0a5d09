//! Functions that many services share.

use filrouge_store::Scope;
use filrouge_store::command::{Command, Write};
use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

/// The failure for an outcome that the write cannot have.
pub(crate) fn unexpected_outcome() -> Failure {
    internal("the ledger returned the outcome of another operation")
}

/// The failure for an invalid request.
pub(crate) fn invalid(detail: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Invalid, detail)
}

/// The failure for an error that no caller can cause.
pub(crate) fn internal(detail: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Internal, detail)
}

/// The command of a write on behalf of `scope`.
pub(crate) fn command_as(scope: &Scope, write: Write) -> Command {
    let scope = scope.clone();
    Command { scope, write }
}

/// Serializes a value as JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|e| internal(e.to_string()))
}
