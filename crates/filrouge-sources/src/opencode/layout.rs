//! Where a file storage keeps things.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use super::generation::Project;
use crate::files::Files;
use crate::object::Writer;
use crate::{SkipReason, Skipped};

/// Where one generation keeps things; paths are below the root. All names given to it come from its own listings.
pub(super) trait Layout: Send + Sync {
    /// [`Generation::name`].
    fn name(&self) -> &'static str;

    /// Its files.
    fn files(&self) -> &Files;

    /// The keys of the projects.
    fn folders(&self, skipped: &mut Vec<Skipped>) -> Vec<String>;

    /// The folder of a project's session files.
    fn session_dir(&self, folder: &str) -> PathBuf;

    /// The folder that has a folder of message files for each session of a project.
    fn message_root(&self, folder: &str) -> PathBuf;

    /// All folders that [`Layout::message_root`] gives, also where no project is known.
    fn message_roots(&self, folders: &[&str]) -> Vec<PathBuf> {
        folders
            .iter()
            .map(|folder| self.message_root(folder))
            .collect()
    }

    /// The folder of a session's message files.
    fn message_dir(&self, folder: &str, session: &str) -> PathBuf {
        self.message_root(folder).join(session)
    }

    /// The folder that has a folder of part files for each message.
    fn part_root(&self, folder: &str, session: &str) -> PathBuf;

    /// The project of a folder; empty where nothing is kept about it.
    fn project(&self, folder: &str) -> Result<Project, Skipped>;

    /// [`Generation::beside`].
    fn beside(&self, session: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>);

    /// [`Generation::strays`].
    fn strays(&self, skipped: &mut Vec<Skipped>);
}

/// Names the folders in `dir` whose owner is not among `known`, and gives all folders. What is odd
/// about a known owner's folder is told when that session is read.
pub(super) fn orphans<Id: Borrow<str> + Eq + Hash>(
    files: &Files,
    dir: &Path,
    known: &HashSet<Id>,
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Vec<String> {
    let mut odd = Vec::new();
    let folders = files.folders(dir, &mut odd);
    let owner = |s: &Skipped| {
        let name = s.path.file_name().and_then(|n| n.to_str());
        name.map(str::to_owned)
    };
    odd.retain(|s| owner(s).is_none_or(|name| !known.contains(&*name)));
    for folder in folders
        .iter()
        .filter(|folder| !known.contains(folder.as_str()))
    {
        let count = files.ids(&dir.join(folder), &mut Vec::new()).len();
        let detail = format!("{count} files, and none for what they belong to");
        let path = files.root.join(dir).join(folder);
        odd.push(Skipped::new(&path, reason, detail));
    }
    odd.sort();
    skipped.append(&mut odd);
    folders
}
