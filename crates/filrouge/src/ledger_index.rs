//! The search index of the ledger: a file beside the database, or tables beside the ledger's. A ledger in memory
//! has none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_sqlite::text_index::SqliteIndex;
use filrouge_store::Keyring;
use filrouge_store::text_index::TextIndex;
use tokio::runtime::Handle;

use crate::config::{Config, StoreUrl};

/// What is put behind the name of the database.
const ENDING: &str = ".index";

/// Where the index of a database is.
pub(crate) fn file_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ENDING);
    PathBuf::from(name)
}

/// Where the index of a store is, to tell.
pub(crate) fn place(store: &StoreUrl) -> String {
    match store {
        StoreUrl::Sqlite(path) => file_of(path).to_string_lossy().into_owned(),
        other => other.to_string(),
    }
}

/// Opens the index. `makes` says whether one that is not there is made; one that is there is opened also where the settings
/// want none: what is erased has to be erased there, too.
///
/// # Errors
/// When it is there and cannot be opened.
pub(crate) async fn open(
    config: &Config,
    makes: bool,
) -> anyhow::Result<Option<Arc<dyn TextIndex>>> {
    let makes = makes && config.search.index.on;
    match &config.store {
        // It is searched message by message.
        StoreUrl::Memory => Ok(None),
        StoreUrl::Sqlite(path) => {
            let file = file_of(path);
            if !makes && !file.exists() {
                return Ok(None);
            }
            let opened = tokio::task::spawn_blocking(move || SqliteIndex::open(file)).await?;
            Ok(Some(Arc::new(opened?)))
        }
        StoreUrl::Postgres(url) => {
            if !config.search.index.on {
                return Ok(None);
            }
            // It reads no data that is authenticated.
            let options = url.options(Arc::new(Keyring::single([0; 32])))?;
            let runtime = Handle::current();
            let opened =
                tokio::task::spawn_blocking(move || PostgresIndex::open(&options, &runtime));
            Ok(Some(Arc::new(opened.await??)))
        }
    }
}
