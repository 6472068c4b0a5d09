//! OpenCode's file storages, both generations at once (DESIGN §10).
//!
//! What becomes of a part is told in `parts.rs`, of a message in `items.rs`, how
//! turns are cut in `turns.rs`, where files lie in `json_tree.rs` and `legacy_tree.rs`.

mod items;
mod json_tree;
mod legacy_tree;
mod message;
mod parts;
mod session;
mod tree;
mod turns;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use filrouge_types::Timestamp;

use crate::{LoadedSession, SessionRef, Sessions, SkipReason, Skipped, Source, SourceError};
use crate::files::Files;
use json_tree::JsonTree;
use legacy_tree::LegacyTree;
use tree::Tree;

/// A history of OpenCode on disk.
pub struct OpenCode {
    root: PathBuf,
    /// Newest generation first: of two sessions with one id the first is read.
    trees: Vec<Box<dyn Tree>>,
    databases: Vec<PathBuf>,
}

/// Opens OpenCode's history at `path`: its data folder (with `storage`, `project` or both in it),
/// the `storage` folder, the `project` folder, or one project's folder of the older tree.
///
/// Only looks at what is there. A symbolic link is followed for `path` itself and for `storage`
/// and `project` in it, for nothing below. A database beside the files is named by
/// [`Sessions::skipped`], because this version reads files only (DESIGN §10).
///
/// # Errors
/// [`SourceError`], which has a hint for the user: nothing there, nothing recognised, or a database alone.
pub fn open(path: &Path) -> Result<OpenCode, SourceError> {
    let meta = fs::metadata(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => SourceError::NotFound {
            path: path.to_owned(),
        },
        _ => SourceError::Io {
            path: path.to_owned(),
            source,
        },
    })?;
    if !meta.is_dir() {
        return Err(match is_database(path) {
            true => SourceError::DatabaseOnly {
                database: path.to_owned(),
            },
            false => SourceError::Unrecognised {
                path: path.to_owned(),
            },
        });
    }
    let databases = databases(path)?;
    let trees = trees(path)?;
    if trees.is_empty() {
        return Err(match databases.into_iter().next() {
            Some(database) => SourceError::DatabaseOnly { database },
            None => SourceError::Unrecognised {
                path: path.to_owned(),
            },
        });
    }
    tracing::debug!(
        trees = trees.len(),
        databases = databases.len(),
        "opened an OpenCode history"
    );
    Ok(OpenCode {
        root: path.to_owned(),
        trees,
        databases,
    })
}

fn is_database(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    name.starts_with("opencode") && name.ends_with(".db")
}

