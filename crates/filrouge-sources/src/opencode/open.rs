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
use super::{OpenCode, database, watched};
use crate::files::{Files, is_id};
use crate::{Skipped, Source, SourceError};

/// Opens OpenCode's history at `path`: its data folder (with databases, `storage`, `project` in it), the `storage`
/// folder, the `project` folder, one project's folder of the older tree, or one `opencode*.db` file. Gives a source
/// for each generation that is there, the newest first (DESIGN §10). What comes later is not seen: see [`watch`].
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
    let mut generations: Vec<OpenCode> = Vec::new();
    if meta.is_dir() || is_database(path) {
        let stored = database::open(path, &clock)?.into_iter().map(|stored| {
            let at = stored.database.shown.clone();
            OpenCode::new(Box::new(stored), &at)
        });
        generations.extend(stored);
    }
    if meta.is_dir() {
        let tree = |tree: Tree| {
            let at = tree.at();
            OpenCode::new(tree.generation(clock.clone()), &at)
        };
        generations.extend(trees(path)?.into_iter().map(tree));
    }
    if generations.is_empty() {
        return Err(unrecognised(path));
    }
    tracing::debug!(
        generations = generations.len(),
        "opened an OpenCode history"
    );
    let source = |generation| Arc::new(generation) as Arc<dyn Source>;
    Ok(generations.into_iter().map(source).collect())
}

/// OpenCode's history at `path`, as [`open`] takes it, whatever is there now or later: one source for each generation
/// there can be, the newest first. Where nothing is they are empty; a database, a tree or a table that appears is read
/// within a second. What was there once is asked until the end, so that its loss is told.
#[must_use]
pub fn watch(path: &Path) -> Vec<Arc<dyn Source>> {
    watch_at(path, Arc::new(SystemClock))
}

/// [`watch`] with a clock, as for [`open_at`].
#[must_use]
pub fn watch_at(path: &Path, clock: Arc<dyn Clock>) -> Vec<Arc<dyn Source>> {
    watched::all(path, clock)
}

/// [`watch`] of a path where there is a history already.
///
/// # Errors
/// As [`open`].
pub fn open_and_watch(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    let meta = fs::metadata(path).map_err(|e| failed(path, &e))?;
    if meta.is_dir() {
        let lying = Lying::at(path)?;
        if lying.databases.is_empty() && lying.trees.is_empty() {
            return Err(unrecognised(path));
        }
    } else {
        open(path)?;
    }
    Ok(watch(path))
}

/// What lies at a path at one moment.
#[derive(Default)]
pub(super) struct Lying {
    pub(super) databases: Vec<PathBuf>,
    pub(super) trees: Vec<Tree>,
    /// What has the name of a database and is none.
    pub(super) odd: Vec<Skipped>,
}

impl Lying {
    /// Looks; nothing at the path is nothing.
    pub(super) fn at(path: &Path) -> Result<Self, SourceError> {
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(failed(path, &e)),
        };
        let mut lying = Self::default();
        if meta.is_dir() {
            (lying.databases, lying.odd) = database::files(path)?;
            lying.trees = trees(path)?;
        } else if is_database(path) {
            lying.databases.push(path.to_owned());
        }
        Ok(lying)
    }
}

/// One of the two file storages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Tree {
    Storage(PathBuf),
    /// `only` one project, or all.
    Projects {
        root: PathBuf,
        only: Option<String>,
    },
}

impl Tree {
    /// Where it lies.
    pub(super) fn at(&self) -> PathBuf {
        match self {
            Self::Storage(root) | Self::Projects { root, only: None } => root.clone(),
            Self::Projects {
                root,
                only: Some(only),
            } => root.join(only),
        }
    }

    pub(super) fn generation(self, clock: Arc<dyn Clock>) -> Box<dyn Generation> {
        match self {
            Self::Storage(root) => {
                let files = Files { root };
                Box::new(FileTree::new(JsonTree { files }, clock))
            }
            Self::Projects { root, only } => {
                let files = Files { root };
                Box::new(FileTree::new(LegacyTree { files, only }, clock))
            }
        }
    }
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

fn trees(path: &Path) -> Result<Vec<Tree>, SourceError> {
    if let Some(folder) = legacy_project(path) {
        return Ok(vec![one_project(&folder)?]);
    }
    let mut trees = Vec::new();
    let storages = [path.join("storage"), path.to_owned()];
    if let Some(root) = storages.into_iter().find(|folder| is_storage(folder)) {
        trees.push(Tree::Storage(root));
    }
    // A `storage` folder has a `project` folder too, with files instead of projects in it.
    let projects = [path.join("project"), path.to_owned()];
    if let Some(root) = projects.into_iter().find(|folder| has_projects(folder)) {
        trees.push(Tree::Projects { root, only: None });
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

fn one_project(folder: &Path) -> Result<Tree, SourceError> {
    let full = fs::canonicalize(folder).map_err(|e| failed(folder, &e))?;
    let name = full.file_name().and_then(|name| name.to_str());
    match (full.parent(), name.filter(|name| is_id(name))) {
        (Some(root), Some(name)) => Ok(Tree::Projects {
            root: root.to_owned(),
            only: Some(name.to_owned()),
        }),
        _ => Err(unrecognised(&full)),
    }
}
