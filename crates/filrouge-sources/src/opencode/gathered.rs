//! Gathers the messages of one session from rows.

use std::collections::HashSet;

use super::storage::MessageText;
use crate::Skipped;

/// Messages with their parts.
#[derive(Default)]
pub(super) struct GatheredMessages {
    pub(super) messages: Vec<MessageText>,
    /// The creation times of the messages, in the same order.
    creation_times: Vec<i64>,
    ids: HashSet<Box<str>>,
    pub(super) skipped: Vec<Skipped>,
    /// The time span of the session's rows in table `message`: the earliest creation and the latest change. `None`
    /// if there are none.
    pub(super) span: Option<(i64, i64)>,
}

impl GatheredMessages {
    /// Whether a message with this id was added.
    pub(super) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Adds a message. The caller has checked that its id is new.
    pub(super) fn add(&mut self, message: MessageText, created: i64) {
        self.ids.insert(message.id.clone());
        self.messages.push(message);
        self.creation_times.push(created);
    }

    /// Marks messages that are older than their session as copies.
    pub(super) fn mark_copies(&mut self, session_created: i64) {
        for (message, created) in self.messages.iter_mut().zip(&self.creation_times) {
            message.copied = *created < session_created;
        }
    }

    /// Returns the messages, and what was left out.
    pub(super) fn finish(self) -> (Vec<MessageText>, Vec<Skipped>) {
        (self.messages, self.skipped)
    }
}
