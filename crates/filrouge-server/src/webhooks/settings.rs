//! The configuration of a webhook.

use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_store::read::ChangeKind;
use filrouge_types::TenantId;

use super::address::{WebhookName, WebhookUrl};
use super::secret::WebhookSecrets;

/// The position in the feed at which a webhook begins if the store has no note of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebhookStart {
    /// After the newest commit: earlier changes are not sent.
    #[default]
    Newest,
    /// Before the store's first commit: all changes are sent.
    Beginning,
}

/// The changes that a webhook reports.
#[derive(Debug, Clone)]
pub struct WebhookFeed {
    /// The name of the webhook, which is part of the names of its notes. A webhook that gets another name begins anew.
    pub name: WebhookName,
    /// The tenant whose changes are reported.
    pub tenant: TenantId,
    /// The kinds of changes that are reported; `None` for all.
    pub kinds: Option<Vec<ChangeKind>>,
    /// The maximum number of changes in one message.
    pub batch: usize,
}

/// The configuration of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The changes that the webhook reports.
    pub feed: WebhookFeed,
    /// The receiver.
    pub url: WebhookUrl,
    /// The secrets that sign messages; several during a rotation.
    pub secrets: WebhookSecrets,
    /// How long the receiver may take to respond to a message.
    pub timeout: Duration,
    /// The number of attempts after which a batch becomes a dead letter.
    pub max_attempts: NonZeroU32,
    /// The position at which the webhook begins if the store has no note of it.
    pub from: WebhookStart,
}
