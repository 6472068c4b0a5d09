//! What lies at a path: databases and file storages of OpenCode.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sqlite::foreign::{ForeignDatabase, ForeignError};

use super::database::Database;
use super::generation::Generation;
use super::kind::Kind;
use super::layout::{Form, Layout};
use super::row_place::source_error;
use super::stored::Stored;
use super::tree_listing::FileTree;
use crate::files::{Files, is_id};
use crate::{SkipReason, Skipped, SourceError};

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
            (lying.databases, lying.odd) = database_files(path)?;
            lying.trees = trees(path)?;
        } else if is_database(path) {
            lying.databases.push(path.to_owned());
        }
        Ok(lying)
    }
}

/// One of the two file storages, and its root.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    root: PathBuf,
    form: Form,
}

impl Tree {
    /// Where it lies.
    pub(super) fn at(&self) -> PathBuf {
        match &self.form {
            Form::Projects { only: Some(only) } => self.root.join(only),
            _ => self.root.clone(),
        }
    }

    pub(super) fn generation(self) -> Box<dyn Generation> {
        let files = Files { root: self.root };
        let form = self.form;
        Box::new(FileTree::new(Layout { files, form }))
    }
}

pub(super) fn failed(path: &Path, error: &std::io::Error) -> SourceError {
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

pub(super) fn unrecognised(path: &Path) -> SourceError {
    SourceError::Unrecognised {
        program: "opencode",
        path: path.to_owned(),
    }
}

/// Whether a path has the name of a database of OpenCode. The user may have given it another, with `OPENCODE_DB`.
pub(super) fn is_database(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "db")
}

/// Whether a file has the usual name of a database of OpenCode: `opencode.db`, or `opencode-<channel>.db`.
#[must_use]
pub fn is_usual_database(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("opencode") && name.ends_with(".db")
}

pub(super) fn trees(path: &Path) -> Result<Vec<Tree>, SourceError> {
    if let Some(folder) = legacy_project(path) {
        return Ok(vec![one_project(&folder)?]);
    }
    let mut trees = Vec::new();
    let storages = [path.join("storage"), path.to_owned()];
    if let Some(root) = storages.into_iter().find(|folder| is_storage(folder)) {
        trees.push(Tree {
            root,
            form: Form::Storage,
        });
    }
    // A `storage` folder has a `project` folder too, with files instead of projects in it.
    let projects = [path.join("project"), path.to_owned()];
    if let Some(root) = projects.into_iter().find(|folder| has_projects(folder)) {
        trees.push(Tree {
            root,
            form: Form::Projects { only: None },
        });
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
        (Some(root), Some(name)) => Ok(Tree {
            root: root.to_owned(),
            form: Form::Projects {
                only: Some(name.to_owned()),
            },
        }),
        _ => Err(unrecognised(&full)),
    }
}

/// Opens the databases at `path`: one file, or all `opencode*.db` of a folder. Gives their generations, the newest
/// first. A file that was asked for has to be a history; one among others is named when it is listed.
///
/// # Errors
/// [`SourceError`] when the folder or the file cannot be read, or the file is no history.
pub(super) fn databases(path: &Path) -> Result<Vec<Stored>, SourceError> {
    let alone = !path.is_dir();
    let files = match alone {
        true => vec![path.to_owned()],
        false => database_files(path)?.0,
    };
    let mut found: Vec<(Kind, Arc<Database>)> = Vec::new();
    for file in files {
        let database = match ForeignDatabase::open(&file) {
            Ok(foreign) => Arc::new(Database::new(file, foreign)),
            Err(_) if !alone => continue,
            Err(why) => return Err(source_error(why)),
        };
        let kinds = match database.schema() {
            Ok(schema) => Kind::all_in(&schema),
            // It may be locked just now: listing tells.
            Err(_) if !alone => vec![Kind::Sqlite],
            Err(ForeignError::NotADatabase { .. }) => Vec::new(),
            Err(why) => return Err(source_error(why)),
        };
        let kinds = match kinds.is_empty() && !alone {
            true => vec![Kind::Sqlite],
            false => kinds,
        };
        found.extend(kinds.into_iter().map(|kind| (kind, database.clone())));
    }
    found.sort_by_key(|(kind, _)| *kind);
    let stored = |(kind, database)| Stored { kind, database };
    Ok(found.into_iter().map(stored).collect())
}

/// The databases in a folder: `opencode.db`, and `opencode-<channel>.db` of other channels; and what has such a name
/// and is no file.
fn database_files(folder: &Path) -> Result<(Vec<PathBuf>, Vec<Skipped>), SourceError> {
    let failed = |e: std::io::Error| SourceError::Unreadable {
        path: folder.to_owned(),
        reason: e.to_string(),
    };
    let (mut found, mut odd) = (Vec::new(), Vec::new());
    for child in std::fs::read_dir(folder).map_err(failed)? {
        let path = child.map_err(failed)?.path();
        if !path.file_name().is_some_and(is_usual_database) {
            continue;
        }
        match path.metadata() {
            Ok(meta) if meta.is_file() => found.push(path),
            Ok(_) => odd.push(Skipped::new(&path, SkipReason::WrongKind, "not a file")),
            // A link to nothing, or in a circle; one that may not be followed is told as such.
            Err(_) if path.is_symlink() => {
                let detail = "a symbolic link that leads to no file";
                odd.push(Skipped::new(&path, SkipReason::WrongKind, detail));
            }
            // It has gone since the folder was listed.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => found.push(path),
        }
    }
    found.sort();
    odd.sort();
    Ok((found, odd))
}

/// All generations that one database can hold, whichever tables it has now, the newest first.
///
/// # Errors
/// [`SourceError`] when there is no such file.
pub(super) fn all_of(file: &Path) -> Result<(Arc<Database>, Vec<Stored>), SourceError> {
    let foreign = ForeignDatabase::open(file).map_err(source_error)?;
    let database = Arc::new(Database::new(file.to_owned(), foreign));
    let stored = Kind::ALL.map(|kind| Stored {
        kind,
        database: database.clone(),
    });
    Ok((database, stored.into()))
}
