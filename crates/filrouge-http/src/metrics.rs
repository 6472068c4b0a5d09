//! Metrics of the HTTP layer in the OpenMetrics format: requests, connections, and everything that was refused or
//! dropped (P9). No label contains a value that a caller chose.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use filrouge_types::lock;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

/// The upper bounds of the buckets of the histogram of durations, in seconds.
const BUCKETS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// Names of labels with their values.
type Labels = Vec<(&'static str, String)>;

/// The layer's metrics, and the registry to which other parts of the server add theirs.
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    pub(crate) in_flight: Gauge,
    pub(crate) panics: Counter,
    bodies_refused: Family<Labels, Counter>,
    body_bytes: Gauge,
    rate_limited: Family<Labels, Counter>,
    pub(crate) connections: Gauge,
    connections_refused: Family<Labels, Counter>,
    connections_dropped: Family<Labels, Counter>,
    pub(crate) tail_readers: Gauge,
    tail_drops: Family<Labels, Counter>,
    unauthenticated: Counter,
}

/// Registers a new metric, whose value is zero.
fn register<M: Metric + Default + Clone>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("filrouge");
        let new_histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let durations = Family::new_with_constructor(new_histogram);
        let help = "Time from a request's head to the beginning of its answer";
        let name = "http_request_duration";
        registry.register_with_unit(name, help, Unit::Seconds, durations.clone());
        let body_bytes = Gauge::default();
        let help = "Size of the request bodies in memory";
        registry.register_with_unit("http_bodies", help, Unit::Bytes, body_bytes.clone());
        let r = &mut registry;
        let dropped = "Connections that were dropped because the peer was too slow, by phase";
        Self {
            requests: register(r, "http_requests", "Requests that were answered"),
            durations,
            in_flight: register(
                r,
                "http_requests_in_flight",
                "Requests whose answer has not begun",
            ),
            panics: register(r, "http_panics", "Requests that ended in a panic"),
            bodies_refused: register(
                r,
                "http_bodies_refused",
                "Request bodies that were refused, by reason",
            ),
            body_bytes,
            rate_limited: register(
                r,
                "rate_limited",
                "Requests that exceeded a rate, by the rate's subject",
            ),
            connections: register(r, "connections", "Connections that are open"),
            connections_refused: register(
                r,
                "connections_refused",
                "Connections that were refused, by reason",
            ),
            connections_dropped: register(r, "connections_dropped", dropped),
            tail_readers: register(r, "tail_readers", "Streams that are open"),
            tail_drops: register(r, "tail_drops", "Streams that the server ended, by reason"),
            unauthenticated: register(r, "unauthenticated", "Requests without valid credentials"),
            registry: Mutex::new(registry),
        }
    }
}

impl Metrics {
    /// Registers a metric of another part of the server, whose value is zero. Its name gets the prefix `filrouge_`, and
    /// if it is a counter, also the suffix `_total`. Values of labels must come from the program, never from callers.
    pub fn register<M: Metric + Default + Clone>(&self, name: &str, help: &str) -> M {
        register(&mut lock(&self.registry), name, help)
    }

    /// Counts a request whose response begins. `route` is the route's template, never the path.
    pub(crate) fn count_response(
        &self,
        method: &'static str,
        route: &str,
        status: u16,
        duration: Duration,
    ) {
        let status = format!("{}xx", status / 100);
        let labels = vec![
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status),
        ];
        self.requests.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&labels)
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn count_refused_body(&self, reason: &'static str) {
        count(&self.bodies_refused, "reason", reason);
    }

    pub(crate) fn count_rate_limited(&self, subject: &'static str) {
        count(&self.rate_limited, "subject", subject);
    }

    pub(crate) fn count_refused_connection(&self, reason: &'static str) {
        count(&self.connections_refused, "reason", reason);
    }

    pub(crate) fn count_dropped_connection(&self, reason: &'static str) {
        count(&self.connections_dropped, "reason", reason);
    }

    /// Counts a stream that the server ended. `reason` is one of a fixed set of words.
    pub fn count_dropped_tail(&self, reason: &'static str) {
        count(&self.tail_drops, "reason", reason);
    }

    /// Returns the text of a scrape: these metrics, and after them those of `other`. `body_bytes` is the size of all request
    /// bodies in memory now, `refused` the number of requests without valid credentials so far.
    ///
    /// # Errors
    /// If a metric cannot be encoded.
    pub fn encode(
        &self,
        body_bytes: usize,
        refused: u64,
        other: &Registry,
    ) -> Result<String, fmt::Error> {
        let in_memory = i64::try_from(body_bytes).unwrap_or(i64::MAX);
        self.body_bytes.set(in_memory);
        let unauthenticated = self.unauthenticated.inner();
        unauthenticated.store(refused, Ordering::Relaxed);
        let mut out = String::new();
        text::encode_registry(&mut out, &lock(&self.registry))?;
        text::encode(&mut out, other)?;
        Ok(out)
    }
}

fn count(family: &Family<Labels, Counter>, label: &'static str, value: &str) {
    family.get_or_create(&vec![(label, value.to_owned())]).inc();
}

/// Something that a gauge counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_what_was_counted() {
        let metrics = Metrics::default();
        let deliveries: Counter = metrics.register("deliveries", "Sent");
        deliveries.inc();
        metrics.count_response("GET", "/a/{b}", 204, Duration::from_millis(3));
        metrics.count_dropped_tail("slow");
        let in_flight = Counted::new(&metrics.in_flight);
        let text = metrics.encode(5, 2, &Registry::default()).unwrap();
        drop(in_flight);
        for line in [
            r#"filrouge_http_requests_total{method="GET",route="/a/{b}",status="2xx"} 1"#,
            r#"filrouge_http_request_duration_seconds_count{method="GET",route="/a/{b}",status="2xx"} 1"#,
            r#"filrouge_tail_drops_total{reason="slow"} 1"#,
            "filrouge_http_requests_in_flight 1",
            "filrouge_deliveries_total 1",
            "filrouge_http_bodies_bytes 5",
            "filrouge_unauthenticated_total 2",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
