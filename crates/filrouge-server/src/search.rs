//! How this server searches: by the ledger's index, where it keeps one.

use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_search::embed::Embedder;
use filrouge_search::feed::Indexes;
use filrouge_search::ledger::LedgerFeed;
use filrouge_search::{LedgerSearch, Searcher};
use filrouge_sources::Library;
use filrouge_sources::ledger::LedgerSource;
use filrouge_store::Scope;
use tokio::runtime::Handle;

/// What searches are answered with. Nothing of it: everything is looked through.
#[derive(Clone, Default)]
pub struct SearchSettings {
    /// Keeps the index of the ledger.
    pub feed: Option<Arc<LedgerFeed>>,
    /// The indexes of the histories that are answered at `/mcp`.
    pub indexes: Option<Arc<Indexes>>,
    /// Finds what means the like.
    pub embedder: Option<Arc<dyn Embedder>>,
}

impl SearchSettings {
    /// Searches what `scope` sees of the ledger.
    pub(crate) fn of_ledger(&self, engine: &Arc<Engine>, scope: &Scope) -> Searcher {
        self.of_sources(Library::new(Vec::new(), 0), engine, scope)
    }

    /// Searches histories that everybody may read, and what `scope` sees of the ledger.
    pub(crate) fn of_histories(
        &self,
        histories: &Library,
        engine: &Arc<Engine>,
        scope: &Scope,
    ) -> Searcher {
        let searcher = self.of_sources(histories.clone(), engine, scope);
        match &self.indexes {
            Some(indexes) => searcher.with_indexes(indexes.clone()),
            None => searcher,
        }
    }

    fn of_sources(&self, library: Library, engine: &Arc<Engine>, scope: &Scope) -> Searcher {
        let (engine, scope, runtime) = (engine.clone(), scope.clone(), Handle::current());
        let searcher = match &self.feed {
            Some(feed) => Searcher::new(library).with_ledger(LedgerSearch::new(
                engine,
                feed.clone(),
                scope,
                runtime,
            )),
            None => {
                let ledger = LedgerSource::new(engine, scope, runtime);
                Searcher::new(library.with(Arc::new(ledger)))
            }
        };
        searcher.with_embedder(self.embedder.clone())
    }
}
