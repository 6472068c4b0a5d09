//! The search index: the contract suite, and failures that only a file can have.

use std::path::Path;
use std::sync::Arc;

use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::contract::text_index::IndexFixture;

mod decoded;
mod file;
mod killed;
mod merges;
mod repeated_queries;
mod traces;

fn index_at(path: &Path) -> SqliteIndex {
    SqliteIndex::open(path).unwrap()
}

fn index() -> IndexFixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    IndexFixture {
        index: Arc::new(index_at(&path)),
        open_again: Box::new(move || Arc::new(index_at(&path))),
        keep: Box::new(folder),
    }
}

mod contract {
    use super::index;
    filrouge_store::index_contract_tests!(index);
}
