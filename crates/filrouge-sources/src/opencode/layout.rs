//! The layouts of OpenCode's two file storages.
//!
//! 1.0 to 1.1.65, `storage/`:
//!
//! ```text
//! session/<project>/<ses>.json   message/<ses>/<msg>.json   part/<msg>/<prt>.json
//! project/<project>.json         todo/<ses>.json            session_diff/<ses>.json
//! ```
//!
//! Up to 0.5, `project/`; `<folder>` is the working folder with dashes for slashes (which cannot be reversed), or
//! `global`. Session files name no project and no folder; messages name both in their field `path`:
//!
//! ```text
//! <folder>/storage/session/info/<ses>.json
//! <folder>/storage/session/message/<ses>/<msg>.json
//! <folder>/storage/session/part/<ses>/<msg>/<prt>.json
//! ```
//!
//! `session_share` and `session/share` contain secrets and are never opened.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::storage::Project;
use crate::files::{Files, Folder};
use crate::object::{Object, Writer, check_value, refusal_report};
use crate::{SkipReason, Skipped};

/// If a file of differences has at least this many bytes, its size is recorded instead of its content.
const DIFF_BYTES_MAX: i64 = 1 << 20;

/// The paths of one file storage, relative to its root. All names passed to its functions come from listings of the
/// same storage.
pub(super) struct Layout {
    pub(super) files: Files,
    pub(super) form: TreeForm,
}

/// One of the two layouts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TreeForm {
    /// `storage/`.
    Storage,
    /// `project/`: one project if `only` is set, otherwise all.
    Projects { only: Option<String> },
}

impl Layout {
    /// [`crate::Header::generation`].
    pub(super) const fn generation(&self) -> &'static str {
        match self.form {
            TreeForm::Storage => "storage",
            TreeForm::Projects { .. } => "project",
        }
    }

    /// The names of the project folders.
    pub(super) fn folders(&self, skipped: &mut Vec<Skipped>) -> Vec<String> {
        match &self.form {
            TreeForm::Storage => self.files.folders(Path::new("session"), skipped),
            TreeForm::Projects { only: None } => self.files.folders(Path::new(""), skipped),
            TreeForm::Projects { only: Some(folder) } => vec![folder.clone()],
        }
    }

    /// The folder of a project's session files.
    pub(super) fn session_dir(&self, folder: &str) -> PathBuf {
        match self.form {
            TreeForm::Storage => Path::new("session").join(folder),
            TreeForm::Projects { .. } => session_root(folder).join("info"),
        }
    }

    /// The folder that contains one folder of message files for each session of a project.
    pub(super) fn message_root(&self, folder: &str) -> PathBuf {
        match self.form {
            TreeForm::Storage => "message".into(),
            TreeForm::Projects { .. } => session_root(folder).join("message"),
        }
    }

    /// The folders that [`Layout::message_root`] returns for these project folders, each once. In `storage/` there is
    /// only one, which exists even without a project folder.
    pub(super) fn message_roots(&self, folders: &[&str]) -> Vec<PathBuf> {
        match self.form {
            TreeForm::Storage => vec![self.message_root("")],
            TreeForm::Projects { .. } => folders.iter().map(|f| self.message_root(f)).collect(),
        }
    }

    /// The folder of a session's message files.
    pub(super) fn message_dir(&self, folder: &str, session: &str) -> PathBuf {
        self.message_root(folder).join(session)
    }

    /// The folder that contains one folder of part files for each message.
    pub(super) fn part_root(&self, folder: &str, session: &str) -> PathBuf {
        match self.form {
            TreeForm::Storage => "part".into(),
            TreeForm::Projects { .. } => session_root(folder).join("part").join(session),
        }
    }

    /// The project of a project folder; empty if the project has no file.
    pub(super) fn project(&self, folder: &str) -> Result<Project, Skipped> {
        let Some(text) = self.optional_file("project", folder)? else {
            return Ok(Project::default());
        };
        let object = Object::parse(&text).map_err(|why| {
            let file = format!("{folder}.json");
            refusal_report(&self.files.root.join("project").join(file), why)
        })?;
        Ok(Project {
            name: object.text("name").map(Into::into),
            worktree: object.text("worktree").map(Into::into),
        })
    }

    /// [`super::storage::Storage::add_extras`].
    pub(super) fn add_extras(
        &self,
        session: &str,
        metadata: &mut Writer,
        skipped: &mut Vec<Skipped>,
    ) {
        let todo = self.optional_file("todo", session);
        let todo = todo.map(|todo| metadata.optional_raw("todo", todo.as_deref()));
        let folder = match self.form {
            TreeForm::Storage => self.files.folder(Path::new("session_diff")),
            TreeForm::Projects { .. } => Ok(None),
        };
        let diff = folder.and_then(|folder| {
            folder.map_or(Ok(()), |folder| add_diff(&folder, session, metadata))
        });
        skipped.extend(todo.err().into_iter().chain(diff.err()));
    }

    /// The JSON of the optional file `<folder>/<name>.json`. Only `storage/` has such files.
    fn optional_file(&self, folder: &str, name: &str) -> Result<Option<String>, Skipped> {
        if self.form != TreeForm::Storage {
            return Ok(None);
        }
        let Some(text) = self.files.text(Path::new(folder), name)? else {
            return Ok(None);
        };
        let path = || self.files.root.join(folder).join(format!("{name}.json"));
        let value = check_value(&text).map_err(|why| refusal_report(&path(), why))?;
        Ok(Some(value.to_owned()))
    }

    /// [`super::storage::Storage::add_orphans`]. Reports only parts; orphaned messages are reported by the listing.
    pub(super) fn add_orphans(&self, skipped: &mut Vec<Skipped>) {
        let ids = |dir: &Path| self.files.ids(dir, &mut Vec::new());
        let owners = |root: &Path| self.files.folders(root, &mut Vec::new());
        let reason = SkipReason::OrphanParts;
        if self.form == TreeForm::Storage {
            // All sessions keep the parts of their messages in one folder.
            let root = self.message_root("");
            let owners = owners(&root).into_iter();
            let messages: HashSet<_> = owners.flat_map(|name| ids(&root.join(name))).collect();
            let (dir, is_known) = (Path::new("part"), |name: &str| messages.contains(name));
            report_orphan_folders(&self.files, dir, is_known, reason, skipped);
            return;
        }
        for folder in self.folders(&mut Vec::new()) {
            let root = self.message_root(&folder);
            let dir = session_root(&folder).join("part");
            let owners: HashSet<_> = owners(&root).into_iter().collect();
            let is_known = |name: &str| owners.contains(name);
            for session in report_orphan_folders(&self.files, &dir, is_known, reason, skipped) {
                if owners.contains(&session) {
                    let messages: HashSet<_> = ids(&root.join(&session)).into_iter().collect();
                    let is_known = |name: &str| messages.contains(name);
                    let dir = dir.join(&session);
                    report_orphan_folders(&self.files, &dir, is_known, reason, skipped);
                }
            }
        }
    }
}

