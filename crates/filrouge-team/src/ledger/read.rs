//! A session's items as a conversation.

use std::collections::{HashMap, HashSet};

use filrouge_engine::{Caller, Engine};
use filrouge_types::{Channel, Failure, Item, SessionId, Timestamp};

use super::item::{self, ParsedItem, RedactedId};
use crate::context::{Restored, TeamState};
use crate::message::{Message, MessageId};
use crate::snapshot::SessionSnapshot;

/// The number of items per page.
const PAGE_ITEMS: usize = 1000;
/// The maximum gap between the highest message number so far and the number of a redacted draft. A larger number is
/// ignored: the draft may be another program's.
const NUMBER_GAP_MAX: u64 = 64;

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
    pub(crate) highest_number: u64,
    /// The ids of redacted messages.
    pub(crate) redacted: HashSet<MessageId>,
    /// The time of the newest message, redacted messages included.
    pub(crate) newest_at: Option<Timestamp>,
    /// The number of items that record a redaction.
    pub(crate) redactions: u64,
    /// The seq of the newest item that was read.
    pub(crate) last_seq: u64,
    /// The positions in `messages` of those that come from drafts. A later item with the same id replaces such a
    /// message.
    draft_positions: HashMap<MessageId, usize>,
}

impl ReadConversation {
    pub(crate) fn add_item(&mut self, item: &Item) {
        self.last_seq = item.seq;
        self.redactions += u64::from(item.body.channel == Channel::Redaction);
        match item::parse_item(item) {
            ParsedItem::Message {
                message,
                from_draft,
            } => self.add_message(message, from_draft),
            ParsedItem::Task(task) => self.task = task,
            ParsedItem::Redacted(id) => {
                self.left_out.redacted += 1;
                self.newest_at = self.newest_at.max(item.body.occurred_at);
                match id {
                    RedactedId::Id(id) => {
                        self.highest_number = self.highest_number.max(item::number_or_zero(&id));
                        self.redacted.insert(id);
                    }
                    RedactedId::Number(n) if n <= self.highest_number + NUMBER_GAP_MAX => {
                        self.highest_number = self.highest_number.max(n);
                    }
                    RedactedId::Number(_) => {}
                }
            }
            ParsedItem::Foreign => self.left_out.foreign += 1,
            ParsedItem::NoText => {}
        }
    }

    /// Adds a message; it replaces one with the same id that came from a draft.
    pub(crate) fn add_message(&mut self, message: Message, from_draft: bool) {
        self.highest_number = self.highest_number.max(item::number_or_zero(&message.id));
        self.newest_at = self.newest_at.max(Some(message.at));
        let position = self.draft_positions.get(&message.id).copied();
        if let Some(draft) = position.and_then(|position| self.messages.get_mut(position)) {
            *draft = message;
            return;
        }
        if from_draft {
            let position = self.messages.len();
            self.draft_positions.insert(message.id.clone(), position);
        }
        self.messages.push(message);
    }

    /// Converts the read items to the state from which a conversation continues.
    pub(crate) fn into_restored(self) -> Restored {
        Restored {
            context: TeamState {
                messages: self.messages,
                team_task: self.task,
            },
            highest_message: self.highest_number,
        }
    }

    /// Converts the read items to a snapshot file's form.
    pub(crate) fn into_snapshot(
        self,
        team_id: &str,
        session: &SessionId,
        created_at: Timestamp,
    ) -> SessionSnapshot {
        let id = session.as_str().into();
        SessionSnapshot::new(team_id.into(), id, created_at, self.messages, self.task)
    }
}

/// Reads a session's items after the seq `after`, page by page: the next page is read while the previous one is
/// decoded.
///
/// # Errors
/// The ledger's.
pub(crate) async fn read_conversation(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    after: u64,
) -> Result<ReadConversation, Failure> {
    let mut conversation = ReadConversation::default();
    let turns = &engine.turns;
    let mut page = turns.items(caller, session, after, PAGE_ITEMS).await?;
    loop {
        let (items, next) = page;
        let last = items.last().map(|item| item.seq);
        let decode = async { items.iter().for_each(|item| conversation.add_item(item)) };
        let Some(last) = last.filter(|_| next.is_some()) else {
            decode.await;
            return Ok(conversation);
        };
        let (next_page, ()) = tokio::join!(turns.items(caller, session, last, PAGE_ITEMS), decode);
        page = next_page?;
    }
}
