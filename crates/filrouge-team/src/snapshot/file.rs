//! Snapshot files: replaced atomically, private to their owner.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use filrouge_types::Timestamp;
use serde::{Serialize, Serializer};

use super::{FILE_BYTES_MAX, Problem, SessionSnapshot, SnapshotWarning, Snapshots, name, schema};
use crate::sessions::first_words;

/// The first bytes of encrypted files.
const AGE_PREFIXES: [&[u8]; 2] = [
    b"age-encryption.org/",
    b"-----BEGIN AGE ENCRYPTED FILE-----",
];

/// A snapshot file in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnapshotFile {
    /// The team's id.
    pub team_id: Box<str>,
    /// The session's id.
    pub session_id: Box<str>,
    /// The file's path.
    #[serde(serialize_with = "serialize_path")]
    pub path: PathBuf,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the session's newest message was said, as the file states it.
    pub updated_at: Timestamp,
    /// The number of messages in the file.
    pub message_count: u64,
    /// The beginning of its first message.
    pub first_words: Option<Box<str>>,
    /// The name of the speaker of its newest message.
    pub last_speaker: Option<Box<str>>,
    /// Whether there is a newer file of the same session.
    #[serde(rename = "outdated")]
    pub is_outdated: bool,
    /// The latest time of any message in the file, to compare with the ledger; `None` without messages.
    #[serde(skip)]
    pub(super) newest_at: Option<Timestamp>,
}

fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// A team's snapshot files, and those that cannot be read.
pub(super) type ListedFiles = (Vec<SnapshotFile>, Vec<SnapshotWarning>);

impl SnapshotWarning {
    pub(super) fn new(path: &Path, problem: Problem) -> Self {
        Self {
            path: path.to_owned(),
            problem,
        }
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(path, Problem::io(error))
    }
}

impl Snapshots {
    /// Writes a session's file: writes and flushes a temporary file, then renames it, so that readers find either the
    /// old file or the new one. Then deletes the session's file of the other form: the plain one if files are encrypted
    /// now, else the encrypted one.
    ///
    /// # Errors
    /// The problem and the path; the previous file stays.
    pub fn write(&self, snapshot: &SessionSnapshot) -> Result<PathBuf, SnapshotWarning> {
        let team = &snapshot.team_id;
        let path = self.file_path(team, snapshot.created_at, &snapshot.session_id);
        self.replace(snapshot, &path)
            .map_err(|error| SnapshotWarning::io(&path, &error))?;
        Ok(path)
    }

