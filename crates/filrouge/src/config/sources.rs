//! Which histories: `--source NAME[:PATH]`, `FILROUGE_SOURCE`, `sources`; and where programs keep theirs

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use filrouge_sources::ledger::LedgerSource;
use filrouge_sources::{Library, Source, SourceError, claude_code, codex, opencode};

use super::{Config, Setting};
use crate::exit::{Usage, told};
use crate::open::{self, Need, Opened, operator};

/// What the setting is called when nothing is said.
const EVERYTHING: &str = "all";
/// Bytes of conversations that one process keeps in memory.
const CACHE_BYTES: usize = 48 << 20;

/// Whose history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    OpenCode,
    ClaudeCode,
    Codex,
    Ledger,
}

/// Coding agents, in the order in which they are asked.
const AGENTS: [Program; 3] = [Program::OpenCode, Program::ClaudeCode, Program::Codex];

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::OpenCode => "opencode",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Ledger => "ledger",
        }
    }

    /// Where it keeps its history: its own variables first, as the program itself has it.
    fn own_place(self) -> Option<PathBuf> {
        let variable = |name: &str| {
            env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let home = || variable("HOME").filter(|home| home.is_absolute());
        match self {
            Self::OpenCode => variable("XDG_DATA_HOME")
                .filter(|data| data.is_absolute())
                .or_else(|| home().map(|home| home.join(".local/share")))
                .map(|data| data.join("opencode")),
            Self::ClaudeCode => {
                variable("CLAUDE_CONFIG_DIR").or_else(|| home().map(|home| home.join(".claude")))
            }
            Self::Codex => {
                variable("CODEX_HOME").or_else(|| home().map(|home| home.join(".codex")))
            }
            Self::Ledger => None,
        }
    }

    const fn hint(self) -> &'static str {
        match self {
            Self::OpenCode => {
                "give OpenCode's data folder (by default ~/.local/share/opencode), its storage or project folder, or an \
                 opencode*.db file"
            }
            Self::ClaudeCode => {
                "give Claude Code's folder (by default ~/.claude), or its projects folder"
            }
            Self::Codex => "give Codex's folder (by default ~/.codex), or its sessions folder",
            Self::Ledger => "--store names another ledger",
        }
    }

    fn open(self, path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
        match self {
            Self::OpenCode => opencode::open(path),
            Self::ClaudeCode => claude_code::open(path),
            Self::Codex => codex::open(path),
            Self::Ledger => Ok(Vec::new()),
        }
    }
}

/// A history as it is named: `codex`, `opencode:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceName {
    program: Program,
    path: Option<PathBuf>,
}

impl SourceName {
    /// The history at a path, or in the program's own place.
    pub(crate) const fn new(program: Program, path: Option<PathBuf>) -> Self {
        Self { program, path }
    }

    pub(crate) fn is_ledger(&self) -> bool {
        self.program == Program::Ledger
    }
}

impl FromStr for SourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once(':') {
            Some((name, path)) => (name, Some(path)),
            None => (text, None),
        };
        let known = AGENTS.iter().chain([&Program::Ledger]);
        let Some(program) = known.copied().find(|program| program.name() == name) else {
            return Err(format!(
                "{name:?} is no source; known: opencode, claude-code, codex, ledger, each but the last also with :PATH, \
                 such as codex:/home/me/.codex"
            ));
        };
        match path {
            Some("") => Err(format!("there is no path behind {text:?}")),
            Some(_) if program == Program::Ledger => {
                Err("ledger takes no path: --store names another one".to_owned())
            }
            path => Ok(Self::new(program, path.map(PathBuf::from))),
        }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program.name())?;
        match &self.path {
            Some(path) => write!(f, ":{}", path.display()),
            None => Ok(()),
        }
    }
}

/// Names between commas; `all` alone is whatever is there.
pub(super) fn names(text: &str) -> Result<Option<Vec<SourceName>>, String> {
    if text == EVERYTHING {
        return Ok(None);
    }
    let names = text.split(',').map(|name| name.trim().parse());
    names.collect::<Result<_, _>>().map(Some)
}

