//! What `/metrics` tells of the index of the ledger (DESIGN §10).

use std::sync::atomic::Ordering;

use filrouge_search::ledger::FeedCounts;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How the feed of the index is at the moment of a scrape; all zero where there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchState {
    /// Whether its last step was made.
    pub(crate) up: bool,
    /// Whether there is an index that is not kept in step.
    pub(crate) failing: bool,
    pub(crate) counts: FeedCounts,
}

/// Counters and gauges of the feed.
#[derive(Debug, Default)]
pub(super) struct SearchMetrics {
    up: Gauge,
    behind: Gauge,
    documents: Counter,
    sessions: Counter,
    unreadable: Counter,
    forgotten: Counter,
    errors: Counter,
}

impl SearchMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let up = "1 when the search index of the ledger is kept in step";
        r.register("search_index_up", up, self.up.clone());
        let behind = "Commits that the search index does not know yet";
        r.register("search_index_behind_commits", behind, self.behind.clone());
        for (name, help, counter) in [
            (
                "search_index_documents",
                "Messages and titles that were put into the search index",
                &self.documents,
            ),
            (
                "search_index_sessions",
                "Sessions that were read for the search index, whole or in part",
                &self.sessions,
            ),
            (
                "search_index_unreadable",
                "Sessions that could not be read for the search index",
                &self.unreadable,
            ),
            (
                "search_index_forgotten",
                "Redactions and erasures by others that the search index was told of afterwards",
                &self.forgotten,
            ),
            (
                "search_index_errors",
                "Steps of the search index that failed",
                &self.errors,
            ),
        ] {
            r.register(name, help, counter.clone());
        }
    }

    pub(super) fn set(&self, state: &SearchState) {
        let counts = &state.counts;
        self.up.set(state.up.into());
        let behind = i64::try_from(counts.behind).unwrap_or(i64::MAX);
        self.behind.set(behind);
        for (counter, count) in [
            (&self.documents, counts.documents),
            (&self.sessions, counts.sessions),
            (&self.unreadable, counts.unreadable),
            (&self.forgotten, counts.forgotten),
            (&self.errors, counts.failed),
        ] {
            counter.inner().store(count, Ordering::Relaxed);
        }
    }
}
