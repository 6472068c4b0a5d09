//! The configuration of a webhook.

use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_store::read::ChangeKind;
use filrouge_types::TenantId;

use super::address::{WebhookName, WebhookUrl};
use super::secret::WebhookSecrets;

/// The position at which a webhook that is new to the store begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebhookStart {
    /// After the newest commit: earlier changes are not sent.
    #[default]
    Newest,
    /// With the store's first commit.
    Beginning,
}

/// The changes that a webhook reports.
#[derive(Debug, Clone)]
pub struct WebhookFeed {
    /// Names it and its notes; a webhook under another name is a new one.
    pub name: WebhookName,
    /// The tenant whose changes it reports.
    pub tenant: TenantId,
    /// The kinds of changes; `None` for all.
    pub kinds: Option<Vec<ChangeKind>>,
    /// The maximum number of changes in one message.
    pub batch: usize,
}

/// The configuration of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The changes that it reports.
    pub feed: WebhookFeed,
    /// The receiver.
    pub url: WebhookUrl,
    /// The secrets that sign messages; several during a rotation.
    pub secrets: WebhookSecrets,
    /// How long the receiver may take to respond to a message.
    pub timeout: Duration,
    /// The number of attempts after which a batch becomes a dead letter.
    pub max_attempts: NonZeroU32,
    /// The position at which it begins if it is new to the store.
    pub from: WebhookStart,
}
