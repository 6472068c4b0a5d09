//! What is known of a session file, and what of it is noted for other processes.

use std::sync::Arc;

use super::generation::{Project, SessionText};
use super::tree_lasting::outer_of;
use super::tree_notes::{Beside, Noted};
use super::tree_state::{FileMark, State};
use crate::{Header, Skipped};

/// A session file that was read, here or in another process.
pub(super) struct Known {
    pub(super) mark: FileMark,
    /// As it was read here.
    pub(super) session: Option<SessionText>,
    /// Under the project that was told last.
    pub(super) header: Result<Arc<Header>, Skipped>,
    /// Its project's folder, as its messages tell it.
    pub(super) root: Option<Box<str>>,
    /// The state of its folder of messages before it was read, where no agent is known: the first message may still
    /// come.
    pub(super) waits: Option<Option<FileMark>>,
    /// What the header depends on beside the file, if it may be noted for other processes.
    pub(super) beside: Option<Beside>,
    /// Whether that was not noted yet.
    pub(super) is_news: bool,
    /// The state of the file and the folder of messages, as the last listing has found them, if it has looked at both.
    pub(super) outer: Option<State>,
}

impl Known {
    /// As it was noted.
    pub(super) fn recalled(noted: Noted) -> Self {
        Self {
            mark: noted.mark,
            session: None,
            root: noted.header.worktree.clone(),
            header: Ok(noted.header),
            waits: None,
            outer: Some(outer_of(&noted.mark, Some(&noted.beside.folder))),
            beside: Some(noted.beside),
            is_news: false,
        }
    }

    /// What is to be noted of it.
    pub(super) fn noted(&self) -> Option<Noted> {
        let (beside, header) = (self.beside.as_ref()?, self.header.as_ref().ok()?);
        let mut header = Header::clone(header);
        header.project_name = None;
        header.worktree.clone_from(&self.root);
        Some(Noted {
            mark: self.mark,
            beside: beside.clone(),
            header: Arc::new(header),
        })
    }

    /// Whether [`Known::noted`] is something that was not noted yet.
    pub(super) const fn is_news(&self) -> bool {
        self.is_news && self.beside.is_some()
    }

    pub(super) const fn is_noted(&self) -> bool {
        !self.is_news
    }

    pub(super) const fn note(&mut self) {
        self.is_news = false;
    }

    /// Takes what is told of its project now.
    pub(super) fn belong(&mut self, project: &Project) {
        let worktree = project.worktree.as_ref().or(self.root.as_ref());
        if let Some(session) = &mut self.session {
            session.project.name.clone_from(&project.name);
            session.project.worktree = worktree.cloned();
        }
        let Ok(header) = &mut self.header else {
            return;
        };
        if header.project_name != project.name || header.worktree.as_ref() != worktree {
            let header = Arc::make_mut(header);
            header.project_name.clone_from(&project.name);
            header.worktree = worktree.cloned();
        }
    }
}
