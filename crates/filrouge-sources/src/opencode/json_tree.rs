//! The `storage/` tree of OpenCode 1.0 to 1.1.65.
//!
//! ```text
//! session/<project>/<ses>.json   message/<ses>/<msg>.json   part/<msg>/<prt>.json
//! project/<project>.json         todo/<ses>.json            session_diff/<ses>.json
//! ```
//! `session_share` holds secrets and is never opened.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::generation::Project;
use super::layout::{Layout, orphans};
use crate::files::{Files, Folder};
use crate::object::{Object, Writer, check_value, skip};
use crate::{SkipReason, Skipped};

/// Differences of this size and more are noted, not copied.
const DIFF_BYTES_MAX: i64 = 1 << 20;

/// The folder `storage`.
pub(super) struct JsonTree {
    pub(super) files: Files,
}

impl JsonTree {
    fn dir(&self, folder: &str) -> Result<Option<Folder>, Skipped> {
        self.files.folder(Path::new(folder))
    }

    /// The raw value of an optional file.
    fn value(&self, folder: &str, name: &str) -> Result<Option<String>, Skipped> {
        let Some(text) = self.files.text(Path::new(folder), name)? else {
            return Ok(None);
        };
        let path = || self.files.root.join(folder).join(format!("{name}.json"));
        let value = check_value(&text).map_err(|why| skip(&path(), why))?;
        Ok(Some(value.to_owned()))
    }

    fn ids(&self, dir: &Path) -> Vec<String> {
        self.files.ids(dir, &mut Vec::new())
    }
}

impl Layout for JsonTree {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn folders(&self, skipped: &mut Vec<Skipped>) -> Vec<String> {
        self.files.folders(Path::new("session"), skipped)
    }

    fn session_dir(&self, folder: &str) -> PathBuf {
        Path::new("session").join(folder)
    }

    fn message_root(&self, _folder: &str) -> PathBuf {
        "message".into()
    }

    fn message_roots(&self, _folders: &[&str]) -> Vec<PathBuf> {
        vec!["message".into()]
    }

    fn part_root(&self, _folder: &str, _session: &str) -> PathBuf {
        "part".into()
    }

    fn project(&self, folder: &str) -> Result<Project, Skipped> {
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

    fn beside(&self, session: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        let todo = self.value("todo", session).map(|todo| {
            if let Some(todo) = todo {
                metadata.raw("todo", &todo);
            }
        });
        let diff = self.dir("session_diff").and_then(|folder| match folder {
            Some(folder) => add_diff(&folder, session, metadata),
            None => Ok(()),
        });
        skipped.extend(todo.err().into_iter().chain(diff.err()));
    }

    fn strays(&self, skipped: &mut Vec<Skipped>) {
        let mut sessions = HashSet::new();
        for folder in self.folders(&mut Vec::new()) {
            sessions.extend(self.ids(&self.session_dir(&folder)));
        }
        let (dir, reason) = (Path::new("message"), SkipReason::OrphanMessages);
        // Those are named by the listing.
        let folders = orphans(&self.files, dir, &sessions, reason, &mut Vec::new());
        let messages = folders.iter().flat_map(|name| self.ids(&dir.join(name)));
        let messages: HashSet<String> = messages.collect();
        let (dir, reason) = (Path::new("part"), SkipReason::OrphanParts);
        orphans(&self.files, dir, &messages, reason, skipped);
    }
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
