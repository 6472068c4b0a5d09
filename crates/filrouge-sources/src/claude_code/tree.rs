//! Finds Claude Code's files: `projects/<folder>/<session>.jsonl`. The agents of a session are in
//! `projects/<folder>/<session>/subagents/`; early versions store them as `agent-*.jsonl` in `projects/<folder>/`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::jsonl::{LogFile, State, list_folder, stem};
use crate::{Skipped, SourceError};

/// [`crate::Source::name`].
pub(super) const NAME: &str = "claude-code";

/// The maximum number of folder levels that are scanned below `subagents`.
const DEPTH_MAX: usize = 3;

/// The prefix of an agent file's name.
pub(super) const AGENT_NAME: &str = "agent-";

/// The kind of the opened path.
pub(crate) enum Root {
    /// A folder that contains the projects' folders.
    Projects(PathBuf),
    /// The folder of one project.
    Project(PathBuf),
    /// The file of one session.
    File(PathBuf),
}

impl Root {
    /// Determines the kind of `path`.
    pub(super) fn find(path: &Path) -> Result<Self, SourceError> {
        let unrecognized = || SourceError::unrecognized(NAME, path);
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
                Err(unrecognized())
            };
        }
        let projects = path.join("projects");
        if projects.is_dir() {
            return Ok(Self::Projects(projects));
        }
        let (folders, files) = list_folder(path, is_log, &mut Vec::new());
        if path.file_name() == Some(OsStr::new("projects")) {
            return Ok(Self::Projects(path.to_owned()));
        }
        if !files.is_empty() {
            return Ok(Self::Project(path.to_owned()));
        }
        let has_logs =
            |folder: &PathBuf| !list_folder(folder, is_log, &mut Vec::new()).1.is_empty();
        if folders.iter().any(has_logs) {
            return Ok(Self::Projects(path.to_owned()));
        }
        Err(unrecognized())
    }

    /// Lists the files of all sessions and agents.
    pub(super) fn list_files(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let mut logs = Vec::new();
        match self {
            Self::Projects(dir) => {
                let (folders, _) = list_folder(dir, |_| true, skipped);
                for folder in folders {
                    list_project(&folder, &mut logs, skipped);
                }
            }
            Self::Project(dir) => list_project(dir, &mut logs, skipped),
            Self::File(path) => {
                // The user named the file, so it may be a link.
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                if let Some(state) = State::read(&path) {
                    let folder = path.with_extension("");
                    logs.push(LogFile { path, state });
                    list_agents(&folder.join("subagents"), DEPTH_MAX, &mut logs, skipped);
                }
            }
        }
        logs
    }
}

fn is_log(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("jsonl"))
}

fn list_project(dir: &Path, logs: &mut Vec<LogFile>, skipped: &mut Vec<Skipped>) {
    let (folders, mut files) = list_folder(dir, is_log, skipped);
    logs.append(&mut files);
    for folder in folders {
        list_agents(&folder.join("subagents"), DEPTH_MAX, logs, skipped);
    }
}

/// Lists the agents' files in a folder, and in its folders down to `depth` further levels.
fn list_agents(dir: &Path, depth: usize, logs: &mut Vec<LogFile>, skipped: &mut Vec<Skipped>) {
    let (folders, mut files) = list_folder(dir, is_log, skipped);
    logs.append(&mut files);
    if depth > 0 {
        for folder in folders {
            list_agents(&folder, depth - 1, logs, skipped);
        }
    }
}

/// Returns the name of the project's folder, which contains the file of the session or, indirectly, of the agent.
pub(super) fn project_of(path: &Path) -> Option<&str> {
    let inner = session_folder(path).unwrap_or(path);
    inner.parent()?.file_name()?.to_str()
}

/// Returns the folder of the parent session of an agent's file, which is named by the session's id; `None` for other
/// files. Only the nearest folders are checked, because a folder further up may be called `subagents` for another
/// reason.
pub(super) fn session_folder(path: &Path) -> Option<&Path> {
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
