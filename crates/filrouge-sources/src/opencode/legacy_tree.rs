//! The `project/` tree of OpenCode up to 0.5.
//!
//! ```text
//! <folder>/storage/session/info/<ses>.json
//! <folder>/storage/session/message/<ses>/<msg>.json
//! <folder>/storage/session/part/<ses>/<msg>/<prt>.json
//! ```
//! `<folder>` is the working folder with dashes for slashes, which cannot be turned back, or
//! `global`. Session files name no project and no folder; the messages do (`path`).
//! `session/share` holds secrets and is never opened.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::generation::Project;
use super::layout::{Layout, orphans};
use crate::files::Files;
use crate::object::Writer;
use crate::{SkipReason, Skipped};

/// The folder `project`, or one folder in it.
pub(super) struct LegacyTree {
    pub(super) files: Files,
    pub(super) only: Option<String>,
}

impl LegacyTree {
    fn session(&self, folder: &str) -> PathBuf {
        Path::new(folder).join("storage").join("session")
    }

    fn ids(&self, dir: &Path) -> HashSet<String> {
        let ids = self.files.ids(dir, &mut Vec::new());
        ids.into_iter().collect()
    }

    fn project_strays(&self, folder: &str, skipped: &mut Vec<Skipped>) {
        let root = self.session(folder);
        let sessions = self.ids(&root.join("info"));
        let (dir, reason) = (root.join("message"), SkipReason::OrphanMessages);
        // Those are named by the listing.
        let owners = orphans(&self.files, &dir, &sessions, reason, &mut Vec::new());
        let owners: HashSet<String> = owners.into_iter().collect();
        let (dir, reason) = (root.join("part"), SkipReason::OrphanParts);
        for session in orphans(&self.files, &dir, &owners, reason, skipped) {
            if owners.contains(&session) {
                let messages = self.ids(&root.join("message").join(&session));
                let dir = dir.join(&session);
                orphans(&self.files, &dir, &messages, reason, skipped);
            }
        }
    }
}

impl Layout for LegacyTree {
    fn name(&self) -> &'static str {
        "project"
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn folders(&self, skipped: &mut Vec<Skipped>) -> Vec<String> {
        match &self.only {
            Some(folder) => vec![folder.clone()],
            None => self.files.folders(Path::new(""), skipped),
        }
    }

    fn session_dir(&self, folder: &str) -> PathBuf {
        self.session(folder).join("info")
    }

    fn message_root(&self, folder: &str) -> PathBuf {
        self.session(folder).join("message")
    }

    fn part_root(&self, folder: &str, session: &str) -> PathBuf {
        self.session(folder).join("part").join(session)
    }

    fn project(&self, _folder: &str) -> Result<Project, Skipped> {
        Ok(Project::default())
    }

    fn beside(&self, _session: &str, _metadata: &mut Writer, _skipped: &mut Vec<Skipped>) {}

    fn strays(&self, skipped: &mut Vec<Skipped>) {
        for folder in self.folders(&mut Vec::new()) {
            self.project_strays(&folder, skipped);
        }
    }
}
