//! What happens in a conversation, for whoever shows it.

use filrouge_types::Failure;
use serde::Serialize;

use crate::message::{Message, MessageId};
use crate::queue::Route;
use crate::record::{AgentError, State};

/// What has happened, in the order it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamEvent {
    /// A human, or the application, said this; it is kept.
    Said(Message),
    /// An agent begins to speak: the message has no content yet.
    Began(Message),
    /// An agent says more. What was given so, joined, is the message's content.
    Text {
        /// Its message.
        id: MessageId,
        /// What follows.
        text: Box<str>,
    },
    /// An agent's message has ended.
    Ended {
        /// All of it, and why it is not whole.
        message: Message,
        /// What the agent failed of.
        error: Option<AgentError>,
    },
    /// Those who wait have changed; the next one first.
    Queue(Vec<Route>),
    /// A human has the floor. Those who still wait go on with
    /// [`resume`](crate::coordinator::Coordinator::resume), or behind what the human says.
    HandedOver(State),
    /// The team task was set, or taken away.
    TaskSet {
        /// The task.
        task: Option<Box<str>>,
        /// Who set it: a member's id.
        by: Box<str>,
    },
    /// Something is worth knowing, and the conversation goes on.
    Warning(Warning),
    /// The session's history has speakers who are no members now. It is kept as it is.
    Drift(Vec<Drifted>),
    /// Something was not kept by the ledger. The conversation is paused; what waits stays, and what was not kept is named.
    NotKept {
        /// What was not kept.
        what: NotKept,
        /// Why.
        failure: Failure,
    },
    /// The session is given free. It is the last event.
    Closed(State),
}

/// A speaker who is no member now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drifted {
    /// The speaker's id.
    pub id: Box<str>,
    /// The name that they had.
    pub name: Box<str>,
}

/// What is worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A message names somebody who is not in the team.
    Unresolved {
        /// The message.
        id: MessageId,
        /// What it names.
        identifiers: Vec<Box<str>>,
        /// Who could be named.
        members: Vec<Box<str>>,
    },
    /// An agent's output was not UTF-8 throughout.
    Malformed {
        /// Its message.
        id: MessageId,
        /// How many pieces were replaced by U+FFFD.
        replaced: u64,
    },
    /// Agents spoke so often without a human that the floor was taken from them.
    AgentTurns {
        /// The limit.
        limit: u32,
    },
    /// Those who waited do so no more: somebody dropped them, or a turn was cancelled.
    Dropped {
        /// How many waited.
        count: usize,
    },
    /// A task was not set.
    TaskRefused(Failure),
}

/// What was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotKept {
    /// A message that was about to be said: it was not.
    Begin,
    /// The rest of an agent's message, which is shown and told to agents as long as this process lives.
    Message(MessageId),
    /// The application's own note.
    Note(MessageId),
    /// The team task.
    Task,
    /// Who has the floor.
    HandOver,
}
