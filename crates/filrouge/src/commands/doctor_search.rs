//! The part of `filrouge doctor` about the ledger's search index: where it is stored, and what makes searches slow.

use filrouge_opensearch::text_index::OpenSearchIndex;
use filrouge_postgres::text_index::PostgresIndex;
use tokio::runtime::Handle;

use crate::config::{Config, HiddenUrl, StoreUrl};
use crate::ledger_index::{index_file, index_location};

/// Returns the location of the index, or why searches are slow, and a hint that makes them faster. Changes nothing.
/// `None` for a store in memory.
///
/// # Errors
/// When an existing index does not answer.
pub(super) async fn check(
    config: &Config,
) -> anyhow::Result<Option<(String, Option<&'static str>)>> {
    if !config.search.index.enabled {
        let detail = "search.index is false: searches scan everything".to_owned();
        return Ok(Some((detail, None)));
    }
    let obstacle = match &config.store {
        StoreUrl::Memory => return Ok(None),
        _ if config.search.opensearch.location().is_some() => {
            // Fails unless OpenSearch answers.
            contact_opensearch(config).await?;
            None
        }
        StoreUrl::Sqlite(path) if !index_file(path).exists() => {
            return Ok(Some((
                "no index yet: searches scan everything".to_owned(),
                Some("`filrouge serve` or `filrouge index update` creates it"),
            )));
        }
        StoreUrl::Sqlite(_) => None,
        StoreUrl::Postgres(url) => match trigram_obstacle(url).await? {
            Some(obstacle) => obstacle,
            None => {
                let detail = "a distributed store has no index: searches scan everything";
                return Ok(Some((detail.to_owned(), None)));
            }
        },
    };
    let location = index_location(config);
    Ok(Some(match obstacle {
        None => (location, None),
        Some(obstacle) => (
            format!("{location}: searches scan all of an owner's documents: {obstacle}"),
            Some(
                "let the role that owns the schema have CREATE on the database, then `filrouge index rebuild --source ledger`",
            ),
        ),
    }))
}

/// Fails if OpenSearch does not answer.
async fn contact_opensearch(config: &Config) -> anyhow::Result<()> {
    if let Some(settings) = config.search.opensearch.index_settings()? {
        let index = OpenSearchIndex::new(&settings, Handle::current())?;
        tokio::task::spawn_blocking(move || index.contact()).await??;
    }
    Ok(())
}

/// The reason why PostgreSQL cannot search by trigrams, if there is one; `None` for a store without an index.
async fn trigram_obstacle(url: &HiddenUrl) -> anyhow::Result<Option<Option<String>>> {
    let options = url.options_without_keyring()?;
    let runtime = Handle::current();
    let obstacle = tokio::task::spawn_blocking(move || {
        let index = PostgresIndex::open(&options, &runtime)?;
        index.map(|index| index.lacks()).transpose()
    });
    Ok(obstacle.await??)
}
