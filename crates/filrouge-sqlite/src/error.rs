//! Maps SQLite's result codes to failures; no other module knows them.

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

/// Whether the disk failed during a flush: the state of the kernel's pages is then unknown, and a retry would trust
/// pages that may be lost.
pub(crate) fn is_io_failure(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(e, _) if e.code == ffi::ErrorCode::SystemIoFailure)
}

/// Whether another connection holds a lock: a retry can help.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(e, _)
        if matches!(e.code, ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked))
}

/// The failure for a stored row that cannot be decoded.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        ErrorCode::IntegrityError,
        format!("a stored {what} is malformed"),
    )
}
