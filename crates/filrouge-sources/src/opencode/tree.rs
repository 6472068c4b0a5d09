//! What the two file storages of OpenCode have in common: where things lie.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::files::{Entry, Files};
use crate::object::{Refusal, Writer};
use crate::{SkipReason, Skipped};

/// A session's file, found by its name.
pub(super) struct SessionFile {
    /// The folder of its project.
    pub(super) folder: String,
    pub(super) id: String,
    pub(super) path: PathBuf,
}

/// What a storage knows of a project.
#[derive(Default)]
pub(super) struct Project {
    pub(super) name: Option<String>,
    pub(super) worktree: Option<String>,
}

/// One generation of file storage. All names given to it come from its own listings.
pub(super) trait Tree: Send + Sync {
    /// Its name in metadata.
    fn generation(&self) -> &'static str;

    /// Its files.
    fn files(&self) -> &Files;

    /// All session files, by folder and id.
    fn session_files(&self, skipped: &mut Vec<Skipped>) -> Vec<SessionFile>;

    /// The file of one session.
    fn session_file(&self, folder: &str, session: &str) -> PathBuf;

    /// The folder of a session's messages.
    fn message_dir(&self, folder: &str, session: &str) -> PathBuf;

    /// The folder of a message's parts.
    fn part_dir(&self, folder: &str, session: &str, message: &str) -> PathBuf;

    /// The project of a folder; empty where nothing is kept about it.
    fn project(&self, folder: &str) -> Result<Project, Skipped>;

    /// Adds to a session's metadata what lies beside its file.
    fn add_beside(&self, session: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>);

    /// Messages and parts that no session leads to.
    fn strays(&self, skipped: &mut Vec<Skipped>);
}

/// A refusal of a file's content as a report.
pub(super) fn skip(path: &Path, (reason, detail): Refusal) -> Skipped {
    Skipped::new(path, reason, detail)
}

/// Names the folders in `dir` whose owner is not among `known`, and gives all folders. What is odd
/// about a known owner's folder is told when that session is read.
pub(super) fn orphans(
    files: &Files,
    dir: &Path,
    known: &HashSet<String>,
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Vec<Entry> {
    let mut odd = Vec::new();
    let folders = files.folders(dir, &mut odd);
    let owner = |s: &Skipped| {
        s.path
            .file_name()
            .and_then(|n| n.to_str())
            .map(str::to_owned)
    };
    odd.retain(|s| owner(s).is_none_or(|name| !known.contains(&name)));
    for folder in folders.iter().filter(|folder| !known.contains(&folder.id)) {
        let count = files.files(&folder.path, &mut Vec::new()).len();
        let detail = format!("{count} files, and none for what they belong to");
        odd.push(Skipped::new(&folder.path, reason, detail));
    }
    odd.sort();
    skipped.append(&mut odd);
    folders
}

/// The ids of the files in `dir`.
pub(super) fn ids(files: &Files, dir: &Path) -> impl Iterator<Item = String> {
    files
        .files(dir, &mut Vec::new())
        .into_iter()
        .map(|entry| entry.id)
}
