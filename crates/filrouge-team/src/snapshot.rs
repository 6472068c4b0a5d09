//! Snapshot files (DESIGN §11): the messages of a session, one file per session, for people and other programs. The
//! ledger is authoritative: a file that cannot be written is only a warning, and a file that cannot be read is reported
//! and not changed.
//!
//! The path of a file is `<folder>/<team id>/<createdAt in ms>-<session id>.json`. In an id, letters, digits, `_`, `-`
//! and `.` are unchanged; all other bytes, and a leading dot, become `%XX`. A result longer than 120 bytes is cut and
//! ends in `~` and 32 digits of the id's SHA-256. Encrypted files end in `.json.age`.

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
pub use transfer::{Importable, Offer, OfferReason, export, importable};

pub use crate::ledger::{Imported, import};

use crate::message::Message;

/// The version of the file's schema that is written. Every version `1.x` can be read.
pub const SCHEMA_VERSION: &str = "1.0";

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// A session in the form of a snapshot file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSnapshot {
    /// The team's id.
    pub team_id: Box<str>,
    /// The session's id.
    pub session_id: Box<str>,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the newest message was said.
    pub updated_at: Timestamp,
    /// The messages, in order. Their ids are distinct.
    pub messages: Vec<Message>,
    /// The task that the team works on.
    pub team_task: Option<Box<str>>,
}

impl SessionSnapshot {
    /// A snapshot of these messages.
    pub fn new(
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

/// Encrypts snapshot files, whose names then end in `.json.age`.
pub trait Seal: Send + Sync {
    /// The bytes of an encrypted file.
    ///
    /// # Errors
    /// The reason, for people.
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, String>;

    /// Decrypts a file's bytes.
    ///
    /// # Errors
    /// The reason, for people.
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String>;
}

/// The folder of snapshot files, and their encryption.
#[derive(Clone)]
pub struct Snapshots {
    folder: PathBuf,
    seal: Option<Arc<dyn Seal>>,
}

/// The reason why a snapshot file cannot be used. The file is never changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is truncated.
    #[error("the file is truncated")]
    Cut,
    /// Its version is supported, but its content does not follow that version's schema.
    #[error("the file is damaged: {0}")]
    Corrupt(String),
    /// It is not a snapshot.
    #[error("the file is no snapshot: {0}")]
    Foreign(String),
    /// Only newer programs can read its version.
    #[error("schemaVersion {0:?} needs a newer filrouge")]
    Newer(String),
    /// It belongs to another team.
    #[error("the snapshot belongs to team {0:?}")]
    OtherTeam(String),
    /// It is larger than the limit.
    #[error("the file has {0} bytes, at most {most} are read", most = FILE_BYTES_MAX)]
    TooLarge(u64),
    /// It is encrypted, and no key or the wrong key was given.
    #[error("the file is encrypted: {0}")]
    Encrypted(String),
    /// It cannot be read or written.
    #[error("{1}")]
    Io(std::io::ErrorKind, String),
}

impl Problem {
    /// The problem's code.
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
#[error("{}: {problem}", path.display())]
pub struct SnapshotWarning {
    /// The file, or the folder.
    pub path: PathBuf,
    /// The problem.
    pub problem: Problem,
}

impl Snapshots {
    /// Snapshot files below this folder, which is created with the first file.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            seal: None,
        }
    }

    /// The same snapshot files, but encrypted by `seal`.
    #[must_use]
    pub fn encrypted_by(mut self, seal: Arc<dyn Seal>) -> Self {
        self.seal = Some(seal);
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a team's files.
    pub fn team_folder(&self, team_id: &str) -> PathBuf {
        self.folder.join(name::encode_id(team_id))
    }

    /// The file of a session.
    pub fn file_path(&self, team_id: &str, created_at: Timestamp, session_id: &str) -> PathBuf {
        let name = name::file_name(created_at, session_id, self.seal.is_some());
        self.team_folder(team_id).join(name)
    }
}