fn databases(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let io = |source| SourceError::Io {
        path: path.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for child in fs::read_dir(path).map_err(io)? {
        let child = child.map_err(io)?.path();
        if is_database(&child) {
            found.push(child);
        }
    }
    found.sort();
    Ok(found)
}

fn trees(path: &Path) -> Result<Vec<Box<dyn Tree>>, SourceError> {
    let mut trees: Vec<Box<dyn Tree>> = Vec::new();
    if let Some(folder) = legacy_project(path) {
        trees.push(Box::new(one_project(&folder)?));
        return Ok(trees);
    }
    for storage in [path.join("storage"), path.to_owned()] {
        if trees.is_empty() && is_storage(&storage) {
            trees.push(Box::new(JsonTree {
                files: Files { root: storage },
            }));
        }
    }
    for project in [path.join("project"), path.to_owned()] {
        // A `storage` folder has a `project` folder too, with files instead of projects in it.
        if has_projects(&project) {
            trees.push(Box::new(LegacyTree {
                files: Files { root: project },
                only: None,
            }));
            break;
        }
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
    let io = |source| SourceError::Io {
        path: folder.to_owned(),
        source,
    };
    let full = fs::canonicalize(folder).map_err(io)?;
    let name = full
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|name| files::is_id(name));
    match (full.parent(), name) {
        (Some(root), Some(name)) => {
            let files = Files {
                root: root.to_owned(),
            };
            Ok(LegacyTree {
                files,
                only: Some(name.to_owned()),
            })
        }
        _ => Err(SourceError::Unrecognised { path: full }),
    }
}

/// A session of the listing, until it is known whether another has its id.
struct Candidate {
    reference: SessionRef,
    updated: Timestamp,
    path: PathBuf,
}

impl OpenCode {
    fn check_root(&self) -> Result<(), SourceError> {
        match fs::read_dir(&self.root) {
            Ok(_) => Ok(()),
            Err(source) => Err(SourceError::Io {
                path: self.root.clone(),
                source,
            }),
        }
    }

    /// Every readable session of one tree, and each project file that is not readable once.
    fn candidates(&self, index: usize, skipped: &mut Vec<Skipped>) -> Vec<Candidate> {
        let tree = self.trees[index].as_ref();
        let mut found = Vec::new();
        let mut last_folder = None;
        for file in tree.session_files(skipped) {
            if last_folder.as_ref() != Some(&file.folder) {
                skipped.extend(tree.project(&file.folder).err());
                last_folder = Some(file.folder.clone());
            }
            match session::read(tree, index, &file.folder, &file.id) {
                Ok(header) => found.push(Candidate {
                    reference: header.session.reference,
                    updated: header.session.updated,
                    path: file.path,
                }),
                Err(why) => skipped.push(why),
            }
        }
        found
    }

    fn tree(&self, session: &SessionRef) -> Result<&dyn Tree, Skipped> {
        match self.trees.get(session.tree) {
            Some(tree) => Ok(tree.as_ref()),
            None => Err(Skipped::new(
                &self.root,
                SkipReason::BadName,
                format!("session {:?} is of another source", session.id),
            )),
        }
    }

    fn header(&self, session: &SessionRef) -> Result<session::Header, Skipped> {
        let tree = self.tree(session)?;
        session::read(tree, session.tree, &session.folder, session.id.as_str())
    }
}

/// Keeps one session of each id: of the newest generation; within one, the last changed.
fn dedupe(candidates: Vec<Candidate>, skipped: &mut Vec<Skipped>) -> Vec<SessionRef> {
    let mut kept: BTreeMap<String, Candidate> = BTreeMap::new();
    for candidate in candidates {
        let id = candidate.reference.id.as_str().to_owned();
        let Some(other) = kept.remove(&id) else {
            kept.insert(id, candidate);
            continue;
        };
        let same_tree = candidate.reference.tree == other.reference.tree;
        let (winner, loser) = match same_tree && candidate.updated > other.updated {
            true => (candidate, other),
            false => (other, candidate),
        };
        let reason = if same_tree {
            SkipReason::DuplicateId
        } else {
            SkipReason::Shadowed
        };
        let detail = format!("read from {}", winner.path.display());
        skipped.push(Skipped::new(&loser.path, reason, detail));
        kept.insert(id, winner);
    }
    let mut refs: Vec<SessionRef> = kept.into_values().map(|c| c.reference).collect();
    refs.sort_by(|a, b| (a.created, a.id.as_str()).cmp(&(b.created, b.id.as_str())));
    refs
}

impl Source for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn sessions(&self) -> Result<Sessions<'_>, SourceError> {
        self.check_root()?;
        let mut skipped = Vec::new();
        for database in &self.databases {
            let detail = "this version reads OpenCode's JSON files only";
            skipped.push(Skipped::new(database, SkipReason::Database, detail));
        }
        let mut candidates = Vec::new();
        for index in 0..self.trees.len() {
            candidates.append(&mut self.candidates(index, &mut skipped));
        }
        let refs = dedupe(candidates, &mut skipped);
        let read = |r: &SessionRef| self.header(r).map(session::Header::finish);
        Ok(Sessions::new(refs, skipped, Box::new(read)))
    }

    fn load(&self, session: &SessionRef) -> Result<LoadedSession, Skipped> {
        let tree = self.tree(session)?;
        let mut header = self.header(session)?;
        let mut skipped = Vec::new();
        tree.add_beside(session.id.as_str(), &mut header.metadata, &mut skipped);
        let place = message::Place {
            tree,
            folder: &session.folder,
            session: session.id.as_str(),
        };
        let messages = message::read_all(&place, &mut skipped);
        message::describe(&messages.read, &mut header.session);
        let turns = turns::build(&place, messages, &mut skipped);
        tracing::debug!(
            turns = turns.len(),
            skipped = skipped.len(),
            "loaded an OpenCode session"
        );
        Ok(LoadedSession {
            session: header.finish(),
            turns,
            skipped,
        })
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        self.check_root()?;
        let mut skipped = Vec::new();
        for tree in &self.trees {
            tree.strays(&mut skipped);
        }
        Ok(skipped)
    }
}

impl std::fmt::Debug for OpenCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let trees: Vec<_> = self.trees.iter().map(|tree| tree.generation()).collect();
        f.debug_struct("OpenCode")
            .field("root", &self.root)
            .field("trees", &trees)
            .finish()
    }
}
