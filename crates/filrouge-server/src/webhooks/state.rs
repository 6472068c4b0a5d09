//! The state of a webhook, stored in the note "webhook/NAME".

use filrouge_engine::notes::Claim;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{Failure, Timestamp};
use serde::{Deserialize, Serialize};

use super::WebhookName;

/// The state of a webhook that all processes of a store share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// The position in the feed: all changes before it were delivered, or are among the dead letters.
    pub(super) cursor: String,
    /// The process that sends now.
    pub(super) claim: Option<Claim>,
    /// Set while the batch after the cursor is refused: the end of the batch, and when it is sent again.
    pub(super) retry: Option<PendingRetry>,
    /// When the receiver permanently refused messages.
    pub(super) disabled_at: Option<Timestamp>,
    /// Whether to send the dead letters again.
    pub(super) redeliver: bool,
    /// The number of refused messages since the last delivered one.
    pub(super) failures: u64,
    /// The reason of the newest refusal.
    pub(super) last_error: Option<String>,
}

/// A batch to retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PendingRetry {
    /// The end of the batch, so that every attempt sends the same changes.
    pub(super) next_cursor: String,
    pub(super) attempts: u32,
    pub(super) at: Timestamp,
}

impl State {
    pub(super) fn starting_at(at: &ChangeCursor) -> Self {
        Self {
            cursor: at.to_string(),
            ..Self::default()
        }
    }

    pub(super) fn parse_cursor(&self) -> Result<ChangeCursor, Failure> {
        self.cursor.parse()
    }

    /// Records a delivered message. `claim` is a new claim of its sender, which may send the next message.
    pub(super) fn record_delivery(&mut self, claim: Claim) {
        self.claim = Some(claim);
        self.failures = 0;
        self.last_error = None;
    }

    /// Returns the claim, if there is one that is valid at `now`.
    pub(super) fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.is_live(now))
    }
}

pub(super) fn note_name(webhook: &WebhookName) -> String {
    format!("webhook/{webhook}")
}
