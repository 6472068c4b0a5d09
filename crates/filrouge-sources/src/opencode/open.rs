//! What lies at a path: every storage of OpenCode there is.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_types::{Clock, SystemClock};

use super::generation::Generation;
use super::json_tree::JsonTree;
use super::legacy_tree::LegacyTree;
use super::tree::FileTree;
use super::{OpenCode, database};
use crate::files::{Files, is_id};
use crate::{Source, SourceError};

/// Opens OpenCode's history at `path`: its data folder (with databases, `storage`, `project` in it), the `storage`
/// folder, the `project` folder, one project's folder of the older tree, or one `opencode*.db` file. Gives a source
/// for each generation that is there, the newest first (DESIGN §10).
///
/// Only looks at what is there. A symbolic link is followed for `path` itself and for what is in it, for nothing below.
///
/// # Errors
/// [`SourceError`], which has a hint for the user: nothing there, nothing recognised, or not readable.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    open_at(path, Arc::new(SystemClock))
}

/// [`open`] with a clock, which tells whether a session is still written to.
///
/// # Errors
/// As [`open`].
pub fn open_at(path: &Path, clock: Arc<dyn Clock>) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    let meta = fs::metadata(path).map_err(|e| failed(path, &e))?;
    let mut generations = Vec::new();
    if meta.is_dir() {
        if holds_databases(path)? {
            generations.append(&mut database::open(path)?);
        }
        generations.append(&mut trees(path, &clock)?);
    } else if is_database(path) {
        generations.append(&mut database::open(path)?);
    }
    if generations.is_empty() {
        return Err(unrecognised(path));
    }
    tracing::debug!(
        generations = generations.len(),
        "opened an OpenCode history"
    );
    let source = |generation| Arc::new(OpenCode::new(generation)) as Arc<dyn Source>;
    Ok(generations.into_iter().map(source).collect())
}

fn failed(path: &Path, error: &std::io::Error) -> SourceError {
    let path = path.to_owned();
    match error.kind() {
        std::io::ErrorKind::NotFound => SourceError::NotFound {
            program: "opencode",
            path,
        },
        _ => SourceError::Unreadable {
            path,
            reason: error.to_string(),
        },
    }
}

fn unrecognised(path: &Path) -> SourceError {
    SourceError::Unrecognised {
        program: "opencode",
        path: path.to_owned(),
    }
}

/// Whether a path has the name of a database of OpenCode. The user may have given it another, with `OPENCODE_DB`.
fn is_database(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "db")
}

/// Whether a file has the usual name of a database of OpenCode: `opencode.db`, or `opencode-<channel>.db`.
#[must_use]
pub fn is_usual_database(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("opencode") && name.ends_with(".db")
}

fn holds_databases(path: &Path) -> Result<bool, SourceError> {
    for child in fs::read_dir(path).map_err(|e| failed(path, &e))? {
        let child = child.map_err(|e| failed(path, &e))?.file_name();
        if is_usual_database(&child) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn trees(path: &Path, clock: &Arc<dyn Clock>) -> Result<Vec<Box<dyn Generation>>, SourceError> {
    let mut trees: Vec<Box<dyn Generation>> = Vec::new();
    let clock = || clock.clone();
    if let Some(folder) = legacy_project(path) {
        trees.push(Box::new(FileTree::new(one_project(&folder)?, clock())));
        return Ok(trees);
    }
    let storages = [path.join("storage"), path.to_owned()];
    if let Some(root) = storages.into_iter().find(|folder| is_storage(folder)) {
        let files = Files { root };
        trees.push(Box::new(FileTree::new(JsonTree { files }, clock())));
    }
    // A `storage` folder has a `project` folder too, with files instead of projects in it.
    let projects = [path.join("project"), path.to_owned()];
    if let Some(root) = projects.into_iter().find(|folder| has_projects(folder)) {
        let files = Files { root };
        let tree = LegacyTree { files, only: None };
        trees.push(Box::new(FileTree::new(tree, clock())));
    }
    Ok(trees)
}

fn is_storage(path: &Path) -> bool {
    path.join("session").is_dir() || path.join("message").is_dir()
}

fn legacy_project(path: &Path) -> Option<PathBuf> {
    if path.join("storage/session/info").is_dir() {
        return Some(path.to_owned());
    }
    // `path` may be `.`, whose parent only the file system knows.
    if path.join("session/info").is_dir() {
        return Some(path.join(".."));
    }
    let in_session = path.join("info").is_dir() && path.join("message").is_dir();
    in_session.then(|| path.join("../.."))
}

fn has_projects(path: &Path) -> bool {
    let Ok(children) = fs::read_dir(path) else {
        return false;
    };
    children
        .flatten()
        .any(|child| child.path().join("storage/session").is_dir())
}

fn one_project(folder: &Path) -> Result<LegacyTree, SourceError> {
    let full = fs::canonicalize(folder).map_err(|e| failed(folder, &e))?;
    let name = full.file_name().and_then(|name| name.to_str());
    match (full.parent(), name.filter(|name| is_id(name))) {
        (Some(root), Some(name)) => Ok(LegacyTree {
            only: Some(name.to_owned()),
            files: Files {
                root: root.to_owned(),
            },
        }),
        _ => Err(unrecognised(&full)),
    }
}
