//! Gathers the messages of one session from rows.

use std::collections::HashSet;

use super::storage::MessageText;
use crate::Skipped;

/// Messages with their parts.
#[derive(Default)]
pub(super) struct GatheredMessages {
    pub(super) messages: Vec<MessageText>,
    /// Messages created before this time are copies; `None` if the session cannot contain copies.
    pub(super) copied_before: Option<i64>,
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

    /// Adds a message that was created at the time `created`, or the report of one that cannot be used. The caller has
    /// checked that the message's id is new.
    pub(super) fn add(&mut self, message: Result<MessageText, Skipped>, created: i64) {
        match message {
            Ok(mut message) => {
                message.copied = self.copied_before.is_some_and(|before| created < before);
                self.ids.insert(message.id.clone());
                self.messages.push(message);
            }
            Err(why) => self.skipped.push(why),
        }
    }
}
