//! Finds rollouts: `sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`, and those in `archived_sessions`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::jsonl::{LogFile, State, list_folder, stem};
use crate::{SkipReason, Skipped, SourceError};

/// [`crate::Source::name`].
pub(super) const NAME: &str = "codex";

/// The maximum number of folder levels that are scanned below a folder of rollouts: years, months, days, and one more.
const DEPTH_MAX: usize = 4;

/// The number of characters in a UUID.
const UUID_CHARS: usize = 36;

/// The parts of the opened history.
pub(crate) struct CodexHistory {
    /// Folders of rollouts.
    pub(super) folders: Vec<PathBuf>,
    /// The rollout, if the opened path is a single one.
    pub(super) file: Option<PathBuf>,
    /// Codex's folder, which contains its index, if the opened path is in it.
    pub(super) home: Option<PathBuf>,
}

impl CodexHistory {
    /// Finds the history at `path`: a folder of rollouts, one rollout, or Codex's folder.
    pub(super) fn find(path: &Path) -> Result<Self, SourceError> {
        let Ok(meta) = std::fs::metadata(path) else {
            let path = path.to_owned();
            return Err(SourceError::NotFound { path });
        };
        let unrecognized = Err(SourceError::unrecognized(NAME, path));
        let history = |folders, file, home| Self {
            folders,
            file,
            home,
        };
        if meta.is_file() {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let is_rollout =
                stem(path).is_some() && name != "history.jsonl" && name != "session_index.jsonl";
            return if is_rollout {
                Ok(history(Vec::new(), Some(path.to_owned()), None))
            } else {
                unrecognized
            };
        }
        let inner = ["sessions", "archived_sessions"].map(|name| path.join(name));
        if inner.iter().any(|folder| folder.is_dir()) {
            return Ok(history(inner.into(), None, Some(path.to_owned())));
        }
        let name = path.file_name();
        let is_named =
            name == Some(OsStr::new("sessions")) || name == Some(OsStr::new("archived_sessions"));
        let history = history(
            vec![path.to_owned()],
            None,
            path.parent().filter(|_| is_named).map(Path::to_owned),
        );
        if is_named
            || history
                .list_files(&mut Vec::new())
                .iter()
                .any(|file| is_rollout(&file.path))
        {
            return Ok(history);
        }
        unrecognized
    }

    /// Lists all rollouts.
    pub(super) fn list_files(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let mut rollouts = Vec::new();
        for folder in &self.folders {
            list_rollouts(folder, DEPTH_MAX, &mut rollouts, skipped);
        }
        // The user named the file, so it may be a link.
        let file = self.file.as_ref().and_then(|path| path.canonicalize().ok());
        if let Some(path) = file {
            rollouts.extend(State::read(&path).map(|state| LogFile { path, state }));
        }
        rollouts
    }
}

fn is_rollout(path: &Path) -> bool {
    stem(path).is_some_and(|name| name.starts_with("rollout-"))
}

/// Whether a name is that of a rollout, including rollouts in a form that cannot be read.
fn is_rollout_name(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    name.ends_with(".jsonl") || name.starts_with("rollout-")
}

/// Lists the rollouts in a folder, and in its folders down to `depth` further levels.
fn list_rollouts(
    dir: &Path,
    depth: usize,
    rollouts: &mut Vec<LogFile>,
    skipped: &mut Vec<Skipped>,
) {
    let (folders, files) = list_folder(dir, is_rollout_name, skipped);
    for file in files {
        if stem(&file.path).is_some() {
            rollouts.push(file);
        } else {
            let detail =
                "a rollout in another form than JSON lines (compressed, or of the first version)";
            skipped.push(Skipped::new(&file.path, SkipReason::WrongKind, detail));
        }
    }
    if depth > 0 {
        for folder in folders {
            list_rollouts(&folder, depth - 1, rollouts, skipped);
        }
    }
}

/// Returns the session's id: the UUID at the end of the file's name or, without one, the complete name.
pub(super) fn session_id(path: &Path) -> Option<&str> {
    let name = stem(path)?;
    let at = name.len().checked_sub(UUID_CHARS);
    let id = at.and_then(|at| name.get(at..));
    let is_uuid = |id: &&str| id.bytes().filter(|b| *b == b'-').count() == 4;
    Some(
        id.filter(|_| name.starts_with("rollout-"))
            .filter(is_uuid)
            .unwrap_or(name),
    )
}

/// Whether a rollout is in a folder of archived sessions.
pub(super) fn is_archived(path: &Path) -> bool {
    path.iter().any(|name| name == "archived_sessions")
}
