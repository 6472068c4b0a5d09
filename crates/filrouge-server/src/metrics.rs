//! What `/metrics` tells (OpenMetrics): rates, latencies, what is held, and everything that was refused or
//! dropped (P9). No label holds anything that a caller chose, but for a bounded number of names.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_engine::CallCounts;
use filrouge_engine::spool::SpoolView;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

mod calls;
mod hot;
mod search;
mod spool;

pub(crate) use hot::HotState;
pub(crate) use search::SearchState;

/// Seconds up to which requests are counted together.
const BUCKETS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// A request by what the server knows of it beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    /// The route's template, or `unmatched`.
    route: String,
    /// `2xx` and so on.
    status: &'static str,
}

/// Why something was refused or dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// What form a credential had.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    shape: &'static str,
    /// `masked` or `refused`.
    outcome: &'static str,
}

/// Whose rate was exceeded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubjectLabels {
    subject: &'static str,
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
    pub(crate) unauthenticated: u64,
    pub(crate) runtime_context_dropped: u64,
    pub(crate) runtime_context_lost: u64,
    pub(crate) credentials_masked: Vec<(&'static str, u64)>,
    pub(crate) credentials_refused: Vec<(&'static str, u64)>,
    pub(crate) body_bytes: usize,
    pub(crate) hot: HotState,
    pub(crate) calls: CallCounts,
    pub(crate) spool: SpoolView,
    pub(crate) search: SearchState,
}

/// All counters and gauges of a server.
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    panics: Counter,
    bodies_refused: Family<ReasonLabels, Counter>,
    body_bytes: Gauge,
    rate_limited: Family<SubjectLabels, Counter>,
    pub(crate) connections: Gauge,
    connections_refused: Family<ReasonLabels, Counter>,
    connections_dropped: Family<ReasonLabels, Counter>,
    pub(crate) tail_readers: Gauge,
    tail_drops: Family<ReasonLabels, Counter>,
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
    unauthenticated: Counter,
    hot: hot::HotMetrics,
    calls: calls::CallMetrics,
    spool: spool::SpoolMetrics,
    search: search::SearchMetrics,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("filrouge")),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            in_flight: Gauge::default(),
            panics: Counter::default(),
            bodies_refused: Family::default(),
            body_bytes: Gauge::default(),
            rate_limited: Family::default(),
            connections: Gauge::default(),
            connections_refused: Family::default(),
            connections_dropped: Family::default(),
            tail_readers: Gauge::default(),
            tail_drops: Family::default(),
            runtime_context_dropped: Counter::default(),
            runtime_context_lost: Counter::default(),
            credentials: Family::default(),
            store_read_only: Gauge::default(),
            store_integrity_failed: Gauge::default(),
            anchor_failed: Gauge::default(),
            degraded: Gauge::default(),
            store_commit: Gauge::default(),
            store_statements: Counter::default(),
            store_queued_writes: Gauge::default(),
            unauthenticated: Counter::default(),
            hot: hot::HotMetrics::default(),
            calls: calls::CallMetrics::default(),
            spool: spool::SpoolMetrics::default(),
            search: search::SearchMetrics::default(),
        };
        metrics.register_requests();
        metrics.register_connections();
        metrics.register_store();
        metrics.register_secrets();
        metrics.register(|r| metrics.hot.register(r));
        metrics.register(|r| metrics.calls.register(r));
        metrics.register(|r| metrics.spool.register(r));
        metrics.register(|r| metrics.search.register(r));
        metrics
    }
}

