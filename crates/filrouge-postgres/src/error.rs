//! Maps PostgreSQL's error codes, the SQLSTATEs, to failures. No other module refers to SQLSTATEs.

use filrouge_store::plain::PlainError;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Translates an error by its SQLSTATE. An error without a SQLSTATE does not come from the server, but from the
/// connection or from decoding a value.
pub(crate) fn failure(error: &Error) -> Failure {
    let Some(db) = error.as_db_error() else {
        if error.is_closed() || is_io(error) {
            return ErrorCode::StoreUnavailable
                .failure(format!("PostgreSQL: {}", error_chain(error)));
        }
        // The remaining errors mean that a value has an unexpected type.
        return ErrorCode::IntegrityError.failure(format!("PostgreSQL: {}", error_chain(error)));
    };
    let code = error_code(db.code());
    let failure = Failure::new(
        code,
        format!("PostgreSQL {}: {}", db.code().code(), db.message()),
    );
    match hint(db.code()) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Like [`failure`], but uses `hint` as the hint for a missing privilege.
pub(crate) fn failure_with_privilege_hint(error: &Error, hint: &str) -> Failure {
    let failure = failure(error);
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => failure.with_hint(hint),
        _ => failure,
    }
}

fn error_code(state: &SqlState) -> ErrorCode {
    if *state == SqlState::DISK_FULL {
        return ErrorCode::StoreFull;
    }
    if *state == SqlState::READ_ONLY_SQL_TRANSACTION {
        return ErrorCode::StoreReadOnly;
    }
    // The migrations created the tables and columns, so these errors mean that something other than filrouge changed
    // them.
    let foreign_change_states = [
        SqlState::DATA_CORRUPTED,
        SqlState::INDEX_CORRUPTED,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
    ];
    if foreign_change_states.contains(state) {
        return ErrorCode::IntegrityError;
    }
    match sqlstate_class(state) {
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
    match sqlstate_class(state) {
        "28" => Some(
            "check the user and the password (--store, FILROUGE_STORE_PASSWORD or PGPASSWORD), and the server's pg_hba.conf",
        ),
        "3D" => Some("create the database first, for example with createdb"),
        _ => None,
    }
}

/// The class of a SQLSTATE: its first two characters.
fn sqlstate_class(state: &SqlState) -> &str {
    state.code().get(..2).unwrap_or_default()
}

/// Whether the error means that the connection is unusable. The server may or may not have executed the last statement
/// that was sent over it.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error.code() {
        Some(state) => {
            // A server that shuts down ends connections with an error of class 57. A transaction that was idle for too
            // long also ends its connection.
            matches!(sqlstate_class(state), "08" | "57") && *state != SqlState::QUERY_CANCELED
                || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                || is_standby(error)
        }
        None => error.is_closed() || is_io(error),
    }
}

/// Whether the error means that the server does not accept writes, for example because the primary has become a
/// standby. This server certainly did not execute the statement; but if an earlier attempt was committed, the new
/// primary may have that commit.
pub(crate) fn is_standby(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Whether the error means that the wait for a lock timed out.
pub(crate) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the error comes from a conflict with another transaction, so that a retry can succeed.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        // Another transaction has used the same commit number: this one lost the lock of writers in the meantime. In a
        // distributed store the name of the table ends with a number.
        let is_log = || {
            db.table()
                .is_some_and(|table| table.starts_with("commit_log"))
        };
        let is_overtaken = *db.code() == SqlState::UNIQUE_VIOLATION && is_log();
        sqlstate_class(db.code()) == "40" || is_overtaken
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

/// Returns the error's text and those of its causes. The text never contains the values of a statement.
fn error_chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The failure for a stored row that cannot be decoded. `kind` is the kind of row.
pub(crate) fn malformed(kind: &str) -> Failure {
    ErrorCode::IntegrityError.failure(format!("a stored {kind} is malformed"))
}

/// The failure for a store that does not answer.
pub(crate) fn unavailable(detail: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, detail)
}

/// Translates an error of a statement over plain tables.
pub(crate) fn plain_error(error: &Error) -> PlainError {
    let text = failure(error).detail;
    let Some(state) = error.code() else {
        let is_lost = error.is_closed() || is_io(error);
        return match is_lost {
            true => PlainError::Unavailable(text),
            // A column is not of type text.
            false => PlainError::Altered(text),
        };
    };
    let altered = [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::DUPLICATE_TABLE,
        SqlState::DATATYPE_MISMATCH,
        SqlState::INVALID_COLUMN_REFERENCE,
        SqlState::INVALID_TABLE_DEFINITION,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::WRONG_OBJECT_TYPE,
    ];
    if altered.contains(state) {
        return PlainError::Altered(text);
    }
    match sqlstate_class(state) {
        // A value that its column does not take, a constraint, a value that is too large.
        // The text of the error may quote it.
        "21" | "22" | "23" | "54" => {
            let state = state.code();
            PlainError::Data(format!(
                "PostgreSQL {state}: a value does not fit its column"
            ))
        }
        // Not supported, authentication, database name, dependent objects, permissions and syntax.
        "0A" | "28" | "2B" | "3D" | "42" => PlainError::Refused(text),
        _ => PlainError::Unavailable(text),
    }
}
