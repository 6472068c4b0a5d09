//! Webhooks: the change feed, delivered over HTTP to configured receivers (DESIGN §10).
//!
//! Batches of changes are delivered in order, one at a time, at least once. A note in the store contains the position
//! that the receiver has confirmed, so that any process that serves the store continues where another one stopped. Of
//! several such processes, one sends at a time.

use std::sync::Arc;

use filrouge_engine::backoff::Backoff;
use filrouge_engine::notes::new_holder;
use filrouge_store::{Ledger, OsEntropy};
use filrouge_types::SystemClock;
use tokio::sync::watch;
use tokio::task::JoinSet;

mod address;
mod batch;
mod claim;
mod counters;
mod dead_letters;
mod message;
mod redelivery;
mod secret;
mod sender;
mod settings;
mod state;
mod status;
mod worker;

#[cfg(test)]
mod tests;

pub use address::{WebhookName, WebhookNameError, WebhookUrl, WebhookUrlError};
pub use secret::{SecretError, WebhookSecret, WebhookSecrets};
pub use settings::{WebhookFeed, WebhookSettings, WebhookStart};
pub use status::{DeadLetter, WebhookAction, WebhookStatus, change_webhook, webhook_status};

use counters::Counters;
use filrouge_http::Metrics;
use sender::HttpSender;
use worker::Worker;

/// Why webhooks cannot be delivered.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The HTTPS client cannot be created, for example because the system's certificates cannot be read.
    #[error("no HTTPS client: {0}")]
    Client(#[from] reqwest::Error),
    /// Random numbers are not available.
    #[error("no randomness: {0}")]
    Entropy(String),
}

/// The webhooks of a server, before they start.
#[derive(Default)]
pub struct Webhooks {
    webhooks: Vec<(WebhookSettings, HttpSender)>,
    /// The name of this process in claims.
    holder: String,
}

impl Webhooks {
    /// Prepares the configured webhooks.
    ///
    /// # Errors
    /// [`WebhookError`].
    pub fn new(settings: Vec<WebhookSettings>) -> Result<Self, WebhookError> {
        let mut webhooks = Vec::with_capacity(settings.len());
        for webhook in settings {
            let sender = HttpSender::new(&webhook.url, webhook.timeout)?;
            webhooks.push((webhook, sender));
        }
        let holder = new_holder(&OsEntropy).map_err(|e| WebhookError::Entropy(e.detail))?;
        Ok(Self { webhooks, holder })
    }

    /// What each webhook reports.
    pub(crate) fn feeds(&self) -> Vec<WebhookFeed> {
        let webhooks = self.webhooks.iter();
        webhooks
            .map(|(settings, _)| settings.feed.clone())
            .collect()
    }

    /// Starts one task per webhook, which delivers until `stopping` becomes true. A message in progress then gets a few
    /// seconds to finish.
    pub(crate) fn start(
        self,
        ledger: &Arc<dyn Ledger>,
        metrics: &Metrics,
        stopping: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if self.webhooks.is_empty() {
            return tasks;
        }
        let counters = Counters::register(metrics);
        for (settings, sender) in self.webhooks {
            let worker = Worker {
                counters: counters.for_webhook(settings.feed.name.as_str()),
                settings,
                ledger: ledger.clone(),
                sender,
                clock: Arc::new(SystemClock),
                backoff: Backoff::new(Arc::new(OsEntropy)),
                holder: self.holder.clone(),
                position: None,
                last_failure: None,
            };
            tasks.spawn(worker.run(stopping.clone()));
        }
        tasks
    }
}
