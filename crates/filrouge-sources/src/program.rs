//! What is particular to a program whose history is read, apart from its formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Source, SourceError};

/// What a program keeps at a path.
pub type Opened = Result<Vec<Arc<dyn Source>>, SourceError>;

/// A program whose history is read.
#[derive(Debug)]
pub struct Program {
    /// Its word in settings, commands and answers: [`Source::name`].
    pub name: &'static str,
    /// What is read of it, as help says it.
    pub help: &'static str,
    /// What to give when its history is not found.
    pub hint: &'static str,
    /// Where it keeps its history itself; of several places the first is asked first. None where that cannot be known.
    pub places: fn(&dyn Surroundings) -> Vec<PathBuf>,
    /// The history at a path, whatever its storages become.
    ///
    /// Fails with [`SourceError`]: nothing there, nothing recognised, or not readable.
    pub open: fn(&Path) -> Opened,
    /// The history that is at a path or will be: empty as long as nothing is there.
    pub watch: fn(&Path) -> Vec<Arc<dyn Source>>,
}

/// What programs find their own folders by. Nothing here reads the environment.
pub trait Surroundings {
    /// The path that a variable holds.
    fn path_in(&self, variable: &str) -> Option<PathBuf>;

    /// The user's home.
    fn home(&self) -> Option<PathBuf>;
}

impl dyn Surroundings + '_ {
    /// The folder that a variable names, else one in the user's home.
    pub(crate) fn folder(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let named = self.path_in(variable);
        named.or_else(|| self.home().map(|home| home.join(in_home)))
    }
}

impl Program {
    /// What the caller can do about a history that cannot be opened or listed.
    #[must_use]
    pub const fn hint_for(&self, error: &SourceError) -> &'static str {
        match error {
            SourceError::NotFound { .. } | SourceError::Unrecognised { .. } => self.hint,
            SourceError::Unreadable { .. } => "check that it may be read by whoever runs filrouge",
        }
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Program {}
