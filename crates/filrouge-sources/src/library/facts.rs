//! What statistics and lineage need to know of one session: small enough to be kept for every session there is.
//!
//! Some kilobytes of sums, and for each message a fingerprint and the time it was worked on.

#[cfg(test)]
pub(super) mod made;
mod spans;
mod tally;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub(super) use spans::Spans;
pub(super) use tally::{DAY, DayShare, Tally, add_changes, change, changes_of};

use super::LibraryError;
use super::cache::Weigh;
use crate::{Changes, Conversation, Header, Message, PartKind, TokenRule};

/// How much is kept in memory: facts of some ten thousand sessions.
pub(super) const BYTES: usize = 32 << 20;

/// The facts of a session, or why it cannot be read.
pub(super) type Answer = Result<Arc<Facts>, LibraryError>;

/// What is known of one session.
pub(super) struct Facts {
    /// Of messages that cannot be copies.
    pub(super) fresh: Tally,
    /// Of messages that may be copies: the program says so, or they are older than their session.
    pub(super) old: Tally,
    /// Those messages in order.
    pub(super) olds: Box<[Old]>,
    /// The fingerprints of all messages in order.
    pub(super) prints: Box<[u64]>,
    /// The sessions that tool calls name as started, in order.
    pub(super) children: Box<[Child]>,
    /// What tool calls and patches have changed.
    pub(super) changes: Changes,
    /// How tokens were read.
    pub(super) rule: TokenRule,
    /// How many records of the session could not be read.
    pub(super) skipped: usize,
}

/// A message that may be a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Old {
    /// Its place in the session.
    pub(super) at: usize,
    /// Its fingerprint.
    pub(super) print: u64,
    /// Whether the program records that it is a copy.
    pub(super) recorded: bool,
}

/// A session that a tool call has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Child {
    /// Its id.
    pub(super) id: Box<str>,
    /// The message of the call.
    pub(super) message: Box<str>,
    /// The call.
    pub(super) call: Box<str>,
    /// Whether the message may be a copy; then the call was another session's.
    pub(super) copied: bool,
}

impl Facts {
    /// The facts of a session whose conversation this is.
    pub(super) fn of(header: &Header, conversation: &Conversation) -> Self {
        let messages = &conversation.messages;
        let old = |m: &Message| may_be_copy(header, m);
        let numbered = messages.iter().enumerate().filter(|(_, m)| old(m));
        let olds: Box<[Old]> = numbered
            .map(|(at, m)| Old {
                at,
                print: print(m),
                recorded: m.copied,
            })
            .collect();
        let fresh = Tally::of(messages.iter().filter(|m| !old(m)));
        // Files that both have changed count once, so that two sums do not make one.
        let changes = if olds.is_empty() {
            fresh.sums.changes
        } else {
            changes_of(messages)
        };
        Self {
            fresh,
            old: Tally::of(messages.iter().filter(|m| old(m))),
            olds,
            prints: messages.iter().map(print).collect(),
            children: messages.iter().flat_map(|m| children(m, old(m))).collect(),
            changes,
            rule: conversation.token_rule,
            skipped: conversation.skipped.len(),
        }
    }

    /// How many of its first messages are another's first, too.
    pub(super) fn shared_with(&self, other: &Self) -> usize {
        let pairs = self.prints.iter().zip(&other.prints);
        pairs.take_while(|(a, b)| a == b).count()
    }
}

impl Weigh for Facts {
    fn weight(&self) -> usize {
        let children = self.children.iter();
        let children = children.map(|c| 64 + c.id.len() + c.message.len() + c.call.len());
        512 + self.fresh.weight()
            + self.old.weight()
            + 24 * self.olds.len()
            + 8 * self.prints.len()
            + children.sum::<usize>()
    }
}

/// A message that is older than its session was made for another one, or comes from an import.
fn may_be_copy(header: &Header, message: &Message) -> bool {
    message.copied || message.created < header.created
}

/// What a copied message has in common with its original: role, time, and those numbers of its tokens that mean the
/// same in every version. (`input` and `output` are read by the rule of the session's version, and a fork may be of
/// a newer one.)
fn print(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.hash(&mut hasher);
    message.created.hash(&mut hasher);
    let tokens = message.tokens.unwrap_or_default();
    (tokens.reasoning, tokens.cache_read, tokens.cache_write).hash(&mut hasher);
    hasher.finish()
}

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
