//! Events of a conversation, for its viewers.

use filrouge_types::Failure;
use serde::Serialize;

use crate::message::{Message, MessageId};
use crate::queue::Route;
use crate::record::{AgentError, State};

/// An event of a conversation. Events arrive in the order in which they happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamEvent {
    /// A message of a human or of the application; it is recorded.
    Said(Message),
    /// An agent begins to speak: the message is still empty.
    Began(Message),
    /// More text of an agent's message. All these texts joined are the message's content.
    Text {
        /// The message's id.
        id: MessageId,
        /// The added text.
        text: Box<str>,
    },
    /// An agent's message has ended.
    Ended {
        /// The complete message, which states whether it was cut, and the reason.
        message: Message,
        /// The agent's failure; `None` if it did not fail.
        error: Option<AgentError>,
    },
    /// The queue after a change, the next member first.
    Queue(Vec<Route>),
    /// A human has the floor. Queued members continue on [`resume`](crate::coordinator::Coordinator::resume) or after
    /// the human's next message.
    HandedOver(State),
    /// The team task was set or cleared.
    TaskSet {
        /// The task; `None` if it was cleared.
        task: Option<Box<str>>,
        /// The id of the member that set it.
        by: Box<str>,
    },
    /// A warning; the conversation continues.
    Warning(Warning),
    /// The session's history has speakers who are not members now. The history stays unchanged.
    FormerSpeakers(Vec<FormerSpeaker>),
    /// A write to the ledger failed. The conversation is paused; the queue stays.
    NotKept {
        /// The content that the ledger did not record.
        content: UnrecordedContent,
        /// The reason.
        failure: Failure,
    },
    /// The session is released. This is the last event.
    Closed(State),
}

/// A speaker of the history who is not a member now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormerSpeaker {
    /// The speaker's id.
    pub id: Box<str>,
    /// The speaker's name at that time.
    pub name: Box<str>,
}

/// A warning of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A message names someone who is not in the team.
    Unresolved {
        /// The message's id.
        id: MessageId,
        /// The unknown names.
        identifiers: Vec<Box<str>>,
        /// The names of all members.
        members: Vec<Box<str>>,
    },
    /// An agent's output was not UTF-8 throughout.
    Malformed {
        /// The message's id.
        id: MessageId,
        /// How many pieces were replaced by U+FFFD.
        replaced: u64,
    },
    /// Agents spoke too often without a human, so a human got the floor.
    AgentTurns {
        /// The limit.
        limit: u32,
    },
    /// Queued members were removed: by a marker, or because a turn was cancelled.
    Dropped {
        /// How many entries of the queue were removed.
        count: usize,
    },
    /// The team task that a message names was not set, for this reason.
    TaskRefused(Failure),
}

/// Content that the ledger did not record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnrecordedContent {
    /// The beginning of a message, which was therefore not said.
    Begin,
    /// The rest of an agent's message. It stays in the conversation, and agents read it, until this process ends.
    Message(MessageId),
    /// A note by the application.
    Note(MessageId),
    /// The team task.
    Task,
    /// The state at a hand-over: the status, and the member that the team waits for.
    HandOver,
}
