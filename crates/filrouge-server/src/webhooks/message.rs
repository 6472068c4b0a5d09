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

/// Returns the id of a message. It depends only on which changes the message contains, so it is the same in every
/// process that serves the store.
fn message_id(store: &str, webhook: &str, changes: &[SessionChange]) -> String {
    let mut hash = Sha256::new();
    for part in [store, webhook] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    // All changes, because a later read may find changes of other lanes between the first and the last one.
    for change in changes {
        let id = change.id;
        hash.update(format!("{}.{}.{}", id.lane, id.commit_no, id.index));
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

#[cfg(test)]
mod tests {
    use filrouge_store::Lane;
    use filrouge_store::read::{ChangeId, ChangeKind};

    use super::*;

    fn change(lane: u16, commit_no: u64, cursor: &str) -> SessionChange {
        SessionChange {
            cursor: cursor.to_owned(),
            id: ChangeId {
                lane: Lane::new(lane),
                commit_no,
                index: 0,
            },
            kind: ChangeKind::Created,
            session_id: "s".parse().unwrap(),
            first_seq: None,
            last_seq: None,
            at: Timestamp::from_micros(0),
            event: None,
        }
    }

    fn id_of(changes: &[SessionChange]) -> String {
        message_id("store", "crm", changes)
    }

    #[test]
    fn a_message_id_depends_on_every_change_and_not_on_where_it_was_read() {
        let id = id_of(&[change(1, 7, "3_7"), change(2, 1, "3_7_1")]);
        let read_later = [change(1, 7, "9_7_0_4"), change(2, 1, "9_7_1_4")];
        assert_eq!(id_of(&read_later), id);
        let with_another = [
            change(1, 7, "3_7"),
            change(0, 4, "4_7"),
            change(2, 1, "4_7_1"),
        ];
        assert_ne!(id_of(&with_another), id);
        let in_another_lane = [change(0, 7, "7"), change(2, 1, "7_0_1")];
        assert_ne!(id_of(&in_another_lane), id);
        assert_ne!(message_id("store", "erp", &read_later), id);
    }
}
