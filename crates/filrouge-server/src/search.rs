//! The settings of searches, and the searchers that use them.

use std::sync::Arc;

use filrouge_engine::{Caller, Engine};
use filrouge_search::embed::Embedder;
use filrouge_search::feed::Indexes;
use filrouge_search::ledger::LedgerFeed;
use filrouge_search::{LedgerSearch, Searcher};
use filrouge_sources::Library;
use tokio::runtime::Handle;

/// The parts that searches use; each is optional. Without indexes, a search scans everything.
#[derive(Clone, Default)]
pub struct SearchSettings {
    /// Keeps the index of the ledger up to date.
    pub feed: Option<Arc<LedgerFeed>>,
    /// The indexes of the histories that `/mcp` serves.
    pub indexes: Option<Arc<Indexes>>,
    /// Computes vectors, for searches by meaning.
    pub embedder: Option<Arc<dyn Embedder>>,
}

impl SearchSettings {
    /// Returns a searcher over the part of the ledger that `caller` may read.
    pub(crate) fn ledger_searcher(&self, engine: &Arc<Engine>, caller: &Caller) -> Searcher {
        self.searcher_over(Library::new(Vec::new(), 0), engine, caller)
    }

    /// Returns a searcher over `histories`, which every caller may read, and over the part of the ledger that `caller`
    /// may read.
    pub(crate) fn histories_searcher(
        &self,
        histories: &Library,
        engine: &Arc<Engine>,
        caller: &Caller,
    ) -> Searcher {
        let searcher = self.searcher_over(histories.clone(), engine, caller);
        match &self.indexes {
            Some(indexes) => searcher.with_indexes(indexes.clone()),
            None => searcher,
        }
    }

    fn searcher_over(&self, library: Library, engine: &Arc<Engine>, caller: &Caller) -> Searcher {
        let (feed, runtime) = (self.feed.clone(), Handle::current());
        let ledger = LedgerSearch::new(engine.clone(), feed, caller.clone(), runtime);
        let searcher = Searcher::new(library).with_ledger(ledger);
        searcher.with_embedder(self.embedder.clone())
    }
}
