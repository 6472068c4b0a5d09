//! What lies at a path: every storage of OpenCode there is.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::lying::{Lying, Tree, databases, failed, is_database, trees, unrecognised};
use super::storage::OpenCode;
use super::watched;
use crate::{Source, SourceError};

/// Opens OpenCode's history at `path`: its data folder (with databases, `storage`, `project` in it), the `storage`
/// folder, the `project` folder, one project's folder of the older tree, or one `opencode*.db` file. Gives a source
/// for each generation that is there, the newest first (DESIGN §10). What comes later is not seen: see [`watch`].
///
/// Only looks at what is there. A symbolic link is followed for `path` itself and for what is in it, for nothing below.
///
/// # Errors
/// [`SourceError`], which has a hint for the user: nothing there, nothing recognised, or not readable.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    let meta = fs::metadata(path).map_err(|e| failed(path, &e))?;
    let mut generations: Vec<OpenCode> = Vec::new();
    if meta.is_dir() || is_database(path) {
        let stored = databases(path)?.into_iter().map(|stored| {
            let at = stored.database.shown.clone();
            OpenCode::new(Box::new(stored), &at)
        });
        generations.extend(stored);
    }
    if meta.is_dir() {
        let tree = |tree: Tree| {
            let at = tree.at();
            OpenCode::new(tree.generation(), &at)
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
    watched::all(path)
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