impl Metrics {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers metrics of another part of the server; names get the prefix `filrouge_`, counters the
    /// ending `_total`. Labels must come from the program, never from callers.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry());
    }

    fn register_requests(&self) {
        let mut r = self.registry();
        let answered = "Requests that were answered";
        r.register("http_requests", answered, self.requests.clone());
        let durations = "Time from a request's head to the beginning of its answer";
        r.register_with_unit(
            "http_request_duration",
            durations,
            Unit::Seconds,
            self.durations.clone(),
        );
        let in_flight = "Requests whose answer has not begun";
        r.register("http_requests_in_flight", in_flight, self.in_flight.clone());
        let panics = "Requests that ended by a fault of the program";
        r.register("http_panics", panics, self.panics.clone());
        let refused = "Request bodies that were refused, by reason";
        r.register("http_bodies_refused", refused, self.bodies_refused.clone());
        let held = "Request bodies that are held now";
        r.register_with_unit("http_bodies", held, Unit::Bytes, self.body_bytes.clone());
        let limited = "Requests over a rate, by whose rate it was";
        r.register("rate_limited", limited, self.rate_limited.clone());
    }

    fn register_connections(&self) {
        let mut r = self.registry();
        let open = "Connections that are open";
        r.register("connections", open, self.connections.clone());
        let refused = "Connections that were refused, by reason";
        r.register(
            "connections_refused",
            refused,
            self.connections_refused.clone(),
        );
        let dropped =
            "Connections that were given up because the peer was too slow, by what it was slow in";
        r.register(
            "connections_dropped",
            dropped,
            self.connections_dropped.clone(),
        );
        let readers = "Streams that are open";
        r.register("tail_readers", readers, self.tail_readers.clone());
        let drops = "Streams that the server ended, by reason";
        r.register("tail_drops", drops, self.tail_drops.clone());
    }

    fn register_store(&self) {
        let mut r = self.registry();
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
        let refused = "Requests without valid credentials";
        r.register("unauthenticated", refused, self.unauthenticated.clone());
    }

    fn register_secrets(&self) {
        let mut r = self.registry();
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

    /// Counts a request until the answer begins.
    pub(crate) fn enter(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A request was answered.
    pub(crate) fn answered(
        &self,
        method: &'static str,
        route: &str,
        status: u16,
        duration: Duration,
    ) {
        let labels = RequestLabels {
            method,
            route: route.to_owned(),
            status: status_class(status),
        };
        self.requests.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&labels)
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    pub(crate) fn body_refused(&self, reason: &'static str) {
        let labels = ReasonLabels { reason };
        self.bodies_refused.get_or_create(&labels).inc();
    }

    pub(crate) fn rate_limited(&self, subject: &'static str) {
        let labels = SubjectLabels { subject };
        self.rate_limited.get_or_create(&labels).inc();
    }

    pub(crate) fn connection_refused(&self, reason: &'static str) {
        let labels = ReasonLabels { reason };
        self.connections_refused.get_or_create(&labels).inc();
    }

    pub(crate) fn connection_dropped(&self, reason: &'static str) {
        let labels = ReasonLabels { reason };
        self.connections_dropped.get_or_create(&labels).inc();
    }

    /// A stream was ended by the server, for one of a fixed set of reasons.
    pub fn tail_dropped(&self, reason: &'static str) {
        let labels = ReasonLabels { reason };
        self.tail_drops.get_or_create(&labels).inc();
    }

    /// The text of a scrape.
    ///
    /// # Errors
    /// When a metric cannot be written.
    pub(crate) fn render(&self, store: StoreState) -> Result<String, fmt::Error> {
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
        self.body_bytes.set(whole(store.body_bytes as u64));
        self.store_queued_writes.set(whole(store.queued_writes));
        for (counter, count) in [
            (&self.runtime_context_dropped, store.runtime_context_dropped),
            (&self.runtime_context_lost, store.runtime_context_lost),
            (&self.store_statements, store.statements),
            (&self.unauthenticated, store.unauthenticated),
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
        let mut out = String::new();
        text::encode(&mut out, &self.registry())?;
        Ok(out)
    }
}

/// A request that is under way.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

const fn status_class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_tells_what_was_counted() {
        let metrics = Metrics::default();
        let extra = Counter::<u64>::default();
        metrics.register(|r| r.register("deliveries", "Sent", extra.clone()));
        extra.inc();
        metrics.answered("GET", "/a/{b}", 204, Duration::from_millis(3));
        metrics.tail_dropped("slow");
        let under_way = metrics.enter();
        let text = metrics
            .render(StoreState {
                anchor: true,
                commit: 7,
                ..StoreState::default()
            })
            .unwrap();
        drop(under_way);
        for line in [
            r#"filrouge_http_requests_total{method="GET",route="/a/{b}",status="2xx"} 1"#,
            r#"filrouge_http_request_duration_seconds_count{method="GET",route="/a/{b}",status="2xx"} 1"#,
            r#"filrouge_tail_drops_total{reason="slow"} 1"#,
            "filrouge_http_requests_in_flight 1",
            "filrouge_deliveries_total 1",
            "filrouge_degraded 1",
            "filrouge_store_commit 7",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
