//! What `filrouge doctor` says of the ledger's search index: where it is, and what keeps it from being fast.

use std::sync::Arc;

use filrouge_postgres::text_index::PostgresIndex;
use filrouge_store::Keyring;
use tokio::runtime::Handle;

use crate::config::{Config, HiddenUrl, StoreUrl};
use crate::ledger_index::{file_of, place};

/// How searches in the ledger are answered, and what to do about it; changes nothing. `None` for a store in memory.
///
/// # Errors
/// When there is an index that does not answer.
pub(super) async fn look(
    config: &Config,
) -> anyhow::Result<Option<(String, Option<&'static str>)>> {
    if !config.search.index.on {
        let detail = "search.index is false: everything is looked through".to_owned();
        return Ok(Some((detail, None)));
    }
    let lacks = match &config.store {
        StoreUrl::Memory => return Ok(None),
        StoreUrl::Sqlite(path) if !file_of(path).exists() => {
            return Ok(Some((
                "no index yet: everything is looked through".to_owned(),
                Some("`filrouge serve` makes it, and `filrouge index update`"),
            )));
        }
        StoreUrl::Sqlite(_) => None,
        StoreUrl::Postgres(url) => lacks(url).await?,
    };
    let place = place(&config.store);
    Ok(Some(match lacks {
        None => (place, None),
        Some(lacks) => (
            format!("{place}: searches look through all of an owner's documents: {lacks}"),
            Some(
                "let the role that owns the schema have CREATE on the database, then `filrouge index rebuild --source ledger`",
            ),
        ),
    }))
}

/// What keeps PostgreSQL from finding texts by their trigrams.
async fn lacks(url: &HiddenUrl) -> anyhow::Result<Option<String>> {
    // It reads no data that is authenticated.
    let options = url.options(Arc::new(Keyring::single([0; 32])))?;
    let runtime = Handle::current();
    let asked =
        tokio::task::spawn_blocking(move || PostgresIndex::open(&options, &runtime)?.lacks());
    Ok(asked.await??)
}
