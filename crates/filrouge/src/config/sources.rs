//! Which histories: `--source NAME[:PATH]`, `FILROUGE_SOURCE`, `sources`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::layers::{Form, Layers, joined};
use crate::exit::Usage;

mod open;
mod place;

pub(crate) use open::{Everything, Found, everything, histories, open};

/// What the setting is called when nothing is said.
const EVERYTHING: &str = "all";

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

/// The histories that are looked at unless others are named; `None` for all that are there.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Option<Vec<SourceName>>, Usage> {
    layers.read(("sources", Form::List), || Ok(None), names, shown)
}

/// Names between commas; `all` alone is whatever is there.
fn names(text: &str) -> Result<Option<Vec<SourceName>>, String> {
    if text == EVERYTHING {
        return Ok(None);
    }
    let names = text.split(',').map(|name| name.trim().parse());
    names.collect::<Result<_, _>>().map(Some)
}

fn shown(names: &Option<Vec<SourceName>>) -> String {
    let names = names.as_deref();
    names.map_or_else(|| EVERYTHING.to_owned(), joined)
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
