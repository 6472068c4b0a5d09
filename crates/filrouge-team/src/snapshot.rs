//! Snapshot files (DESIGN §11): what is said in a session, in one file a session, for people and other programs. The
//! ledger is the truth; a file that cannot be written stops nothing, one that cannot be read is named and left alone.
//!
//! Files lie at `<folder>/<team id>/<createdAt in ms>-<session id>.json`. Of an id letters, digits, `_`, `-` and `.` stand
//! for themselves, all other bytes as `%XX`, a dot at the beginning too; one that is longer than 120 bytes so is cut and ends
//! in `~` and 32 digits of its SHA-256. Encrypted files end in `.json.age`.

mod file;
mod name;
mod schema;
#[cfg(feature = "age")]
mod sealed;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_types::Timestamp;

pub use file::SnapshotFile;
#[cfg(feature = "age")]
pub use sealed::AgeSeal;
pub use transfer::{Importable, Offer, Why, export, importable};

pub use crate::ledger::{Imported, import};

use crate::message::Message;

/// The version that is written. Any `1.x` is read.
pub const SCHEMA_VERSION: &str = "1.0";

/// Most bytes of a file that is read.
const FILE_BYTES: u64 = 512 << 20;

/// A session as a snapshot file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSnapshot {
    /// The team's id.
    pub team_id: Box<str>,
    /// The session's id.
    pub session_id: Box<str>,
    /// When the session was made.
    pub created_at: Timestamp,
    /// When the newest message was said.
    pub updated_at: Timestamp,
    /// What was said, in order. No two messages have one id.
    pub messages: Vec<Message>,
    /// What the team works on.
    pub team_task: Option<Box<str>>,
}

impl SessionSnapshot {
    /// A snapshot of these messages.
    #[must_use]
    pub fn of(
        team_id: Box<str>,
        session_id: Box<str>,
        created_at: Timestamp,
        messages: Vec<Message>,
        team_task: Option<Box<str>>,
    ) -> Self {
        let newest = messages.iter().map(|message| message.at).max();
        Self {
            team_id,
            session_id,
            created_at,
            updated_at: newest.unwrap_or(created_at),
            messages,
            team_task,
        }
    }
}

/// Encrypts snapshot files; they are called `.json.age` then.
pub trait Seal: Send + Sync {
    /// The bytes of an encrypted file.
    ///
    /// # Errors
    /// Why not, for people.
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, String>;

    /// The bytes that were encrypted.
    ///
    /// # Errors
    /// Why not, for people.
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String>;
}

/// Where snapshot files lie.
#[derive(Clone)]
pub struct Snapshots {
    folder: PathBuf,
    seal: Option<Arc<dyn Seal>>,
}

/// What is wrong with a snapshot file. Whatever it is, the file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It ends before its end.
    #[error("the file ends before its end")]
    Cut,
    /// It is of a version that is read, and not as that one says.
    #[error("the file is damaged: {0}")]
    Corrupt(String),
    /// It is no snapshot at all.
    #[error("the file is no snapshot: {0}")]
    Foreign(String),
    /// Its version is one that only newer programs read.
    #[error("schemaVersion {0:?} needs a newer filrouge")]
    Newer(String),
    /// It is another team's.
    #[error("the snapshot is of team {0:?}")]
    OtherTeam(String),
    /// It is too large to be read.
    #[error("the file has {0} bytes, at most {most} are read", most = FILE_BYTES)]
    TooLarge(u64),
    /// It is encrypted, and nothing was given that opens it, or not the right thing.
    #[error("the file is encrypted: {0}")]
    Encrypted(String),
    /// It cannot be read or written.
    #[error("{1}")]
    Io(std::io::ErrorKind, String),
}

impl Problem {
    /// The word for it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Cut => "snapshot_cut",
            Self::Corrupt(_) => "snapshot_corrupt",
            Self::Foreign(_) => "snapshot_foreign",
            Self::Newer(_) => "snapshot_newer",
            Self::OtherTeam(_) => "snapshot_other_team",
            Self::TooLarge(_) => "snapshot_too_large",
            Self::Encrypted(_) => "snapshot_encrypted",
            Self::Io(..) => "snapshot_io",
        }
    }

    fn io(error: &std::io::Error) -> Self {
        Self::Io(error.kind(), error.to_string())
    }
}

/// A snapshot file that could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct SnapshotWarning {
    /// The file, or the folder.
    pub path: PathBuf,
    /// What is wrong.
    pub what: Problem,
}

impl Snapshots {
    /// Files below this folder, which is made when the first is written.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            seal: None,
        }
    }

    /// Encrypted by `seal`.
    #[must_use]
    pub fn sealed(mut self, seal: Arc<dyn Seal>) -> Self {
        self.seal = Some(seal);
        self
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a team's files.
    #[must_use]
    pub fn folder_of(&self, team_id: &str) -> PathBuf {
        self.folder.join(name::spelled(team_id))
    }

    /// The file of a session.
    #[must_use]
    pub fn path_of(&self, team_id: &str, created_at: Timestamp, session_id: &str) -> PathBuf {
        let name = name::file_name(created_at, session_id, self.seal.is_some());
        self.folder_of(team_id).join(name)
    }
}
