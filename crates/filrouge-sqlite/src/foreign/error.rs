//! Why a foreign database cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ffi;

/// Why a foreign database cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} {what}", path.display())]
pub struct ForeignError {
    /// What is wrong.
    pub kind: ForeignKind,
    /// The database.
    pub path: PathBuf,
    /// The same in words that follow the path: `is locked by another program`.
    pub what: String,
}

/// What is wrong with a foreign database; told apart by SQLite's codes, never by their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignKind {
    /// There is no file at the path (any more).
    Gone,
    /// Somebody holds a lock on it for longer than is waited.
    Busy,
    /// The file is something else.
    NotADatabase,
    /// It, its write-ahead log or the log's index cannot be opened. A log beside a database can be read only where
    /// its index, the `-shm` file, is there or may be made.
    CannotOpen,
    /// A page of it is damaged, or the file is shorter than it says.
    Corrupt,
    /// A value is larger than [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX).
    TooLarge,
    /// The question does not fit it: a table or column that is not there.
    Refused,
    /// The operating system fails.
    Unreadable,
}

impl ForeignError {
    pub(super) fn new(kind: ForeignKind, path: &Path, said: &str) -> Self {
        let what = match kind {
            ForeignKind::Gone => "does not exist".to_owned(),
            ForeignKind::Busy => "is locked by another program".to_owned(),
            ForeignKind::NotADatabase => "is not a SQLite database".to_owned(),
            ForeignKind::TooLarge => "holds a value that is too large to be read".to_owned(),
            ForeignKind::CannotOpen => format!("cannot be opened: {said}"),
            ForeignKind::Corrupt => format!("is damaged: {said}"),
            ForeignKind::Refused => format!("does not answer: {said}"),
            ForeignKind::Unreadable => format!("cannot be read: {said}"),
        };
        let path = path.to_owned();
        Self { kind, path, what }
    }

    pub(super) fn of_io(path: &Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ForeignKind::Gone,
            io::ErrorKind::PermissionDenied => ForeignKind::CannotOpen,
            _ => ForeignKind::Unreadable,
        };
        Self::new(kind, path, &error.to_string())
    }

    pub(super) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
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
            // The last one: a log without its index, or a journal to roll back, in a folder that may not be written.
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
