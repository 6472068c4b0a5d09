//! The search index of the ledger: a file next to the database, or tables next to the ledger's. A ledger in memory has
//! none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Keyring;
use filrouge_store::text_index::TextIndex;
use tokio::runtime::Handle;

use crate::config::{Config, StoreUrl};

/// The suffix of the index file's name.
const ENDING: &str = ".index";

/// The path of a database's index.
pub(crate) fn index_file(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ENDING);
    PathBuf::from(name)
}

/// The file or store that contains a store's index, for messages.
pub(crate) fn index_location(store: &StoreUrl) -> String {
    match store {
        StoreUrl::Sqlite(path) => index_file(path).to_string_lossy().into_owned(),
        other => other.to_string(),
    }
}

/// Opens the index; with `creates`, a missing one is created. An existing index file is opened even where the settings
/// disable it: erased contents must be removed from it too.
///
/// # Errors
/// When it exists and cannot be opened.
pub(crate) async fn open(
    config: &Config,
    creates: bool,
) -> anyhow::Result<Option<Arc<dyn TextIndex>>> {
    let creates = creates && config.search.index.on;
    match &config.store {
        // There is no index: searches scan the messages.
        StoreUrl::Memory => Ok(None),
        StoreUrl::Sqlite(path) => {
            let file = index_file(path);
            if !creates && !file.exists() {
                return Ok(None);
            }
            let opened = tokio::task::spawn_blocking(move || SqliteIndex::open(file)).await?;
            Ok(Some(Arc::new(opened?)))
        }
        StoreUrl::Postgres(url) => {
            if !config.search.index.on {
                return Ok(None);
            }
            // This reads no authenticated data, so any key will do.
            let options = url.options(Arc::new(Keyring::single([0; 32])))?;
            let runtime = Handle::current();
            let opened =
                tokio::task::spawn_blocking(move || PostgresIndex::open(&options, &runtime));
            Ok(Some(Arc::new(opened.await??)))
        }
    }
}
