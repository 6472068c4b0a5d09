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
const DIFF_BYTES_MAX: u64 = 1 << 20;

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

    /// The size of an optional file.
    fn size(&self, folder: &str, name: &str) -> u64 {
        let stat = self.dir(folder).ok().flatten().and_then(|d| d.stat(name));
        stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn add(&self, folder: &str, id: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        match self.value(folder, id) {
            Ok(Some(value)) => metadata.raw(folder, &value),
            Ok(None) => {}
            Err(why) => skipped.push(why),
        }
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
        self.add("todo", session, metadata, skipped);
        match self.size("session_diff", session) {
            bytes if bytes >= DIFF_BYTES_MAX => {
                metadata.raw("session_diff_bytes", &bytes.to_string());
            }
            _ => self.add("session_diff", session, metadata, skipped),
        }
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
