//! Why a foreign database cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ffi;

/// Why a foreign database cannot be read; told apart by SQLite's codes, never by their text.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// There is no file at the path (any more).
    #[error("{} does not exist", path.display())]
    Gone {
        /// The database.
        path: PathBuf,
    },
    /// Somebody holds a lock on it for longer than is waited.
    #[error("{} is locked by another program", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a SQLite database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// It, its write-ahead log or the log's index cannot be opened. A log beside a database can be read only where
    /// its index, the `-shm` file, is there or may be made.
    #[error("{} cannot be opened: {reason}", path.display())]
    CannotOpen {
        /// The database.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
    /// A page of it is damaged, or the file is shorter than it says.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
    /// A value is larger than [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX).
    #[error("{} holds a value that is too large to be read", path.display())]
    TooLarge {
        /// The database.
        path: PathBuf,
    },
    /// The question does not fit it: a table or column that is not there.
    #[error("{} does not answer: {reason}", path.display())]
    Refused {
        /// The database.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
    /// The operating system fails.
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
}

impl ForeignError {
    /// What is wrong, without the path.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Gone { .. } => "it does not exist".to_owned(),
            Self::Busy { .. } => "it is locked by another program".to_owned(),
            Self::NotADatabase { .. } => "it is not a SQLite database".to_owned(),
            Self::TooLarge { .. } => "it holds a value that is too large to be read".to_owned(),
            Self::CannotOpen { reason, .. } => format!("it cannot be opened: {reason}"),
            Self::Corrupt { reason, .. } => format!("it is damaged: {reason}"),
            Self::Refused { reason, .. } | Self::Unreadable { reason, .. } => reason.clone(),
        }
    }

    /// The database.
    #[must_use]
    pub fn into_path(self) -> PathBuf {
        match self {
            Self::Gone { path }
            | Self::Busy { path }
            | Self::NotADatabase { path }
            | Self::TooLarge { path }
            | Self::CannotOpen { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Refused { path, .. }
            | Self::Unreadable { path, .. } => path,
        }
    }

    pub(super) fn of_io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Gone { path },
            io::ErrorKind::PermissionDenied => Self::CannotOpen {
                path,
                reason: error.to_string(),
            },
            _ => Self::Unreadable {
                path,
                reason: error.to_string(),
            },
        }
    }

    pub(super) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, reason) = (path.to_owned(), error.to_string());
        let code = match error {
            rusqlite::Error::SqliteFailure(e, _) => e.code,
            rusqlite::Error::SqlInputError { error: e, .. } => e.code,
            _ => return Self::Refused { path, reason },
        };
        match code {
            ffi::ErrorCode::DatabaseBusy
            | ffi::ErrorCode::DatabaseLocked
            | ffi::ErrorCode::FileLockingProtocolFailed => Self::Busy { path },
            ffi::ErrorCode::NotADatabase => Self::NotADatabase { path },
            ffi::ErrorCode::CannotOpen
            | ffi::ErrorCode::PermissionDenied
            // A log without its index, or a journal to roll back, in a folder that may not be written.
            | ffi::ErrorCode::ReadOnly => Self::CannotOpen { path, reason },
            ffi::ErrorCode::DatabaseCorrupt => Self::Corrupt { path, reason },
            ffi::ErrorCode::TooBig => Self::TooLarge { path },
            ffi::ErrorCode::SystemIoFailure | ffi::ErrorCode::OutOfMemory => {
                Self::Unreadable { path, reason }
            }
            _ => Self::Refused { path, reason },
        }
    }
}
