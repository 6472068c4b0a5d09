//! Errors of reading a foreign database.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ffi;

/// The result of reading a foreign database.
pub type Result<T, E = ForeignError> = std::result::Result<T, E>;

/// The reason why a foreign database cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} {what}", path.display())]
pub struct ForeignError {
    /// The kind of the error.
    pub kind: ForeignKind,
    /// The database.
    pub path: PathBuf,
    /// The error, phrased to follow the path: `is locked by another program`.
    pub what: String,
}

/// Kinds of errors of a foreign database. Errors are classified by the codes of SQLite and of the operating system,
/// never by their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignKind {
    /// The file does not exist, or no longer exists.
    Gone,
    /// Another program holds a lock for longer than the query waits, or has replaced the file meanwhile.
    Busy,
    /// The file is not a SQLite database.
    NotADatabase,
    /// The database, its write-ahead log or the log's index cannot be opened. A database with a log can be read only if
    /// the log's index, the `-shm` file, exists or can be created.
    CannotOpen,
    /// A page is damaged, or the file is shorter than its header says.
    Corrupt,
    /// A value is larger than [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX).
    TooLarge,
    /// The query does not fit the schema: a table or column is missing.
    Refused,
    /// The operating system reports an error.
    Unreadable,
}

impl ForeignError {
    pub(super) fn new(kind: ForeignKind, path: &Path, message: &str) -> Self {
        let what = match kind {
            ForeignKind::Gone => "does not exist".to_owned(),
            ForeignKind::Busy => "is locked by another program".to_owned(),
            ForeignKind::NotADatabase => "is not a SQLite database".to_owned(),
            ForeignKind::TooLarge => "holds a value that is too large to be read".to_owned(),
            ForeignKind::CannotOpen => format!("cannot be opened: {message}"),
            ForeignKind::Corrupt => format!("is damaged: {message}"),
            ForeignKind::Refused => format!("does not answer: {message}"),
            ForeignKind::Unreadable => format!("cannot be read: {message}"),
        };
        let path = path.to_owned();
        Self { kind, path, what }
    }

    pub(super) fn from_io(path: &Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ForeignKind::Gone,
            io::ErrorKind::PermissionDenied => ForeignKind::CannotOpen,
            _ => ForeignKind::Unreadable,
        };
        Self::new(kind, path, &error.to_string())
    }

    pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let code = match error {
            rusqlite::Error::SqliteFailure(e, _) => Some(e.code),
            rusqlite::Error::SqlInputError { error: e, .. } => Some(e.code),
            _ => None,
        };
        let kind = match code {
            Some(
                ffi::ErrorCode::DatabaseBusy
                | ffi::ErrorCode::DatabaseLocked
                | ffi::ErrorCode::FileLockingProtocolFailed,
            ) => ForeignKind::Busy,
            Some(ffi::ErrorCode::NotADatabase) => ForeignKind::NotADatabase,
            // SQLite reports `ReadOnly` if it has to create the log's index or to roll back a journal, in a folder
            // where it may not write.
            Some(
                ffi::ErrorCode::CannotOpen
                | ffi::ErrorCode::PermissionDenied
                | ffi::ErrorCode::ReadOnly,
            ) => ForeignKind::CannotOpen,
            Some(ffi::ErrorCode::DatabaseCorrupt) => ForeignKind::Corrupt,
            Some(ffi::ErrorCode::TooBig) => ForeignKind::TooLarge,
            Some(ffi::ErrorCode::SystemIoFailure | ffi::ErrorCode::OutOfMemory) => {
                ForeignKind::Unreadable
            }
            _ => ForeignKind::Refused,
        };
        Self::new(kind, path, &error.to_string())
    }
}
