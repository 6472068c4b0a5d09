//! The messages of one session as they are gathered from rows.

use std::collections::HashSet;

use super::storage::MessageText;
use crate::Skipped;

/// Messages with their parts.
#[derive(Default)]
pub(super) struct Talk {
    pub(super) messages: Vec<MessageText>,
    /// When each was made.
    created: Vec<i64>,
    ids: HashSet<Box<str>>,
    pub(super) skipped: Vec<Skipped>,
    /// From when to when messages of table `message` are.
    pub(super) span: Option<(i64, i64)>,
}

impl Talk {
    /// Whether there is a message of this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Adds a message of an id that is not there.
    pub(super) fn add(&mut self, message: MessageText, created: i64) {
        self.ids.insert(message.id.clone());
        self.messages.push(message);
        self.created.push(created);
    }

    /// Marks what is older than its session.
    pub(super) fn mark_copies(&mut self, session_created: i64) {
        for (message, created) in self.messages.iter_mut().zip(&self.created) {
            message.copied = *created < session_created;
        }
    }

    /// The messages, and what was left out.
    pub(super) fn finish(self) -> (Vec<MessageText>, Vec<Skipped>) {
        (self.messages, self.skipped)
    }
}
