//! The messages of one session as they are gathered from rows.

use std::collections::HashMap;

use super::generation::{MessageText, PartText};
use crate::Skipped;

/// Messages with their parts.
#[derive(Default)]
pub(super) struct Talk {
    messages: Vec<MessageText>,
    /// When each was made.
    created: Vec<i64>,
    places: HashMap<Box<str>, usize>,
    pub(super) skipped: Vec<Skipped>,
    /// From when to when messages of table `message` are.
    pub(super) span: Option<(i64, i64)>,
    /// The place of the message that the last part went to: parts of one message come together.
    last: usize,
}

impl Talk {
    /// Whether there is a message of this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    /// Adds a message of an id that is not there.
    pub(super) fn add(&mut self, message: MessageText, created: i64) {
        self.places.insert(message.id.clone(), self.messages.len());
        self.messages.push(message);
        self.created.push(created);
    }

    /// Adds a part; one whose message could not be used goes with it.
    pub(super) fn add_part(&mut self, message: &str, part: PartText) {
        let same = |at: &usize| self.messages.get(*at).is_some_and(|m| &*m.id == message);
        let known = Some(self.last).filter(same);
        let Some(at) = known.or_else(|| self.places.get(message).copied()) else {
            return;
        };
        self.last = at;
        if let Some(message) = self.messages.get_mut(at) {
            message.parts.push(part);
        }
    }

    /// Takes all parts back.
    pub(super) fn forget_parts(&mut self) {
        for message in &mut self.messages {
            message.parts.clear();
        }
    }

    /// Marks what is older than its session.
    pub(super) fn mark_copies(&mut self, session_created: i64) {
        for (message, created) in self.messages.iter_mut().zip(&self.created) {
            message.copied = *created < session_created;
        }
    }

    /// The ids of the messages.
    pub(super) fn ids(&self) -> Vec<Box<str>> {
        self.messages.iter().map(|m| m.id.clone()).collect()
    }

    /// The messages, and what was left out.
    pub(super) fn finish(self) -> (Vec<MessageText>, Vec<Skipped>) {
        (self.messages, self.skipped)
    }
}
