//! What `/metrics` reports of the store and what stands around it.

use std::sync::atomic::Ordering;

use filrouge_engine::CallCounts;
use filrouge_engine::spool::SpoolView;
use filrouge_http::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

mod calls;
mod hot;
mod search;
mod spool;

pub(crate) use hot::HotState;
pub(crate) use search::SearchState;

/// What form a credential had.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    shape: &'static str,
    /// `masked` or `refused`.
    outcome: &'static str,
}

/// How the store is at the moment of a scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreState {
    pub(crate) read_only: bool,
    pub(crate) integrity: bool,
    pub(crate) anchor: bool,
    pub(crate) commit: u64,
    pub(crate) statements: u64,
    pub(crate) queued_writes: u64,
    pub(crate) runtime_context_dropped: u64,
    pub(crate) runtime_context_lost: u64,
    pub(crate) credentials_masked: Vec<(&'static str, u64)>,
    pub(crate) credentials_refused: Vec<(&'static str, u64)>,
    pub(crate) hot: HotState,
    pub(crate) calls: CallCounts,
    pub(crate) spool: SpoolView,
    pub(crate) search: SearchState,
}

/// Counters and gauges of the store and what stands around it, set at each scrape.
#[derive(Default)]
pub(crate) struct StoreMetrics {
    runtime_context_dropped: Counter,
    runtime_context_lost: Counter,
    credentials: Family<CredentialLabels, Counter>,
    store_read_only: Gauge,
    store_integrity_failed: Gauge,
    anchor_failed: Gauge,
    degraded: Gauge,
    store_commit: Gauge,
    store_statements: Counter,
    store_queued_writes: Gauge,
    hot: hot::HotMetrics,
    calls: calls::CallMetrics,
    spool: spool::SpoolMetrics,
    search: search::SearchMetrics,
}

impl StoreMetrics {
    /// All at nought, with their names in the registry.
    pub(crate) fn registered(metrics: &Metrics) -> Self {
        let all = Self::default();
        metrics.register(|r| {
            all.register_store(r);
            all.register_secrets(r);
            all.hot.register(r);
            all.calls.register(r);
            all.spool.register(r);
            all.search.register(r);
        });
        all
    }

    fn register_store(&self, r: &mut Registry) {
        let states = [
            (
                "store_read_only",
                "1 when the store takes no writes",
                &self.store_read_only,
            ),
            (
                "store_integrity_failed",
                "1 when the store is known not to be what was written",
                &self.store_integrity_failed,
            ),
            (
                "anchor_failed",
                "1 when the anchor cannot be advanced",
                &self.anchor_failed,
            ),
            ("degraded", "1 when /readyz says degraded", &self.degraded),
            (
                "store_commit",
                "Number of the newest durable commit",
                &self.store_commit,
            ),
            (
                "store_queued_writes",
                "Writes that wait for their turn",
                &self.store_queued_writes,
            ),
        ];
        for (name, help, gauge) in states {
            r.register(name, help, gauge.clone());
        }
        let statements = "Statements put to the store";
        r.register(
            "store_statements",
            statements,
            self.store_statements.clone(),
        );
    }

    fn register_secrets(&self, r: &mut Registry) {
        let forgotten = "Members of runtime_context that were forgotten";
        r.register(
            "runtime_context_dropped",
            forgotten,
            self.runtime_context_dropped.clone(),
        );
        let lost = "Values of runtime_context that could not be held to be masked";
        let counter = self.runtime_context_lost.clone();
        r.register("runtime_context_lost", lost, counter);
        let met = "Credentials that were masked, or that writes were refused for, by shape";
        r.register("credentials", met, self.credentials.clone());
    }

    /// Takes over how everything is.
    pub(crate) fn set(&self, store: StoreState) {
        let hot_down = store.hot.there && !store.hot.up;
        let waits = store.spool.entries > 0 || store.spool.down.is_some();
        let broken = store.read_only || store.integrity || store.anchor;
        let degraded = broken || hot_down || waits || store.search.failing;
        self.hot.set(&store.hot);
        self.calls.set(&store.calls);
        self.spool.set(&store.spool);
        self.search.set(&store.search);
        self.store_read_only.set(store.read_only.into());
        self.store_integrity_failed.set(store.integrity.into());
        self.anchor_failed.set(store.anchor.into());
        self.degraded.set(degraded.into());
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.store_commit.set(whole(store.commit));
        self.store_queued_writes.set(whole(store.queued_writes));
        for (counter, count) in [
            (&self.runtime_context_dropped, store.runtime_context_dropped),
            (&self.runtime_context_lost, store.runtime_context_lost),
            (&self.store_statements, store.statements),
        ] {
            counter.inner().store(count, Ordering::Relaxed);
        }
        for (outcome, counts) in [
            ("masked", store.credentials_masked),
            ("refused", store.credentials_refused),
        ] {
            for (shape, count) in counts {
                let labels = CredentialLabels { shape, outcome };
                let counter = self.credentials.get_or_create(&labels);
                counter.inner().store(count, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_is_degraded() {
        let registry = Metrics::default();
        let metrics = StoreMetrics::registered(&registry);
        let degraded = |state| {
            metrics.set(state);
            metrics.degraded.get()
        };
        assert_eq!(degraded(StoreState::default()), 0);
        let anchor = StoreState {
            anchor: true,
            commit: 7,
            ..StoreState::default()
        };
        assert_eq!(degraded(anchor), 1);
        assert_eq!(metrics.store_commit.get(), 7);
        let spool = SpoolView {
            entries: 1,
            ..SpoolView::default()
        };
        let waits = StoreState {
            spool,
            ..StoreState::default()
        };
        assert_eq!(degraded(waits), 1);
    }
}