/// What `config show` tells.
pub(crate) fn shown(setting: &Setting<Option<Vec<SourceName>>>) -> String {
    match &setting.value {
        None => EVERYTHING.to_owned(),
        Some(names) => {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            names.join(",")
        }
    }
}

/// The histories of coding agents that were found, and what else was asked for.
#[derive(Default)]
pub(crate) struct Histories {
    /// Newest generation first.
    pub(crate) sources: Vec<Arc<dyn Source>>,
    /// Whether the ledger is asked for, by its name or with everything.
    pub(crate) ledger: Option<Asked>,
    /// Where is looked, to tell.
    pub(crate) places: Vec<String>,
    /// What is there and cannot be read, to tell.
    pub(crate) notes: Vec<String>,
}

/// How something was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By its name: it has to be there.
    Named,
    /// With everything that is there.
    IfThere,
}

/// Finds the histories that `asked` names; without a name those of the settings, else all that are there. Nothing is
/// read yet.
///
/// # Errors
/// [`Usage`] for a history that is named and not there, or cannot be opened.
pub(crate) fn histories(config: &Config, asked: &[SourceName]) -> Result<Histories, Usage> {
    let mut found = Histories::default();
    let named = match &config.sources.value {
        _ if !asked.is_empty() => asked,
        Some(names) => names,
        None => {
            found.ledger = Some(Asked::IfThere);
            for program in AGENTS {
                found.add_if_there(program);
            }
            return Ok(found);
        }
    };
    for name in named {
        if name.is_ledger() {
            found.ledger = Some(Asked::Named);
        } else {
            found.add(name)?;
        }
    }
    Ok(found)
}

impl Histories {
    fn add(&mut self, name: &SourceName) -> Result<(), Usage> {
        let own = || name.program.own_place();
        let Some(path) = name.path.clone().or_else(own) else {
            let what = format!("{name}: HOME is not set");
            return Err(Usage::new(what).with_hint("name a path, or set HOME"));
        };
        let wrong = |e: SourceError| {
            let hint = match &e {
                SourceError::Unreadable { .. } => e.hint(),
                _ => name.program.hint(),
            };
            Usage::new(e.to_string()).with_hint(hint)
        };
        // The database that OPENCODE_DB names is OpenCode's own, unless a path says what is meant.
        let database = other_database(name.program, &path).filter(|_| name.path.is_none());
        let mut missing = None;
        let mut any = false;
        for path in database.iter().chain([&path]) {
            match name.program.open(path) {
                Ok(sources) => {
                    any = true;
                    self.push(name.program, path, sources);
                }
                Err(e) => missing = Some(e),
            }
        }
        match missing {
            Some(e) if !any => Err(wrong(e)),
            _ => Ok(()),
        }
    }

    /// A program that was never used here is left out without a word.
    fn add_if_there(&mut self, program: Program) {
        let Some(place) = program.own_place() else {
            return;
        };
        for path in other_database(program, &place).into_iter().chain([place]) {
            match program.open(&path) {
                Ok(sources) => self.push(program, &path, sources),
                Err(SourceError::NotFound { .. } | SourceError::Unrecognised { .. }) => {}
                Err(e) => self.notes.push(e.to_string()),
            }
        }
    }

    fn push(&mut self, program: Program, path: &Path, sources: Vec<Arc<dyn Source>>) {
        self.places
            .push(format!("{} ({})", program.name(), path.display()));
        self.sources.extend(sources);
    }
}

/// The database that `OPENCODE_DB` names, absolute or in the data folder, where looking at the folder does not find it.
fn other_database(program: Program, folder: &Path) -> Option<PathBuf> {
    if program != Program::OpenCode {
        return None;
    }
    let named = env::var_os("OPENCODE_DB").filter(|v| !v.is_empty() && v != ":memory:")?;
    let path = folder.join(named);
    let name = path.file_name()?.to_str()?;
    let found_anyway =
        path.parent() == Some(folder) && name.starts_with("opencode") && name.ends_with(".db");
    (!found_anyway).then_some(path)
}

