//! A webhook as it is configured.

use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_store::read::ChangeKind;
use filrouge_types::TenantId;

use super::address::{WebhookName, WebhookUrl};
use super::secret::WebhookSecrets;

/// Where a webhook begins that the store does not know yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebhookStart {
    /// After the newest commit: the past is not sent.
    #[default]
    Newest,
    /// With the store's first commit.
    Beginning,
}

/// What a webhook reports.
#[derive(Debug, Clone)]
pub struct WebhookFeed {
    /// Names it and its notes; a webhook under another name begins anew.
    pub name: WebhookName,
    /// Whose changes.
    pub tenant: TenantId,
    /// Which changes; `None` for all.
    pub kinds: Option<Vec<ChangeKind>>,
    /// Most changes of one message.
    pub batch: usize,
}

/// A webhook as it is configured.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// What it reports.
    pub feed: WebhookFeed,
    /// The receiver.
    pub url: WebhookUrl,
    /// What messages are signed with; several while one takes the place of another.
    pub secrets: WebhookSecrets,
    /// How long the receiver may take to answer one.
    pub timeout: Duration,
    /// The number of attempts after which a batch goes to the dead letters.
    pub max_attempts: NonZeroU32,
    /// Where it begins.
    pub from: WebhookStart,
}
