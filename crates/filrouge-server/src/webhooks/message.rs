//! Builds a message to a receiver. Every attempt to deliver the same changes has the same message id.

use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::WebhookSettings;
use super::batch::Batch;
use filrouge_store::read::SessionChange;

/// The parts of a request to a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: String,
    /// The time of this attempt, in seconds since 1970.
    pub(super) timestamp: i64,
    pub(super) signature: String,
    pub(super) body: Vec<u8>,
}

#[derive(Serialize)]
struct Body<'a> {
    webhook: &'a str,
    data: &'a [SessionChange],
    next_cursor: String,
}

/// Returns the id of a message: for the same changes, it is the same in every process that serves the store.
fn message_id(store: &str, webhook: &str, changes: &[SessionChange]) -> String {
    let mut hash = Sha256::new();
    let first_and_last = [changes.first(), changes.last()];
    let first_and_last = first_and_last.map(|end| end.map_or("", |change| change.cursor.as_str()));
    for part in [store, webhook, first_and_last[0], first_and_last[1]] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    format!("msg_{}", hex::encode(&hash.finalize()[..16]))
}

impl Message {
    pub(super) fn new(
        settings: &WebhookSettings,
        store: &str,
        batch: &Batch,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let body = Body {
            webhook: settings.feed.name.as_str(),
            data: &batch.changes,
            next_cursor: batch.next.to_string(),
        };
        let body = serde_json::to_vec(&body)
            .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
        let id = message_id(store, settings.feed.name.as_str(), &batch.changes);
        let timestamp = now.as_micros().div_euclid(1_000_000);
        Ok(Self {
            signature: settings.secrets.sign(&id, timestamp, &body),
            id,
            timestamp,
            body,
        })
    }
}
