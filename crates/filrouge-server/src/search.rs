//! How this server searches: by the ledger's index, where it keeps one.

use std::sync::Arc;

use filrouge_engine::{Caller, Engine};
use filrouge_search::embed::Embedder;
use filrouge_search::feed::Indexes;
use filrouge_search::ledger::LedgerFeed;
use filrouge_search::{LedgerSearch, Searcher};
use filrouge_sources::Library;
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
    /// Searches what `caller` sees of the ledger.
    pub(crate) fn of_ledger(&self, engine: &Arc<Engine>, caller: &Caller) -> Searcher {
        self.of_sources(Library::new(Vec::new(), 0), engine, caller)
    }

    /// Searches histories that everybody may read, and what `caller` sees of the ledger.
    pub(crate) fn of_histories(
        &self,
        histories: &Library,
        engine: &Arc<Engine>,
        caller: &Caller,
    ) -> Searcher {
        let searcher = self.of_sources(histories.clone(), engine, caller);
        match &self.indexes {
            Some(indexes) => searcher.with_indexes(indexes.clone()),
            None => searcher,
        }
    }

    fn of_sources(&self, library: Library, engine: &Arc<Engine>, caller: &Caller) -> Searcher {
        let (feed, runtime) = (self.feed.clone(), Handle::current());
        let ledger = LedgerSearch::new(engine.clone(), feed, caller.clone(), runtime);
        let searcher = Searcher::new(library).with_ledger(ledger);
        searcher.with_embedder(self.embedder.clone())
    }
}
