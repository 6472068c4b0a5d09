//! The histories that are queried: the flag `--source NAME[:PATH]`, the variable `FILROUGE_SOURCE` and the setting
//! `sources`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use filrouge_sources::Program;
use filrouge_sources::programs::{self, LEDGER};

use super::layers::{Layers, ValueType, format_list};
use crate::exit::Result;

mod open;

pub(crate) use open::{
    FoundHistories, OpenLibrary, SourceRequest, histories, open, open_program, open_with_ledger,
};

/// The value of `sources` for all histories that exist, which is also the default.
const ALL_SOURCES: &str = "all";

/// The name of a history, such as `codex`, `opencode:/path` or `ledger`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceName {
    /// A program's history, at this path; `None` means the program's default folder.
    Program(&'static Program, Option<PathBuf>),
    Ledger,
}

impl SourceName {
    pub(crate) fn is_ledger(&self) -> bool {
        *self == Self::Ledger
    }
}

impl FromStr for SourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once(':') {
            Some((name, path)) => (name, Some(path)),
            None => (text, None),
        };
        match (programs::named(name), path) {
            (_, Some("")) => Err(format!("there is no path after {text:?}")),
            (Some(program), path) => Ok(Self::Program(program, path.map(PathBuf::from))),
            (None, None) if name == LEDGER => Ok(Self::Ledger),
            (None, Some(_)) if name == LEDGER => {
                Err("ledger takes no path: --store names another one".to_owned())
            }
            (None, _) => Err(format!(
                "{name:?} is no source; known: {}, each but the last also with :PATH, such as codex:/home/me/.codex",
                programs::sources().collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program, None) => f.write_str(program.name),
            Self::Program(program, Some(path)) => write!(f, "{}:{}", program.name, path.display()),
            Self::Ledger => f.write_str(LEDGER),
        }
    }
}

/// Reads the histories that are queried by default; `None` for all that exist.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Option<Vec<SourceName>>> {
    let setting = ("sources", ValueType::List);
    layers.read(setting, || Ok(None), parse_names, format_names)
}

/// Parses names separated by commas. `all` alone becomes `None`, which means every history that exists.
fn parse_names(text: &str) -> Result<Option<Vec<SourceName>>, String> {
    if text == ALL_SOURCES {
        return Ok(None);
    }
    let names = text.split(',').map(|name| name.trim().parse());
    names.collect::<Result<_, _>>().map(Some)
}

fn format_names(names: &Option<Vec<SourceName>>) -> String {
    let names = names.as_deref();
    names.map_or_else(|| ALL_SOURCES.to_owned(), format_list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_names_are_parsed_and_formatted() {
        for (text, program, path) in [
            ("opencode", "opencode", None),
            ("claude-code", "claude-code", None),
            ("codex:/a:b", "codex", Some("/a:b")),
            ("opencode:storage", "opencode", Some("storage")),
        ] {
            let program = programs::named(program).unwrap();
            let name = SourceName::Program(program, path.map(PathBuf::from));
            assert_eq!(text.parse(), Ok(name.clone()));
            assert_eq!(name.to_string(), text);
        }
        assert_eq!("ledger".parse(), Ok(SourceName::Ledger));
        assert_eq!(SourceName::Ledger.to_string(), "ledger");
        for invalid in ["", "open-code", "OpenCode", "codex:", "ledger:/x", "/x"] {
            assert!(invalid.parse::<SourceName>().is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn a_list_of_sources_is_all_or_names_between_commas() {
        assert_eq!(parse_names("all"), Ok(None));
        let two = parse_names("opencode, codex:/x").map(|names| names.map(|names| names.len()));
        assert_eq!(two, Ok(Some(2)));
        assert!(parse_names("opencode,").is_err());
        assert!(parse_names("opencode,all").is_err());
    }
}
