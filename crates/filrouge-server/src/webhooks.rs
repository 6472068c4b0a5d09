//! Webhooks: the change feed, delivered over HTTP to configured receivers (DESIGN §10).
//!
//! Batches of changes are delivered in order, one at a time, at least once. A note in the store contains the position
//! that the receiver has confirmed, so that any process that serves the store continues where another one stopped. Of
//! several such processes, one sends at a time.

use std::sync::Arc;

use filrouge_store::{Ledger, OsEntropy};
use filrouge_types::SystemClock;
use tokio::sync::watch;
use tokio::task::JoinSet;

mod address;
mod backoff;
mod batch;
mod claim;
mod counters;
mod dead;
mod message;
mod post;
mod redelivery;
mod secret;
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

use backoff::Backoff;
use counters::Counters;
use filrouge_http::Metrics;
use post::HttpPost;
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
    all: Vec<(WebhookSettings, HttpPost)>,
    /// The name of this process in claims.
    holder: String,
}

impl Webhooks {
    /// Prepares the configured webhooks.
    ///
    /// # Errors
    /// [`WebhookError`].
    pub fn new(settings: Vec<WebhookSettings>) -> Result<Self, WebhookError> {
        let mut all = Vec::with_capacity(settings.len());
        for webhook in settings {
            let post = HttpPost::new(&webhook.url, webhook.timeout)?;
            all.push((webhook, post));
        }
        let holder = state::new_holder(&OsEntropy).map_err(|e| WebhookError::Entropy(e.detail))?;
        Ok(Self { all, holder })
    }

    /// Starts one task per webhook, which delivers until `stopping` becomes true. A message in progress then gets a few
    /// seconds to finish.
    pub(crate) fn start(
        self,
        ledger: &Arc<dyn Ledger>,
        metrics: &Metrics,
        stopping: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let mut all = JoinSet::new();
        if self.all.is_empty() {
            return all;
        }
        let counters = Counters::registered(metrics);
        for (settings, post) in self.all {
            let worker = Worker {
                counters: counters.of(settings.feed.name.as_str()),
                settings,
                ledger: ledger.clone(),
                post,
                clock: Arc::new(SystemClock),
                backoff: Backoff::new(Arc::new(OsEntropy)),
                holder: self.holder.clone(),
                position: None,
                failing: None,
            };
            all.spawn(worker.run(stopping.clone()));
        }
        all
    }
}
