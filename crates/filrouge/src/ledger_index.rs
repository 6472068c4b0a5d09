//! The search index of the ledger: a file next to the SQLite database, tables next to the ledger's tables in PostgreSQL,
//! or indices in OpenSearch. A ledger in memory has no index, and a distributed store only one in OpenSearch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_opensearch::text_index::OpenSearchIndex;
use filrouge_postgres::text_index::PostgresIndex;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Ledger;
use filrouge_store::text_index::{IndexKey, TextIndex};
use filrouge_types::Failure;
use tokio::runtime::Handle;

use crate::config::{Config, StoreUrl};

/// The path of the index of an SQLite database.
pub(crate) fn index_file(database: &Path) -> PathBuf {
    database.with_added_extension("index")
}

/// Where the ledger's index is stored, for messages: the index in OpenSearch, the index file, or the store itself.
pub(crate) fn index_location(config: &Config) -> String {
    if let Some(location) = config.search.opensearch.location() {
        return location;
    }
    match &config.store {
        StoreUrl::Sqlite(path) => index_file(path).to_string_lossy().into_owned(),
        other => other.to_string(),
    }
}

/// Opens the index of a ledger; `None` if there is none. With `create`, a missing index is created if the settings
/// enable it. An existing index file is opened even if the settings disable it, because erased contents must be removed
/// from it too. An index in OpenSearch is always opened, and not contacted yet: it may be away.
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
    let settings = config.search.opensearch.index_settings()?;
    if let Some(settings) = settings.filter(|_| config.store != StoreUrl::Memory) {
        empty_unused_file(&config.store, key).await?;
        let index = OpenSearchIndex::new(&settings, Handle::current())?;
        return Ok(Some(Arc::new(index)));
    }
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

/// Empties the index file that an SQLite store had before another index was configured: nobody removes erased contents
/// from it any more.
async fn empty_unused_file(store: &StoreUrl, key: Option<IndexKey>) -> anyhow::Result<()> {
    let StoreUrl::Sqlite(path) = store else {
        return Ok(());
    };
    let file = index_file(path);
    if !file.exists() {
        return Ok(());
    }
    let emptied = tokio::task::spawn_blocking(move || -> Result<(), Failure> {
        let index = SqliteIndex::open(file)?.with_key(key);
        match index.status()?.sessions {
            0 => Ok(()),
            _ => index.clear(),
        }
    });
    Ok(emptied.await??)
}
