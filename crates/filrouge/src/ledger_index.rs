//! The search index of the ledger: a file next to the SQLite database, or tables next to the ledger's tables in
//! PostgreSQL. A ledger in memory and a distributed store have no index.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Ledger;
use filrouge_store::text_index::TextIndex;
use tokio::runtime::Handle;

use crate::config::{Config, StoreUrl};

/// The path of the index of an SQLite database.
pub(crate) fn index_file(database: &Path) -> PathBuf {
    database.with_added_extension("index")
}

/// Where a store's index is stored, for messages: the index file, or the store itself.
pub(crate) fn index_location(store: &StoreUrl) -> String {
    match store {
        StoreUrl::Sqlite(path) => index_file(path).to_string_lossy().into_owned(),
        other => other.to_string(),
    }
}

/// Opens the index of a ledger; `None` if there is none. With `create`, a missing index is created if the settings
/// enable it. An existing index file is opened even if the settings disable it, because erased contents must be removed
/// from it too.
///
/// # Errors
/// When the index exists and cannot be opened, or cannot be created.
pub(crate) async fn open(
    config: &Config,
    create: bool,
    ledger: &dyn Ledger,
) -> anyhow::Result<Option<Arc<dyn TextIndex>>> {
    let create = create && config.search.index.enabled;
    let key = Some(ledger.keyring().index_key(ledger.store_id().as_bytes()));
    match &config.store {
        // There is no index: searches scan the messages.
        StoreUrl::Memory => Ok(None),
        StoreUrl::Sqlite(path) => {
            let file = index_file(path);
            if !create && !file.exists() {
                return Ok(None);
            }
            let opened = tokio::task::spawn_blocking(move || SqliteIndex::open(file)).await?;
            Ok(Some(Arc::new(opened?.with_key(key))))
        }
        StoreUrl::Postgres(url) => {
            if !config.search.index.enabled {
                return Ok(None);
            }
            let options = url.options_without_keyring()?;
            let runtime = Handle::current();
            let opened =
                tokio::task::spawn_blocking(move || PostgresIndex::open(&options, &runtime));
            // A distributed store has no index.
            let opened = opened.await??;
            Ok(opened.map(|index| Arc::new(index.with_key(key)) as Arc<dyn TextIndex>))
        }
    }
}
