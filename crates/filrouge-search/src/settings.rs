//! The settings of searches, and the searchers that use them.

use std::sync::Arc;

use filrouge_engine::{Caller, Engine};
use filrouge_sources::Library;
use tokio::runtime::Handle;

use crate::embed::Embedder;
use crate::feed::Indexes;
use crate::ledger::LedgerFeed;
use crate::{LedgerSearch, Searcher, SimilarTurns};

/// The parts that searches use; each is optional. Without indexes, a search scans everything.
#[derive(Clone, Default)]
pub struct SearchSettings {
    /// Keeps the index of the ledger up to date.
    pub feed: Option<Arc<LedgerFeed>>,
    /// The indexes of the histories that a server serves besides the ledger.
    pub indexes: Option<Arc<Indexes>>,
    /// Computes vectors, for searches by meaning.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Names similar turns, by vectors of the same embedder.
    pub similar_turns: Option<Arc<dyn SimilarTurns>>,
}

impl SearchSettings {
    /// Returns a searcher over `library`, which every caller may read, and over the part of the ledger that `caller` may
    /// read. It uses no indexes of the library. The calling thread must be in a Tokio runtime.
    pub fn searcher(&self, library: Library, engine: &Arc<Engine>, caller: &Caller) -> Searcher {
        let (feed, runtime) = (self.feed.clone(), Handle::current());
        let ledger = LedgerSearch::new(engine.clone(), feed, caller.clone(), runtime);
        let searcher = Searcher::new(library).with_ledger(ledger);
        let searcher = searcher.with_embedder(self.embedder.clone());
        searcher.with_similar_turns(self.similar_turns.clone())
    }
}
