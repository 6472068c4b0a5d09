//! Maps SQLite's result codes to failures of the store, the index and plain tables. (`foreign/error.rs` does this for other programs'
//! databases.)

use filrouge_store::plain::PlainError;
use filrouge_types::{ErrorCode, Failure};
use rusqlite::ffi;

/// Translates an error by its result code.
pub(crate) fn failure(error: rusqlite::Error) -> Failure {
    let code = match &error {
        rusqlite::Error::SqliteFailure(e, _) => match e.code {
            ffi::ErrorCode::DiskFull => ErrorCode::StoreFull,
            ffi::ErrorCode::DatabaseBusy
            | ffi::ErrorCode::DatabaseLocked
            | ffi::ErrorCode::FileLockingProtocolFailed
            | ffi::ErrorCode::CannotOpen
            | ffi::ErrorCode::OutOfMemory
            | ffi::ErrorCode::SystemIoFailure
            | ffi::ErrorCode::PermissionDenied => ErrorCode::StoreUnavailable,
            ffi::ErrorCode::ReadOnly => ErrorCode::StoreReadOnly,
            ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase => {
                ErrorCode::IntegrityError
            }
            _ => ErrorCode::Internal,
        },
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => ErrorCode::IntegrityError,
        _ => ErrorCode::Internal,
    };
    Failure::new(code, format!("SQLite: {error}"))
}

/// Whether the system reported an I/O error. If a flush failed, the state of the kernel's cached pages is unknown, and
/// a retry would rely on pages that may be lost.
pub(crate) fn is_io_failure(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(e, _) if e.code == ffi::ErrorCode::SystemIoFailure)
}

/// Whether another connection holds a lock, so that a retry can succeed.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(e, _)
        if matches!(e.code, ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked))
}

/// The failure for a stored row that cannot be decoded.
pub(crate) fn malformed(what: &str) -> Failure {
    ErrorCode::IntegrityError.failure(format!("a stored {what} is malformed"))
}

/// Translates an error of a statement over plain tables.
pub(crate) fn plain_error(error: &rusqlite::Error) -> PlainError {
    let text = format!("SQLite: {error}");
    let rusqlite::Error::SqliteFailure(cause, _) = error else {
        return PlainError::Altered(text);
    };
    match cause.code {
        ffi::ErrorCode::ConstraintViolation
        | ffi::ErrorCode::TypeMismatch
        | ffi::ErrorCode::TooBig => PlainError::Data(text),
        ffi::ErrorCode::ReadOnly | ffi::ErrorCode::PermissionDenied => PlainError::Refused(text),
        ffi::ErrorCode::Unknown
        | ffi::ErrorCode::DatabaseCorrupt
        | ffi::ErrorCode::NotADatabase
        | ffi::ErrorCode::SchemaChanged => PlainError::Altered(text),
        _ => PlainError::Unavailable(text),
    }
}
