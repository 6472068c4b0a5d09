//! The metrics of webhooks. The names in their labels come from the configuration, so their number is limited.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use filrouge_http::Metrics;

/// The names and values of a metric's labels.
type Labels = Vec<(&'static str, String)>;

/// The counters of all webhooks.
pub(super) struct Counters {
    deliveries: Family<Labels, Counter>,
    dead_letters: Family<Labels, Counter>,
    lag: Family<Labels, Gauge>,
}

impl Counters {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let deliveries_help = "Messages to receivers of webhooks, by how they ended";
        let dead_help = "Batches that were abandoned after all attempts";
        Self {
            deliveries: metrics.register("webhook_deliveries", deliveries_help),
            dead_letters: metrics.register("webhook_dead_letters", dead_help),
            lag: metrics.register("webhook_lag_commits", "Commits that were not examined yet"),
        }
    }

    pub(super) fn for_webhook(&self, webhook: &str) -> WebhookCounters {
        let labels = vec![("webhook", webhook.to_owned())];
        WebhookCounters {
            dead_letters: self.dead_letters.get_or_create(&labels).clone(),
            lag: self.lag.get_or_create(&labels).clone(),
            deliveries: self.deliveries.clone(),
            labels,
        }
    }
}

/// The counters of one webhook.
pub(super) struct WebhookCounters {
    labels: Labels,
    deliveries: Family<Labels, Counter>,
    pub(super) dead_letters: Counter,
    lag: Gauge,
}

impl WebhookCounters {
    /// Counts a message with this outcome.
    pub(super) fn count_message(&self, outcome: &str) {
        let outcome = ("outcome", outcome.to_owned());
        let labels = [&self.labels[..], &[outcome]].concat();
        self.deliveries.get_or_create(&labels).inc();
    }

    /// Sets the number of commits that the webhook has not examined yet.
    pub(super) fn set_lag(&self, commits: u64) {
        self.lag.set(i64::try_from(commits).unwrap_or(i64::MAX));
    }
}
