//! A session's items as a conversation.

use std::collections::{HashMap, HashSet};

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_types::{Channel, Failure, Item, SessionId, Timestamp};

use super::item::{self, Read, RedactedId};
use crate::context::{Context, Restored};
use crate::message::{Message, MessageId};
use crate::snapshot::SessionSnapshot;

/// How many items one page has.
const PAGE: usize = 1000;
/// A redacted draft's number is trusted only if it exceeds the highest id by no more than this.
const NEAR: u64 = 64;

/// Counts of session content that is missing from the restored context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Messages that were redacted.
    pub redacted: u64,
    /// Items with text that are not messages of the team: other programs have written into the session.
    pub foreign: u64,
}

/// The part of a conversation that was read so far.
#[derive(Debug, Default)]
pub(crate) struct ReadConversation {
    pub(crate) messages: Vec<Message>,
    pub(crate) task: Option<Box<str>>,
    pub(crate) left_out: LeftOut,
    /// The highest N of any message's id `msg-N`, redacted messages included.
    pub(crate) highest: u64,
    /// The ids of redacted messages.
    pub(crate) redacted: HashSet<MessageId>,
    /// When the newest message was said, redacted messages included.
    pub(crate) newest_at: Option<Timestamp>,
    /// How many items record a redaction.
    pub(crate) redactions: u64,
    /// The seq of the newest item that was read.
    pub(crate) last_seq: u64,
    /// The positions in `messages` of those that come from drafts. A later item with the same id replaces such a
    /// message.
    drafted: HashMap<MessageId, usize>,
}

impl ReadConversation {
    pub(crate) fn add_item(&mut self, item: &Item) {
        self.last_seq = item.seq;
        self.redactions += u64::from(item.body.channel == Channel::Redaction);
        match item::read(item) {
            Read::Message {
                message,
                from_draft,
            } => self.add_message(message, from_draft),
            Read::Task(task) => self.task = task,
            Read::Redacted(id) => {
                self.left_out.redacted += 1;
                self.newest_at = self.newest_at.max(item.body.occurred_at);
                match id {
                    RedactedId::Id(id) => {
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

    /// Adds a message; it replaces one with the same id that came from a draft.
    pub(crate) fn add_message(&mut self, message: Message, from_draft: bool) {
        self.highest = self.highest.max(item::number_of(&message.id));
        self.newest_at = self.newest_at.max(Some(message.at));
        let at = self.drafted.get(&message.id).copied();
        if let Some(drafted) = at.and_then(|at| self.messages.get_mut(at)) {
            *drafted = message;
            return;
        }
        if from_draft {
            let at = self.messages.len();
            self.drafted.insert(message.id.clone(), at);
        }
        self.messages.push(message);
    }

    /// Converts it to the state from which a conversation continues.
    pub(crate) fn into_restored(self) -> Restored {
        Restored {
            context: Context {
                messages: self.messages,
                team_task: self.task,
            },
            highest_message: self.highest,
        }
    }

    /// Converts it to a snapshot file's form.
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

/// Reads a session's items after the seq `after`, page by page: the next page is read while the previous one is
/// decoded.
///
/// # Errors
/// The ledger's.
pub(crate) async fn read(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    after: u64,
) -> Result<ReadConversation, Failure> {
    let mut conversation = ReadConversation::default();
    let turns = &engine.turns;
    let mut page = turns.items(caller, session, after, PAGE).await?;
    loop {
        let (items, next) = page;
        let last = items.last().map(|item| item.seq);
        let decode = async { items.iter().for_each(|item| conversation.add_item(item)) };
        let Some(last) = last.filter(|_| next.is_some()) else {
            decode.await;
            return Ok(conversation);
        };
        let (read, ()) = tokio::join!(turns.items(caller, session, last, PAGE), decode);
        page = read?;
    }
}
