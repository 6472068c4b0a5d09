//! A session's items as a conversation.

use std::collections::{HashMap, HashSet};

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_types::{Channel, Failure, Item, SessionId, Timestamp};

use super::item::{self, Read, RedactedId};
use crate::context::{Context, Restored};
use crate::message::{Message, MessageId};
use crate::snapshot::SessionSnapshot;

/// Items read at once.
const PAGE: usize = 1000;
/// The number in the name of a redacted draft counts when it is no more than so much above the highest id.
const NEAR: u64 = 64;

/// What of a session is not in the context that was restored of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Messages that were redacted.
    pub redacted: u64,
    /// Items that say something and are no messages of the team: others have written into the session.
    pub foreign: u64,
}

/// A conversation as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Message>,
    pub(crate) task: Option<Box<str>>,
    pub(crate) left_out: LeftOut,
    /// The highest number of any message's id, redacted ones included.
    pub(crate) highest: u64,
    /// The ids of redacted messages.
    pub(crate) redacted: HashSet<MessageId>,
    /// When the newest message was said, redacted ones included.
    pub(crate) newest_at: Option<Timestamp>,
    /// How many items tell of a redaction.
    pub(crate) redactions: u64,
    /// The seq of the newest item that was read.
    pub(crate) last_seq: u64,
    /// Where messages stand that a draft has left; one that was written after all takes its place.
    drafted: HashMap<MessageId, usize>,
}

impl Conversation {
    /// Adds what an item tells.
    pub(crate) fn take(&mut self, item: &Item) {
        self.last_seq = item.seq;
        self.redactions += u64::from(item.body.channel == Channel::Redaction);
        match item::read(item) {
            Read::Message {
                message,
                from_draft,
            } => self.message(message, from_draft),
            Read::Task(task) => self.task = task,
            Read::Redacted(id) => {
                self.left_out.redacted += 1;
                self.newest_at = self.newest_at.max(item.body.occurred_at);
                match id {
                    RedactedId::Whole(id) => {
                        self.highest = self.highest.max(item::number_of(&id));
                        self.redacted.insert(id);
                    }
                    RedactedId::Number(n) if n <= self.highest + NEAR => {
                        self.highest = self.highest.max(n);
                    }
                    RedactedId::Number(_) => {}
                }
            }
            Read::Foreign => self.left_out.foreign += 1,
            Read::Nothing => {}
        }
    }

    /// Adds a message.
    pub(crate) fn message(&mut self, message: Message, from_draft: bool) {
        self.highest = self.highest.max(item::number_of(&message.id));
        self.newest_at = self.newest_at.max(Some(message.at));
        let known = self.drafted.get(&message.id).copied();
        if let Some(known) = known.and_then(|at| self.messages.get_mut(at)) {
            *known = message;
            return;
        }
        if from_draft {
            let at = self.messages.len();
            self.drafted.insert(message.id.clone(), at);
        }
        self.messages.push(message);
    }

    /// What is carried over.
    pub(crate) fn into_restored(self) -> Restored {
        Restored {
            context: Context {
                messages: self.messages,
                team_task: self.task,
            },
            highest_message: self.highest,
        }
    }

    /// As a snapshot file has it.
    pub(crate) fn into_snapshot(
        self,
        team_id: &str,
        session: &SessionId,
        created_at: Timestamp,
    ) -> SessionSnapshot {
        let id = session.as_str().into();
        SessionSnapshot::of(team_id.into(), id, created_at, self.messages, self.task)
    }
}

/// Reads a session behind `after`, page by page: one is read while the one before it is taken in.
///
/// # Errors
/// The ledger's.
pub(crate) async fn read(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    after: u64,
) -> Result<Conversation, Failure> {
    let mut conversation = Conversation::default();
    let turns = &engine.turns;
    let mut page = turns.items(caller, session, after, PAGE).await?;
    loop {
        let (items, next) = page;
        let last = items.last().map(|item| item.seq);
        let take = async { items.iter().for_each(|item| conversation.take(item)) };
        let Some(last) = last.filter(|_| next.is_some()) else {
            take.await;
            return Ok(conversation);
        };
        let (read, ()) = tokio::join!(turns.items(caller, session, last, PAGE), take);
        page = read?;
    }
}
