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
use std::path::PathBuf;

use crate::files::{Entry, Files};
use crate::object::Writer;
use super::tree::{Project, SessionFile, Tree, ids, orphans};
use crate::{SkipReason, Skipped};

/// The folder `project`, or one folder in it.
pub(super) struct LegacyTree {
    pub(super) files: Files,
    pub(super) only: Option<String>,
}

impl LegacyTree {
    fn session(&self, folder: &str) -> PathBuf {
        self.files.root.join(folder).join("storage").join("session")
    }

    fn projects(&self, skipped: &mut Vec<Skipped>) -> Vec<String> {
        match &self.only {
            Some(folder) => vec![folder.clone()],
            None => self
                .files
                .folders(&self.files.root, skipped)
                .into_iter()
                .map(|dir| dir.id)
                .collect(),
        }
    }

    fn project_strays(&self, folder: &str, skipped: &mut Vec<Skipped>) {
        let root = self.session(folder);
        let sessions: HashSet<String> = ids(&self.files, &root.join("info")).collect();
        let reason = SkipReason::OrphanMessages;
        let with_messages = orphans(
            &self.files,
            &root.join("message"),
            &sessions,
            reason,
            skipped,
        );
        let owners: HashSet<String> = with_messages.iter().map(|dir| dir.id.clone()).collect();
        let reason = SkipReason::OrphanParts;
        for session in orphans(&self.files, &root.join("part"), &owners, reason, skipped) {
            if owners.contains(&session.id) {
                let dir = root.join("message").join(&session.id);
                let messages: HashSet<String> = ids(&self.files, &dir).collect();
                orphans(&self.files, &session.path, &messages, reason, skipped);
            }
        }
    }
}

impl Tree for LegacyTree {
    fn generation(&self) -> &'static str {
        "project"
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn session_files(&self, skipped: &mut Vec<Skipped>) -> Vec<SessionFile> {
        let mut found = Vec::new();
        for folder in self.projects(skipped) {
            for Entry { id, path } in self
                .files
                .files(&self.session(&folder).join("info"), skipped)
            {
                found.push(SessionFile {
                    folder: folder.clone(),
                    id,
                    path,
                });
            }
        }
        found
    }

    fn session_file(&self, folder: &str, session: &str) -> PathBuf {
        self.session(folder)
            .join("info")
            .join(format!("{session}.json"))
    }

    fn message_dir(&self, folder: &str, session: &str) -> PathBuf {
        self.session(folder).join("message").join(session)
    }

    fn part_dir(&self, folder: &str, session: &str, message: &str) -> PathBuf {
        self.session(folder)
            .join("part")
            .join(session)
            .join(message)
    }

    fn project(&self, _folder: &str) -> Result<Project, Skipped> {
        Ok(Project::default())
    }

    fn add_beside(&self, _session: &str, _metadata: &mut Writer, _skipped: &mut Vec<Skipped>) {}

    fn strays(&self, skipped: &mut Vec<Skipped>) {
        for folder in self.projects(&mut Vec::new()) {
            self.project_strays(&folder, skipped);
        }
    }
}
