//! Where the two file storages of OpenCode keep things.
//!
//! 1.0 to 1.1.65, `storage/`:
//!
//! ```text
//! session/<project>/<ses>.json   message/<ses>/<msg>.json   part/<msg>/<prt>.json
//! project/<project>.json         todo/<ses>.json            session_diff/<ses>.json
//! ```
//!
//! Up to 0.5, `project/`; `<folder>` is the working folder with dashes for slashes, which cannot be turned back, or
//! `global`. Session files name no project and no folder; the messages do (`path`):
//!
//! ```text
//! <folder>/storage/session/info/<ses>.json
//! <folder>/storage/session/message/<ses>/<msg>.json
//! <folder>/storage/session/part/<ses>/<msg>/<prt>.json
//! ```
//!
//! `session_share` and `session/share` hold secrets and are never opened.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use super::storage::Project;
use crate::files::{Files, Folder};
use crate::object::{Object, Writer, check_value, skip};
use crate::{SkipReason, Skipped};

/// Differences of this size and more are noted, not copied.
const DIFF_BYTES_MAX: i64 = 1 << 20;

/// Where one file storage keeps things; paths are below the root. All names given to it come from its own listings.
pub(super) struct Layout {
    pub(super) files: Files,
    pub(super) form: Form,
}

/// Which of the two it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// `storage/`.
    Storage,
    /// `project/`, `only` one project of it or all.
    Projects { only: Option<String> },
}

impl Layout {
    /// [`crate::Header::generation`].
    pub(super) const fn name(&self) -> &'static str {
        match self.form {
            Form::Storage => "storage",
            Form::Projects { .. } => "project",
        }
    }

    /// The keys of the projects.
    pub(super) fn folders(&self, skipped: &mut Vec<Skipped>) -> Vec<String> {
        match &self.form {
            Form::Storage => self.files.folders(Path::new("session"), skipped),
            Form::Projects { only: None } => self.files.folders(Path::new(""), skipped),
            Form::Projects { only: Some(folder) } => vec![folder.clone()],
        }
    }

    /// The folder of a project's session files.
    pub(super) fn session_dir(&self, folder: &str) -> PathBuf {
        match self.form {
            Form::Storage => Path::new("session").join(folder),
            Form::Projects { .. } => of_project(folder).join("info"),
        }
    }

    /// The folder that has a folder of message files for each session of a project.
    pub(super) fn message_root(&self, folder: &str) -> PathBuf {
        match self.form {
            Form::Storage => "message".into(),
            Form::Projects { .. } => of_project(folder).join("message"),
        }
    }

    /// All folders that [`Layout::message_root`] gives, also where no project is known.
    pub(super) fn message_roots(&self, folders: &[&str]) -> Vec<PathBuf> {
        match self.form {
            Form::Storage => vec![self.message_root("")],
            Form::Projects { .. } => folders.iter().map(|one| self.message_root(one)).collect(),
        }
    }

    /// The folder of a session's message files.
    pub(super) fn message_dir(&self, folder: &str, session: &str) -> PathBuf {
        self.message_root(folder).join(session)
    }

    /// The folder that has a folder of part files for each message.
    pub(super) fn part_root(&self, folder: &str, session: &str) -> PathBuf {
        match self.form {
            Form::Storage => "part".into(),
            Form::Projects { .. } => of_project(folder).join("part").join(session),
        }
    }

    /// The project of a folder; empty where nothing is kept about it.
    pub(super) fn project(&self, folder: &str) -> Result<Project, Skipped> {
        let Some(text) = self.value("project", folder)? else {
            return Ok(Project::default());
        };
        let object = Object::parse(&text).map_err(|why| {
            let file = format!("{folder}.json");
            skip(&self.files.root.join("project").join(file), why)
        })?;
        Ok(Project {
            name: object.text("name").map(Into::into),
            worktree: object.text("worktree").map(Into::into),
        })
    }

    /// [`super::storage::Storage::beside`].
    pub(super) fn beside(&self, session: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        let todo = self.value("todo", session).map(|todo| {
            if let Some(todo) = todo {
                metadata.raw("todo", &todo);
            }
        });
        let folder = match self.form {
            Form::Storage => self.files.folder(Path::new("session_diff")),
            Form::Projects { .. } => Ok(None),
        };
        let diff = folder.and_then(|folder| match folder {
            Some(folder) => add_diff(&folder, session, metadata),
            None => Ok(()),
        });
        skipped.extend(todo.err().into_iter().chain(diff.err()));
    }

    /// The raw value of an optional file beside sessions.
    fn value(&self, folder: &str, name: &str) -> Result<Option<String>, Skipped> {
        if self.form != Form::Storage {
            return Ok(None);
        }
        let Some(text) = self.files.text(Path::new(folder), name)? else {
            return Ok(None);
        };
        let path = || self.files.root.join(folder).join(format!("{name}.json"));
        let value = check_value(&text).map_err(|why| skip(&path(), why))?;
        Ok(Some(value.to_owned()))
    }

    /// [`super::storage::Storage::strays`]. Orphaned messages are named by the listing.
    pub(super) fn strays(&self, skipped: &mut Vec<Skipped>) {
        let ids = |dir: &Path| self.files.ids(dir, &mut Vec::new());
        let owners = |root: &Path| self.files.folders(root, &mut Vec::new());
        let reason = SkipReason::OrphanParts;
        if self.form == Form::Storage {
            // Messages of all sessions have their parts in one folder.
            let root = self.message_root("");
            let owners = owners(&root).into_iter();
            let messages = owners.flat_map(|name| ids(&root.join(name))).collect();
            orphans::<String>(&self.files, Path::new("part"), &messages, reason, skipped);
            return;
        }
        for folder in self.folders(&mut Vec::new()) {
            let (root, dir) = (self.message_root(&folder), of_project(&folder).join("part"));
            let owners: HashSet<String> = owners(&root).into_iter().collect();
            for session in orphans(&self.files, &dir, &owners, reason, skipped) {
                if owners.contains(&session) {
                    let messages = ids(&root.join(&session)).into_iter().collect();
                    let dir = dir.join(&session);
                    orphans::<String>(&self.files, &dir, &messages, reason, skipped);
                }
            }
        }
    }
}

fn of_project(folder: &str) -> PathBuf {
    Path::new(folder).join("storage").join("session")
}

/// Adds the differences of a session, where the folder of them has a file of it.
pub(super) fn add_diff(folder: &Folder, session: &str, out: &mut Writer) -> Result<(), Skipped> {
    match folder.stat(session).map(|stat| stat.st_size) {
        None => {}
        Some(bytes) if bytes >= DIFF_BYTES_MAX => out.raw("session_diff_bytes", &bytes.to_string()),
        Some(_) => {
            let text = folder.text(session)?;
            let value = check_value(&text).map_err(|why| skip(&folder.file(session), why))?;
            out.raw("session_diff", value);
        }
    }
    Ok(())
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
