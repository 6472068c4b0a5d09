//! Where Claude Code's files lie: `projects/<folder>/<session>.jsonl`, the agents a session has started in
//! `<session>/subagents/`, in early versions beside the session as `agent-*.jsonl`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::jsonl::{LogFile, State, children, stem};
use crate::{Skipped, SourceError};

/// [`crate::Source::name`].
pub(super) const NAME: &str = "claude-code";

/// Folders below `subagents` that are looked into.
const DEPTH_MAX: usize = 3;

/// How the name of an agent's file begins.
const AGENT_NAME: &str = "agent-";

/// What was opened.
pub(crate) enum Root {
    /// A folder of projects.
    Projects(PathBuf),
    /// A project's folder.
    Project(PathBuf),
    /// One session.
    File(PathBuf),
}

/// Whose file it is.
pub(super) enum Owner<'a> {
    /// A session of its own.
    Session,
    /// An agent below the folder of this session.
    AgentOf(&'a str),
    /// An agent beside sessions; its records name the session.
    LooseAgent,
}

impl Root {
    /// Recognises what is at `path`.
    pub(super) fn find(path: &Path) -> Result<Self, SourceError> {
        let unrecognised = || SourceError::unrecognised(NAME, path);
        let Ok(meta) = std::fs::metadata(path) else {
            let path = path.to_owned();
            return Err(SourceError::NotFound { path });
        };
        if meta.is_file() {
            let is_log =
                stem(path).is_some() && path.file_name() != Some(OsStr::new("history.jsonl"));
            return if is_log {
                Ok(Self::File(path.to_owned()))
            } else {
                Err(unrecognised())
            };
        }
        let projects = path.join("projects");
        if projects.is_dir() {
            return Ok(Self::Projects(projects));
        }
        let (folders, files) = children(path, is_log, &mut Vec::new());
        if path.file_name() == Some(OsStr::new("projects")) {
            return Ok(Self::Projects(path.to_owned()));
        }
        if !files.is_empty() {
            return Ok(Self::Project(path.to_owned()));
        }
        let holds = |folder: &PathBuf| !children(folder, is_log, &mut Vec::new()).1.is_empty();
        if folders.iter().any(holds) {
            return Ok(Self::Projects(path.to_owned()));
        }
        Err(unrecognised())
    }

    /// All files there are.
    pub(super) fn walk(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let mut found = Vec::new();
        match self {
            Self::Projects(dir) => {
                let (folders, _) = children(dir, |_| true, skipped);
                for folder in folders {
                    project(&folder, &mut found, skipped);
                }
            }
            Self::Project(dir) => project(dir, &mut found, skipped),
            Self::File(path) => {
                // The user has named the file: it may be a link.
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                if let Some(state) = State::of(&path) {
                    let folder = path.with_extension("");
                    found.push(LogFile { path, state });
                    agents(&folder.join("subagents"), DEPTH_MAX, &mut found, skipped);
                }
            }
        }
        found
    }
}

fn is_log(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("jsonl"))
}

fn project(dir: &Path, found: &mut Vec<LogFile>, skipped: &mut Vec<Skipped>) {
    let (folders, mut files) = children(dir, is_log, skipped);
    found.append(&mut files);
    for folder in folders {
        agents(&folder.join("subagents"), DEPTH_MAX, found, skipped);
    }
}

fn agents(dir: &Path, depth: usize, found: &mut Vec<LogFile>, skipped: &mut Vec<Skipped>) {
    let (folders, mut files) = children(dir, is_log, skipped);
    found.append(&mut files);
    if depth > 0 {
        for folder in folders {
            agents(&folder, depth - 1, found, skipped);
        }
    }
}

/// Whose file this is, by its path.
pub(super) fn owner(path: &Path) -> Option<Owner<'_>> {
    let name = stem(path)?;
    Some(match session_folder(path) {
        Some(folder) => Owner::AgentOf(folder.file_name()?.to_str()?),
        None if name.starts_with(AGENT_NAME) => Owner::LooseAgent,
        None => Owner::Session,
    })
}

/// The name of the project's folder.
pub(super) fn project_of(path: &Path) -> Option<&str> {
    let inner = session_folder(path).unwrap_or(path);
    inner.parent()?.file_name()?.to_str()
}

/// The folder of the session whose agent's file this is. Folders further up may have any name.
fn session_folder(path: &Path) -> Option<&Path> {
    let is_agent = stem(path).is_some_and(|name| name.starts_with(AGENT_NAME));
    let mut above = path
        .ancestors()
        .skip(1)
        .take(DEPTH_MAX + 1)
        .filter(|_| is_agent);
    above
        .find(|folder| folder.file_name() == Some(OsStr::new("subagents")))?
        .parent()
}
