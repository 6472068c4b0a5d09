//! SQLite's result codes in our own vocabulary; the only place that knows them.

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

/// Whether the disk failed under a flush: what the kernel holds is then unknown, and trying again would
/// trust pages that may be gone.
pub(crate) fn is_io_failure(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(e, _) if e.code == ffi::ErrorCode::SystemIoFailure)
}

/// Whether another connection is at it: trying again can help.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(e, _)
        if matches!(e.code, ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked))
}

/// A stored row that cannot be read.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        ErrorCode::IntegrityError,
        format!("a stored {what} is malformed"),
    )
}
