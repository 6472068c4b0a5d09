//! What has been kept of a session, for its snapshot file.

use std::sync::Arc;

use crate::message::Message;
use crate::snapshot::Snapshots;

/// The messages of a session, as they stand in the ledger.
pub(super) struct Kept {
    count: u64,
    /// Held only where a snapshot file is written.
    messages: Option<Vec<Arc<Message>>>,
}

impl Kept {
    /// Of a session that has these messages already.
    pub(super) fn of(messages: &[Message], snapshots: Option<&Snapshots>) -> Self {
        let all = || messages.iter().cloned().map(Arc::new).collect();
        Self {
            count: messages.len() as u64,
            messages: snapshots.map(|_| all()),
        }
    }

    pub(super) fn message(&mut self, message: Message) {
        self.count += 1;
        if let Some(messages) = &mut self.messages {
            messages.push(Arc::new(message));
        }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// All of them, without a copy of their texts.
    pub(super) fn messages(&self) -> Vec<Arc<Message>> {
        self.messages.clone().unwrap_or_default()
    }
}