/// The histories of coding agents as one library; without a name those of the settings, else all that are there. The
/// ledger is not in it: see [`everything`].
///
/// # Errors
/// [`Usage`], as [`histories`].
pub(crate) fn open(config: &Config, asked: &[SourceName]) -> anyhow::Result<Library> {
    Ok(Library::new(histories(config, asked)?.sources, CACHE_BYTES))
}

/// A library with the ledger in it, if it was asked for.
pub(crate) struct Everything {
    pub(crate) library: Library,
    /// The open ledger; the library's own is behind it.
    pub(crate) opened: Option<Opened>,
    /// Where is looked, to tell.
    pub(crate) places: Vec<String>,
    /// What is there and cannot be read, to tell.
    pub(crate) notes: Vec<String>,
}

impl Everything {
    /// Asks the library; its answers block, so that they are waited for beside the runtime's own threads.
    ///
    /// # Errors
    /// When the question panicked, which is told on stderr.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Library) -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let library = self.library.clone();
        Ok(tokio::task::spawn_blocking(move || question(&library)).await?)
    }

    /// Finishes with the ledger.
    pub(crate) async fn close(self) {
        drop(self.library);
        if let Some(opened) = self.opened {
            opened.close().await;
        }
    }
}

/// As [`open`], with the ledger's own sessions behind the others, as its operator sees them.
///
/// # Errors
/// [`Usage`], as [`histories`]; a ledger that is named and cannot be opened.
pub(crate) async fn everything(
    config: &Config,
    asked: &[SourceName],
) -> anyhow::Result<Everything> {
    let mut found = histories(config, asked)?;
    let opened = match found.ledger {
        Some(Asked::Named) => Some(open::open(config, Need::Existing).await?),
        Some(Asked::IfThere) => ledger_if_there(config, &mut found.notes).await,
        None => None,
    };
    if let Some(opened) = &opened {
        let runtime = tokio::runtime::Handle::current();
        let ledger = LedgerSource::new(opened.engine.clone(), operator(config), runtime);
        found.sources.push(Arc::new(ledger));
        found
            .places
            .push(format!("ledger ({})", config.store.value));
    }
    Ok(Everything {
        library: Library::new(found.sources, CACHE_BYTES),
        opened,
        places: found.places,
        notes: found.notes,
    })
}

async fn ledger_if_there(config: &Config, notes: &mut Vec<String>) -> Option<Opened> {
    let opened = match open::store_exists(config) {
        Ok(false) => return None,
        Ok(true) => open::open(config, Need::Existing).await,
        Err(e) => Err(e),
    };
    opened
        .map_err(|e| notes.push(format!("ledger: {}", told(&e).0)))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_named() {
        for (text, program, path) in [
            ("opencode", Program::OpenCode, None),
            ("claude-code", Program::ClaudeCode, None),
            ("codex:/a:b", Program::Codex, Some("/a:b")),
            ("opencode:storage", Program::OpenCode, Some("storage")),
            ("ledger", Program::Ledger, None),
        ] {
            let name = SourceName::new(program, path.map(PathBuf::from));
            assert_eq!(text.parse(), Ok(name.clone()));
            assert_eq!(name.to_string(), text);
        }
        for wrong in ["", "open-code", "OpenCode", "codex:", "ledger:/x", "/x"] {
            assert!(wrong.parse::<SourceName>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn several_between_commas_or_all() {
        assert_eq!(names("all"), Ok(None));
        let two = names("opencode, codex:/x").map(|names| names.map(|names| names.len()));
        assert_eq!(two, Ok(Some(2)));
        assert!(names("opencode,").is_err());
        assert!(names("opencode,all").is_err());
    }
}
