//! Finds the storages at a path: OpenCode's databases and file storages.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignKind};

use super::database::Database;
use super::layout::{Layout, TreeForm};
use super::row_place::source_error;
use super::storage::{NAME, Storage};
use super::tree::FileTree;
use crate::files::{Files, is_id};
use crate::{SkipReason, Skipped, SourceError};

/// The kind and the path of a storage; newer kinds sort first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoragePath {
    /// A database.
    Database(PathBuf),
    /// One of the two file storages, and its root.
    Tree(TreeForm, PathBuf),
}

impl StoragePath {
    /// Opens the storage; a tree is not read before the first query.
    ///
    /// # Errors
    /// [`SourceError`] when the database cannot be opened.
    pub(super) fn open(&self) -> Result<Arc<dyn Storage>, SourceError> {
        Ok(match self {
            Self::Database(file) => Arc::new(open_database(file)?),
            Self::Tree(form, root) => {
                let files = Files { root: root.clone() };
                let form = form.clone();
                Arc::new(FileTree::new(Layout { files, form }))
            }
        })
    }
}

fn open_database(file: &Path) -> Result<Database, SourceError> {
    let foreign = ForeignDatabase::open(file).map_err(source_error)?;
    Ok(Database::new(file.to_owned(), foreign))
}

/// Whether a file is a database with a table of sessions.
///
/// # Errors
/// [`SourceError`] when it cannot be read.
pub(super) fn is_history(file: &Path) -> Result<bool, SourceError> {
    match open_database(file)?.has_session_table() {
        Err(why) if why.kind == ForeignKind::NotADatabase => Ok(false),
        has_table => has_table.map_err(source_error),
    }
}

/// Finds the storages that exist at a path now, and reports entries that are named like a database but are not files.
/// Both lists are empty if nothing exists at the path.
pub(super) fn find_storages(path: &Path) -> Result<(Vec<StoragePath>, Vec<Skipped>), SourceError> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(e) => return Err(SourceError::from_io(path, &e)),
    };
    if meta.is_dir() {
        let failed = |e: io::Error| SourceError::Unreadable {
            path: path.to_owned(),
            reason: e.to_string(),
        };
        let (files, not_files) = database_files(path).map_err(failed)?;
        let mut paths: Vec<StoragePath> = files.into_iter().map(StoragePath::Database).collect();
        paths.extend(trees(path)?);
        return Ok((paths, not_files));
    }
    // With `OPENCODE_DB`, the user may have chosen any name.
    let is_database = path.extension().is_some_and(|extension| extension == "db");
    let database = is_database.then(|| StoragePath::Database(path.to_owned()));
    Ok((database.into_iter().collect(), Vec::new()))
}

/// Whether a file has the usual name of a database of OpenCode: `opencode.db`, or `opencode-<channel>.db`.
pub(super) fn is_usual_database(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("opencode") && name.ends_with(".db")
}

/// The file storages at a path.
fn trees(path: &Path) -> Result<Vec<StoragePath>, SourceError> {
    if let Some(folder) = legacy_project(path) {
        return Ok(vec![project_tree(&folder)?]);
    }
    let mut trees = Vec::new();
    let storages = [path.join("storage"), path.to_owned()];
    if let Some(root) = storages.into_iter().find(|folder| is_storage(folder)) {
        trees.push(StoragePath::Tree(TreeForm::Storage, root));
    }
    // A `storage` folder has a `project` folder too, but with files in it instead of projects.
    let projects = [path.join("project"), path.to_owned()];
    if let Some(root) = projects.into_iter().find(|folder| has_projects(folder)) {
        trees.push(StoragePath::Tree(TreeForm::Projects { only: None }, root));
    }
    Ok(trees)
}

fn is_storage(path: &Path) -> bool {
    path.join("session").is_dir() || path.join("message").is_dir()
}

/// The folder of one project of the older file storage, if `path` is that folder, or its folder `storage` or
/// `storage/session`.
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

/// The storage that consists of one project folder of the older file storage.
fn project_tree(folder: &Path) -> Result<StoragePath, SourceError> {
    let full = fs::canonicalize(folder).map_err(|e| SourceError::from_io(folder, &e))?;
    let name = full.file_name().and_then(|name| name.to_str());
    match (full.parent(), name.filter(|name| is_id(name))) {
        (Some(root), Some(name)) => {
            let only = Some(name.to_owned());
            Ok(StoragePath::Tree(
                TreeForm::Projects { only },
                root.to_owned(),
            ))
        }
        _ => Err(SourceError::unrecognized(NAME, &full)),
    }
}

/// The databases in a folder (`opencode.db`, and `opencode-<channel>.db` of other release channels), and reports of
/// entries with such a name that are not files.
fn database_files(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<Skipped>)> {
    let (mut databases, mut not_files) = (Vec::new(), Vec::new());
    for child in fs::read_dir(folder)? {
        let path = child?.path();
        if !path.file_name().is_some_and(is_usual_database) {
            continue;
        }
        match path.metadata() {
            Ok(meta) if meta.is_file() => databases.push(path),
            Ok(_) => not_files.push(Skipped::new(&path, SkipReason::WrongKind, "not a file")),
            // A link without a target, or in a cycle. Other links that cannot be followed fail when they are opened.
            Err(_) if path.is_symlink() => {
                let detail = "a symbolic link that leads to no file";
                not_files.push(Skipped::new(&path, SkipReason::WrongKind, detail));
            }
            // The entry was removed after the folder was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(_) => databases.push(path),
        }
    }
    databases.sort();
    Ok((databases, not_files))
}
