//! Maps PostgreSQL's SQLSTATEs to failures; the only module that knows them.

use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Translates an error by its SQLSTATE; an error without one comes from the connection or from decoding a value.
pub(crate) fn failure(error: &Error) -> Failure {
    let Some(db) = error.as_db_error() else {
        if error.is_closed() || is_io(error) {
            return Failure::new(
                ErrorCode::StoreUnavailable,
                format!("PostgreSQL: {}", chain(error)),
            );
        }
        // The remaining errors are values of an unexpected type.
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

/// Like [`failure`], but with the hint `hint` if a privilege is missing.
pub(crate) fn failure_with_privilege_hint(error: &Error, hint: &str) -> Failure {
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
    // The migrations created the tables and columns, so these errors mean that something else changed them.
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
        "3D" => Some("create the database first, for example with createdb"),
        _ => None,
    }
}

fn class(state: &SqlState) -> &str {
    state.code().get(..2).unwrap_or_default()
}

/// Whether the connection is unusable. Its last statement may or may not have been executed.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error.code() {
        Some(state) => {
            // A server that shuts down ends connections with a class 57 error; 25P03: idle for too long in a
            // transaction.
            matches!(class(state), "08" | "57") && *state != SqlState::QUERY_CANCELED
                || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                || is_standby(error)
        }
        None => error.is_closed() || is_io(error),
    }
}

/// Whether the server no longer accepts writes, such as a primary that has become a standby. It certainly did not
/// execute the statement, but the server that replaced it may have the commit.
pub(crate) fn is_standby(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Whether waiting for a lock timed out.
pub(crate) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether a retry can succeed: another transaction conflicted.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        // Two commits with one number: this transaction lost its lock in the meantime.
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

/// The failure for a stored row that cannot be decoded.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        ErrorCode::IntegrityError,
        format!("a stored {what} is malformed"),
    )
}

/// The failure for a store that does not answer.
pub(crate) fn unavailable(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, what)
}
