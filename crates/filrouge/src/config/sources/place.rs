//! Where programs keep their histories

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sources::{Source, SourceError, claude_code, codex, opencode};

use super::Program;
use crate::config::{base, home, path_in};

impl Program {
    /// Where it keeps its history: its own variables first, as the program itself has it.
    pub(super) fn own_place(self) -> Option<PathBuf> {
        let own = |variable, fallback: &str| {
            path_in(variable).or_else(|| home().map(|home| home.join(fallback)))
        };
        match self {
            Self::OpenCode => {
                base("XDG_DATA_HOME", ".local/share").map(|data| data.join("opencode"))
            }
            Self::ClaudeCode => own("CLAUDE_CONFIG_DIR", ".claude"),
            Self::Codex => own("CODEX_HOME", ".codex"),
            Self::Ledger => None,
        }
    }

    /// The history that is there; OpenCode's whatever its storages become.
    pub(super) fn open(self, path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
        match self {
            Self::OpenCode => opencode::open_and_watch(path),
            Self::ClaudeCode => claude_code::open(path),
            Self::Codex => codex::open(path),
            Self::Ledger => Ok(Vec::new()),
        }
    }

    /// The history that is there or will be.
    pub(super) fn watch(self, path: &Path) -> Vec<Arc<dyn Source>> {
        match self {
            Self::OpenCode => opencode::watch(path),
            Self::ClaudeCode => claude_code::watch(path),
            Self::Codex => codex::watch(path),
            Self::Ledger => Vec::new(),
        }
    }
}

/// The database that `OPENCODE_DB` names, absolute or in the data folder, where looking at the folder does not find it.
pub(super) fn other_database(program: Program, folder: &Path) -> Option<PathBuf> {
    if program != Program::OpenCode {
        return None;
    }
    let named = env::var_os("OPENCODE_DB").filter(|v| !v.is_empty() && v != ":memory:")?;
    let path = folder.join(named);
    let usual = opencode::is_usual_database(path.file_name()?);
    let found_anyway = path.parent() == Some(folder) && usual;
    (!found_anyway).then_some(path)
}
