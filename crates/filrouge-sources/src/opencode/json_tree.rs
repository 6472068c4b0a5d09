//! The `storage/` tree of OpenCode 1.0 to 1.1.65.
//!
//! ```text
//! session/<project>/<ses>.json   message/<ses>/<msg>.json   part/<msg>/<prt>.json
//! project/<project>.json         todo/<ses>.json            session_diff/<ses>.json
//! ```
//! `session_share` holds secrets and is never opened.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::files::{Entry, Files};
use crate::object::{Object, Writer, check_value};
use super::tree::{Project, SessionFile, Tree, ids, orphans, skip};
use crate::{SkipReason, Skipped};

/// Differences of this size and more are noted, not copied.
const DIFF_BYTES_MAX: u64 = 1 << 20;

/// The folder `storage`.
pub(super) struct JsonTree {
    pub(super) files: Files,
}

impl JsonTree {
    fn dir(&self, folder: &str) -> PathBuf {
        self.files.root.join(folder)
    }

    fn json(&self, folder: &str, name: &str) -> PathBuf {
        self.dir(folder).join(format!("{name}.json"))
    }

    /// The raw value of an optional file.
    fn value(&self, path: &Path) -> Result<Option<String>, Skipped> {
        if !self.files.exists(path) {
            return Ok(None);
        }
        let text = self.files.read(path)?;
        let value = check_value(&text).map_err(|why| skip(path, why))?;
        Ok(Some(value.to_owned()))
    }
}

impl Tree for JsonTree {
    fn generation(&self) -> &'static str {
        "storage"
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn session_files(&self, skipped: &mut Vec<Skipped>) -> Vec<SessionFile> {
        let mut found = Vec::new();
        for project in self.files.folders(&self.dir("session"), skipped) {
            for Entry { id, path } in self.files.files(&project.path, skipped) {
                found.push(SessionFile {
                    folder: project.id.clone(),
                    id,
                    path,
                });
            }
        }
        found
    }

    fn session_file(&self, folder: &str, session: &str) -> PathBuf {
        self.dir("session")
            .join(folder)
            .join(format!("{session}.json"))
    }

    fn message_dir(&self, _folder: &str, session: &str) -> PathBuf {
        self.dir("message").join(session)
    }

    fn part_dir(&self, _folder: &str, _session: &str, message: &str) -> PathBuf {
        self.dir("part").join(message)
    }

    fn project(&self, folder: &str) -> Result<Project, Skipped> {
        let path = self.json("project", folder);
        let Some(text) = self.value(&path)? else {
            return Ok(Project::default());
        };
        let object = Object::parse(&text).map_err(|why| skip(&path, why))?;
        Ok(Project {
            name: object.text("name"),
            worktree: object.text("worktree"),
        })
    }

    fn add_beside(&self, session: &str, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        match self.value(&self.json("todo", session)) {
            Ok(Some(todo)) => metadata.raw("todo", &todo),
            Ok(None) => {}
            Err(why) => skipped.push(why),
        }
        let diff = self.json("session_diff", session);
        match self.files.size(&diff) {
            Some(bytes) if bytes >= DIFF_BYTES_MAX => {
                metadata.raw("session_diff_bytes", &bytes.to_string());
            }
            _ => match self.value(&diff) {
                Ok(Some(value)) => metadata.raw("session_diff", &value),
                Ok(None) => {}
                Err(why) => skipped.push(why),
            },
        }
    }

    fn strays(&self, skipped: &mut Vec<Skipped>) {
        let sessions: HashSet<String> = self
            .session_files(&mut Vec::new())
            .into_iter()
            .map(|file| file.id)
            .collect();
        let reason = SkipReason::OrphanMessages;
        let folders = orphans(
            &self.files,
            &self.dir("message"),
            &sessions,
            reason,
            skipped,
        );
        let messages: HashSet<String> = folders
            .iter()
            .flat_map(|folder| ids(&self.files, &folder.path))
            .collect();
        orphans(
            &self.files,
            &self.dir("part"),
            &messages,
            SkipReason::OrphanParts,
            skipped,
        );
    }
}