/// The folder `storage/session` of a project folder.
fn session_root(folder: &str) -> PathBuf {
    Path::new(folder).join("storage").join("session")
}

/// Adds the content of a session's file of differences to `out`, if `folder` has such a file; for a large file, adds
/// only its size.
pub(super) fn add_diff(folder: &Folder, session: &str, out: &mut Writer) -> Result<(), Skipped> {
    match folder.stat(session).map(|stat| stat.st_size) {
        None => {}
        Some(bytes) if bytes >= DIFF_BYTES_MAX => out.raw("session_diff_bytes", &bytes.to_string()),
        Some(_) => {
            let text = folder.text(session)?;
            let report = |why| refusal_report(&folder.file(session), why);
            out.raw("session_diff", check_value(&text).map_err(report)?);
        }
    }
    Ok(())
}

/// Reports the folders in `dir` for whose name `is_known` returns false, and returns the names of all folders. A folder
/// is named after its owner: the session or message whose files are in it. Problems with the folder of a known owner
/// are not reported here, but when its session is read.
pub(super) fn report_orphan_folders(
    files: &Files,
    dir: &Path,
    is_known: impl Fn(&str) -> bool,
    reason: SkipReason,
    skipped: &mut Vec<Skipped>,
) -> Vec<String> {
    let mut reports = Vec::new();
    let folders = files.folders(dir, &mut reports);
    reports.retain(|report| {
        let owner = report.path.file_name().and_then(|name| name.to_str());
        owner.is_none_or(|name| !is_known(name))
    });
    for folder in folders.iter().filter(|folder| !is_known(folder)) {
        let count = files.ids(&dir.join(folder), &mut Vec::new()).len();
        let detail = format!("{count} files whose owner has no file");
        let path = files.root.join(dir).join(folder);
        reports.push(Skipped::new(&path, reason, detail));
    }
    reports.sort();
    skipped.append(&mut reports);
    folders
}
