//! The facts of one session that statistics and lineage need. They are small enough to be cached for every session.
//!
//! They consist of some kilobytes of sums, a fingerprint of each message, and the time spans in which the agent worked.

#[cfg(test)]
pub(super) mod samples;
mod spans;
mod tally;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub(super) use spans::Spans;
pub(super) use tally::{DAY_MILLIS, DaySums, Tally, add_changes, changes_of, update_entry};

use super::Result;
use super::cache::Weigh;
use crate::{Changes, Conversation, Header, Message, PartKind, TokenRule};

/// The budget of the cache of facts in bytes: enough for some ten thousand sessions.
pub(super) const CACHE_BYTES: usize = 32 << 20;

/// The facts of a session, or the reason why it cannot be read.
pub(super) type FactsResult = Result<Arc<Facts>>;

/// The facts of one session.
pub(super) struct Facts {
    /// Sums over messages that cannot be copies.
    pub(super) certain_originals: Tally,
    /// Sums over messages that may be copies: the program marks them as copies, or they are older than their session.
    pub(super) maybe_copied: Tally,
    /// The messages that may be copies, in order.
    pub(super) possible_copies: Box<[PossibleCopy]>,
    /// The fingerprints of all messages in order.
    pub(super) fingerprints: Box<[u64]>,
    /// The sessions that tool calls name as started, in order.
    pub(super) children: Box<[Child]>,
    /// The changes that tool calls and patches made.
    pub(super) changes: Changes,
    /// The rule by which tokens were converted.
    pub(super) rule: TokenRule,
    /// The number of the session's records that could not be read.
    pub(super) skipped: usize,
}

/// A message that may be a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PossibleCopy {
    /// Its index in the session.
    pub(super) index: usize,
    /// Its fingerprint.
    pub(super) fingerprint: u64,
    /// Whether the program records that it is a copy.
    pub(super) recorded: bool,
}

/// A session that a tool call started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Child {
    /// Its id.
    pub(super) id: Box<str>,
    /// The id of the message with the call.
    pub(super) message: Box<str>,
    /// The id of the call.
    pub(super) call: Box<str>,
    /// Whether the message may be a copy. If it is one, the call was made in another session.
    pub(super) copied: bool,
}

impl Facts {
    /// Computes the facts of a session from its conversation.
    pub(super) fn compute(header: &Header, conversation: &Conversation) -> Self {
        let messages = &conversation.messages;
        // A message that is older than its session was written in another session, or was imported.
        let maybe_copied = |m: &Message| m.copied || m.created < header.created;
        let numbered = messages.iter().enumerate().filter(|(_, m)| maybe_copied(m));
        let possible_copies: Box<[PossibleCopy]> = numbered
            .map(|(index, m)| PossibleCopy {
                index,
                fingerprint: message_fingerprint(m),
                recorded: m.copied,
            })
            .collect();
        let certain_originals = Tally::new(messages.iter().filter(|m| !maybe_copied(m)));
        // A file that messages of both kinds changed counts once, so the changes of both cannot simply be added.
        let changes = if possible_copies.is_empty() {
            certain_originals.sums.changes
        } else {
            changes_of(messages)
        };
        Self {
            certain_originals,
            maybe_copied: Tally::new(messages.iter().filter(|m| maybe_copied(m))),
            possible_copies,
            fingerprints: messages.iter().map(message_fingerprint).collect(),
            children: messages
                .iter()
                .flat_map(|m| children(m, maybe_copied(m)))
                .collect(),
            changes,
            rule: conversation.token_rule,
            skipped: conversation.skipped.len(),
        }
    }

    /// The number of messages at the beginning that are equal in both sessions.
    pub(super) fn shared_with(&self, other: &Self) -> usize {
        let pairs = self.fingerprints.iter().zip(&other.fingerprints);
        pairs.take_while(|(a, b)| a == b).count()
    }
}

impl Weigh for Facts {
    fn weight(&self) -> usize {
        let children = self.children.iter();
        let children = children.map(|c| 64 + c.id.len() + c.message.len() + c.call.len());
        512 + self.certain_originals.weight()
            + self.maybe_copied.weight()
            + 24 * self.possible_copies.len()
            + 8 * self.fingerprints.len()
            + children.sum::<usize>()
    }
}

/// A fingerprint that a copied message shares with its original: a hash of its role, its time, and the token counts
/// that mean the same in every version of the program. The counts `input` and `output` are excluded: they are converted
/// by a rule for the session's version, and a fork can have a newer version than its origin.
fn message_fingerprint(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.hash(&mut hasher);
    message.created.hash(&mut hasher);
    let tokens = message.tokens.unwrap_or_default();
    (tokens.reasoning, tokens.cache_read, tokens.cache_write).hash(&mut hasher);
    hasher.finish()
}

/// The sessions that a message's tool calls started; `copied` is [`Child::copied`].
fn children(message: &Message, copied: bool) -> impl Iterator<Item = Child> {
    message.parts.iter().filter_map(move |part| {
        let PartKind::Tool(tool) = &part.kind else {
            return None;
        };
        Some(Child {
            id: tool.child.clone()?,
            message: message.id.clone(),
            call: tool.call_id.clone(),
            copied,
        })
    })
}