    /// As [`write`](Self::write), on a thread that may block.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn save(&self, snapshot: SessionSnapshot) -> Result<PathBuf, SnapshotWarning> {
        self.on_blocking_thread(move |snapshots| snapshots.write(&snapshot))
            .await
    }

    pub(super) async fn on_blocking_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, SnapshotWarning> + Send + 'static,
    ) -> Result<T, SnapshotWarning> {
        let snapshots = self.clone();
        let result = tokio::task::spawn_blocking(move || work(&snapshots)).await;
        result.unwrap_or_else(|e| Err(SnapshotWarning::io(self.folder(), &e.into())))
    }

    fn replace(&self, snapshot: &SessionSnapshot, path: &Path) -> io::Result<()> {
        let folder = self.team_folder(&snapshot.team_id);
        // A new folder is private to its owner; an existing one stays unchanged.
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder)?;
        let file = path.file_name().unwrap_or_default();
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(file);
        temporary.push(".tmp");
        let temporary = folder.join(temporary);
        let written = self
            .write_temporary(snapshot, &temporary)
            .and_then(|()| fs::rename(&temporary, path));
        if let Err(error) = written {
            // If removing the temporary file fails too, only the first failure is reported.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        File::open(&folder)?.sync_all()?;
        self.remove_other_form(snapshot)
    }

    fn write_temporary(&self, snapshot: &SessionSnapshot, temporary: &Path) -> io::Result<()> {
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(temporary)?;
        let mut out = BufWriter::new(file);
        match &self.seal {
            None => schema::write(snapshot, &mut out)?,
            Some(seal) => {
                let mut plain = Vec::new();
                schema::write(snapshot, &mut plain)?;
                out.write_all(&seal.seal(&plain).map_err(io::Error::other)?)?;
            }
        }
        let file = out.into_inner().map_err(|e| e.into_error())?;
        file.sync_all()
    }

    /// Deletes the session's file of the other form: the plain one if files are encrypted now, else the encrypted one.
    fn remove_other_form(&self, snapshot: &SessionSnapshot) -> io::Result<()> {
        let is_other_encrypted = self.seal.is_none();
        let (created_at, id) = (snapshot.created_at, &snapshot.session_id);
        let name = name::file_name(created_at, id, is_other_encrypted);
        match fs::remove_file(self.team_folder(&snapshot.team_id).join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The problem.
    pub fn read(&self, path: &Path) -> Result<SessionSnapshot, Problem> {
        let file = File::open(path).map_err(|e| Problem::io(&e))?;
        let size = file.metadata().map_err(|e| Problem::io(&e))?.len();
        if size > FILE_BYTES_MAX {
            return Err(Problem::TooLarge(size));
        }
        let mut bytes = Vec::new();
        let mut limited = file.take(FILE_BYTES_MAX + 1);
        limited
            .read_to_end(&mut bytes)
            .map_err(|e| Problem::io(&e))?;
        if !AGE_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix)) {
            return schema::read(&bytes);
        }
        let Some(seal) = &self.seal else {
            let detail = "name the passphrase or the identity that opens it";
            return Err(Problem::Encrypted(detail.to_owned()));
        };
        let plain = seal.open(&bytes).map_err(Problem::Encrypted)?;
        schema::read(&plain)
    }

    /// Lists all files of a team, newest first, and those that cannot be read. Changes nothing.
    ///
    /// # Errors
    /// If the folder cannot be read; a missing folder has no files.
    pub fn list(&self, team_id: &str) -> Result<ListedFiles, SnapshotWarning> {
        let folder = self.team_folder(team_id);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ListedFiles::default());
            }
            Err(error) => return Err(SnapshotWarning::io(&folder, &error)),
        };
        let (mut files, mut unreadable) = ListedFiles::default();
        for entry in entries {
            let path = entry.map_err(|e| SnapshotWarning::io(&folder, &e))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy());
            if !name.is_some_and(|name| name::is_snapshot(&name)) {
                continue;
            }
            match self.read(&path) {
                Ok(snapshot) if *snapshot.team_id != *team_id => {
                    let problem = Problem::OtherTeam(snapshot.team_id.into());
                    unreadable.push(SnapshotWarning::new(&path, problem));
                }
                Ok(snapshot) => files.push(list_entry(path, &snapshot)),
                Err(problem) => unreadable.push(SnapshotWarning::new(&path, problem)),
            }
        }
        files.sort_by(|a, b| (b.updated_at, &b.path).cmp(&(a.updated_at, &a.path)));
        let mut sessions = std::collections::HashSet::new();
        for file in &mut files {
            file.is_outdated = !sessions.insert(file.session_id.clone());
        }
        unreadable.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((files, unreadable))
    }
}

fn list_entry(path: PathBuf, snapshot: &SessionSnapshot) -> SnapshotFile {
    let messages = &snapshot.messages;
    SnapshotFile {
        team_id: snapshot.team_id.clone(),
        session_id: snapshot.session_id.clone(),
        path,
        created_at: snapshot.created_at,
        updated_at: snapshot.updated_at,
        message_count: messages.len() as u64,
        first_words: messages.first().map(first_words),
        last_speaker: messages.last().map(|m| m.speaker.name.clone()),
        is_outdated: false,
        newest_at: messages.iter().map(|m| m.at).max(),
    }
}
