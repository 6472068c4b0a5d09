//! The search index in the ledger's database: the contract suite, and features that only this index has.

use std::sync::{Arc, LazyLock};

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_store::contract::text_index::IndexFixture;
use filrouge_store::text_index::TextIndex;
use filrouge_testbed::Database;
use tokio::runtime::Runtime;

use super::{database, keyring, options};

mod forgetting;
mod plans;
mod rights;
mod sealed;

/// The runtime of the indexes' connections.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn index_at(url: &str) -> PostgresIndex {
    let opened = PostgresIndex::open(&options(url, keyring()), RUNTIME.handle());
    let key = keyring().index_key(b"a store");
    opened.unwrap().unwrap().with_key(Some(key))
}

fn index() -> IndexFixture {
    let database = database();
    let url = database.url();
    IndexFixture {
        index: Arc::new(index_at(&url)),
        open_again: Box::new(move || Arc::new(index_at(&url)) as Arc<dyn TextIndex>),
        keep: Box::new(database),
    }
}

mod contract {
    use super::index;

    filrouge_store::index_contract_tests!(index);
}

/// The only row of a statement.
fn row(database: &Database, sql: &str) -> Vec<Option<String>> {
    let mut rows = database.sql(sql);
    assert_eq!(rows.len(), 1, "{sql}");
    rows.remove(0)
}

/// The number of rows of a table of schema `filrouge`.
fn count(database: &Database, table: &str) -> u64 {
    let row = row(database, &format!("SELECT count(*) FROM filrouge.{table}"));
    row[0].as_ref().unwrap().parse().unwrap()
}
