//! Describes a program whose history is read: its name, its folders, and how its history is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Source, SourceError};

/// The result of opening a path: its sources.
pub type Opened = Result<Vec<Arc<dyn Source>>, SourceError>;

/// A program whose history is read.
#[derive(Debug)]
pub struct Program {
    /// Its name in settings, commands and answers: [`Source::name`].
    pub name: &'static str,
    /// A description of the files that are read, for help texts.
    pub help: &'static str,
    /// Advice on the path to pass when its history is not found.
    pub hint: &'static str,
    /// The default locations of its history, in order of precedence. Empty if they cannot be determined.
    pub places: fn(&dyn Surroundings) -> Vec<PathBuf>,
    /// Opens the history at a path. The sources include storages that appear there later.
    ///
    /// Fails with [`SourceError`]: nothing exists at the path, nothing is recognized, or it is not readable.
    pub open: fn(&Path) -> Opened,
    /// Like `open`, but for a history that may not exist yet: the source has no sessions until the history exists.
    pub watch: fn(&Path) -> Vec<Arc<dyn Source>>,
}

/// The environment in which programs find their folders. The caller implements this trait, because this crate does not
/// read the environment.
pub trait Surroundings {
    /// The path in an environment variable.
    fn path_in(&self, variable: &str) -> Option<PathBuf>;

    /// The user's home folder.
    fn home(&self) -> Option<PathBuf>;
}

impl dyn Surroundings + '_ {
    /// The folder that an environment variable names, or else the folder `in_home` in the user's home.
    pub(crate) fn folder(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let from_variable = self.path_in(variable);
        from_variable.or_else(|| self.home().map(|home| home.join(in_home)))
    }
}

impl Program {
    /// Advice for a history that cannot be opened or listed.
    pub const fn hint_for(&self, error: &SourceError) -> &'static str {
        match error {
            SourceError::NotFound { .. } | SourceError::Unrecognized { .. } => self.hint,
            SourceError::Unreadable { .. } => "check that filrouge may read it",
        }
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Program {}
