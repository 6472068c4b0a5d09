//! What is counted of webhooks; their names are the configuration's.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use filrouge_http::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    webhook: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabels {
    webhook: String,
}

/// The counters of all webhooks.
pub(super) struct Counters {
    deliveries: Family<DeliveryLabels, Counter>,
    dead: Family<WebhookLabels, Counter>,
    lag: Family<WebhookLabels, Gauge>,
}

impl Counters {
    pub(super) fn registered(metrics: &Metrics) -> Self {
        let sent = "Messages to receivers of webhooks, by how they ended";
        let dead = "Batches that were given up after all attempts";
        Self {
            deliveries: metrics.put("webhook_deliveries", sent),
            dead: metrics.put("webhook_dead_letters", dead),
            lag: metrics.put("webhook_lag_commits", "Commits that were not looked at yet"),
        }
    }

    pub(super) fn of(&self, webhook: &str) -> WebhookCounters {
        let labels = WebhookLabels {
            webhook: webhook.to_owned(),
        };
        WebhookCounters {
            dead: self.dead.get_or_create(&labels).clone(),
            lag: self.lag.get_or_create(&labels).clone(),
            deliveries: self.deliveries.clone(),
            webhook: labels.webhook,
        }
    }
}

/// The counters of one webhook.
pub(super) struct WebhookCounters {
    webhook: String,
    deliveries: Family<DeliveryLabels, Counter>,
    pub(super) dead: Counter,
    lag: Gauge,
}

impl WebhookCounters {
    /// A message ended so.
    pub(super) fn sent(&self, outcome: &'static str) {
        let labels = DeliveryLabels {
            webhook: self.webhook.clone(),
            outcome,
        };
        self.deliveries.get_or_create(&labels).inc();
    }

    /// So many commits are yet to be looked at.
    pub(super) fn lag(&self, commits: u64) {
        self.lag.set(i64::try_from(commits).unwrap_or(i64::MAX));
    }
}
