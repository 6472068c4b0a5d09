//! The search index: the contract suite, and failures that only a file can have.

use std::path::Path;
use std::sync::Arc;

use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Keyring;
use filrouge_store::contract::text_index::IndexFixture;

mod decoded;
mod file;
mod killed;
mod merges;
mod repeated_queries;
mod sealed;
mod traces;

fn index_at(path: &Path) -> SqliteIndex {
    SqliteIndex::open(path).unwrap()
}

fn sealed_index_at(path: &Path) -> SqliteIndex {
    let key = Keyring::single([7; 32]).index_key(b"index");
    index_at(path).with_key(Some(key))
}

fn fixture(open: fn(&Path) -> SqliteIndex) -> IndexFixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    IndexFixture {
        index: Arc::new(open(&path)),
        open_again: Box::new(move || Arc::new(open(&path))),
        keep: Box::new(folder),
    }
}

mod contract {
    fn index() -> super::IndexFixture {
        super::fixture(super::index_at)
    }
    filrouge_store::index_contract_tests!(index);
}

mod sealed_contract {
    fn index() -> super::IndexFixture {
        super::fixture(super::sealed_index_at)
    }
    filrouge_store::index_contract_tests!(index);
}
