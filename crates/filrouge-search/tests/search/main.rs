//! Tests of searches in the ledger and in histories that other programs wrote.

// Helpers outside test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod embed;
mod feed;
mod find_broken;
mod find_hidden;
mod find_meaning;
mod find_pages;
mod find_rank;
mod find_sealed;
mod genuine;
mod ledger;
mod tampered;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_search::{Results, SearchRequest, Searcher};
use filrouge_sources::{Library, LibraryError};

/// Searches a library by scanning it.
fn search(library: &Library, request: &SearchRequest) -> Result<Results, LibraryError> {
    Searcher::new(library.clone()).search(request, &|| false)
}

/// The path of a genuine history among the repository's fixtures.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

/// A copy of a fixture that a test may change.
fn copy_of(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture(name), dir.path());
    dir
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for child in fs::read_dir(from).unwrap() {
        let child = child.unwrap();
        let target = to.join(child.file_name());
        if child.file_type().unwrap().is_dir() {
            copy(&child.path(), &target);
        } else {
            fs::copy(child.path(), target).unwrap();
        }
    }
}
