//! PostgreSQL's SQLSTATEs in our own vocabulary; the only place that knows them.

use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Translates an error by its SQLSTATE; one without a SQLSTATE is the connection's or a value's.
pub(crate) fn failure(error: &Error) -> Failure {
    let Some(db) = error.as_db_error() else {
        if error.is_closed() || is_io(error) {
            return Failure::new(
                ErrorCode::StoreUnavailable,
                format!("PostgreSQL: {}", chain(error)),
            );
        }
        // What is left are values of another type or shape than filrouge writes.
        return Failure::new(
            ErrorCode::IntegrityError,
            format!("PostgreSQL: {}", chain(error)),
        );
    };
    let code = code(db.code());
    let failure = Failure::new(
        code,
        format!("PostgreSQL {}: {}", db.code().code(), db.message()),
    );
    match hint(db.code()) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// As [`failure`]; `hint` says what gives the right that is missing, when one is.
pub(crate) fn failure_unless_allowed(error: &Error, hint: &str) -> Failure {
    let failure = failure(error);
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => failure.with_hint(hint),
        _ => failure,
    }
}

fn code(state: &SqlState) -> ErrorCode {
    if *state == SqlState::DISK_FULL {
        return ErrorCode::StoreFull;
    }
    if *state == SqlState::READ_ONLY_SQL_TRANSACTION {
        return ErrorCode::StoreReadOnly;
    }
    // Tables and columns are as the migrations made them, unless somebody else has changed them.
    let changed = [
        SqlState::DATA_CORRUPTED,
        SqlState::INDEX_CORRUPTED,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
    ];
    if changed.contains(state) {
        return ErrorCode::IntegrityError;
    }
    match class(state) {
        // Connection, authentication, database name, transaction rollback, resources, intervention, system.
        "08" | "28" | "3D" | "40" | "53" | "55" | "57" | "58" => ErrorCode::StoreUnavailable,
        _ if *state == SqlState::INSUFFICIENT_PRIVILEGE
            || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT =>
        {
            ErrorCode::StoreUnavailable
        }
        _ => ErrorCode::Internal,
    }
}

fn hint(state: &SqlState) -> Option<&'static str> {
    if *state == SqlState::INSUFFICIENT_PRIVILEGE {
        return Some(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge to the role",
        );
    }
    if *state == SqlState::LOCK_NOT_AVAILABLE {
        return Some("another server holds a lock of the store; try again soon, with the same key");
    }
    match class(state) {
        "28" => Some(
            "check the user and the password (--store, FILROUGE_STORE_PASSWORD or PGPASSWORD), and the server's pg_hba.conf",
        ),
        "3D" => Some("make the database first, for example with createdb"),
        _ => None,
    }
}

fn class(state: &SqlState) -> &str {
    state.code().get(..2).unwrap_or_default()
}

/// Whether nothing more can come of this connection: what it was asked last may have been done or not.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error.code() {
        Some(state) => {
            // A shutdown ends connections with an error of its own; 25P03: idle for too long in a transaction.
            matches!(class(state), "08" | "57") && *state != SqlState::QUERY_CANCELED
                || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                || is_standby(error)
        }
        None => error.is_closed() || is_io(error),
    }
}

/// Whether the server takes no writes any more, such as a primary that has become a standby: what was asked of it was
/// not done for certain, but may be of the server that has taken its place.
pub(crate) fn is_standby(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Whether a lock was waited for in vain.
pub(crate) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether another try can do: another transaction was in the way.
pub(crate) fn is_passing(error: &Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        // Two commits of one number: this one had lost its lock meanwhile.
        let overtaken =
            *db.code() == SqlState::UNIQUE_VIOLATION && db.table() == Some("commit_log");
        class(db.code()) == "40" || overtaken
    })
}

fn is_io(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// The error with its causes; never the statement's values.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A stored row that cannot be read.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        ErrorCode::IntegrityError,
        format!("a stored {what} is malformed"),
    )
}

/// The store does not answer.
pub(crate) fn unavailable(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, what)
}
