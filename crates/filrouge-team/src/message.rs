//! Messages of members.

use filrouge_types::Timestamp;
use serde::{Deserialize, Serialize};

/// The id of a message, unique in its session and its item's `item_id` in the ledger: `msg-N`, N from 1.
pub type MessageId = Box<str>;

/// A message, complete or cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// When it was said; for an agent's message, when it began.
    pub at: Timestamp,
    /// Its author.
    pub speaker: Speaker,
    /// The text, without markers.
    pub content: Box<str>,
    /// Its addressees, and the message it answers.
    pub routing: Routing,
    /// The reason why it is incomplete; `None` if it is complete.
    pub cut: Option<Cut>,
}

/// The reason why a message is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The user stopped it.
    Cancelled,
    /// The agent failed: for example, its exit code was not 0, or it timed out.
    Failed,
    /// filrouge ended while the message was growing.
    Interrupted,
}

/// The speaker of a message, as described when the message was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// The member's id; `system` for the application's notes.
    pub id: Box<str>,
    /// The name shown.
    pub name: Box<str>,
    /// The kind of speaker.
    pub kind: SpeakerKind,
}

/// The kind of a speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeakerKind {
    /// A person.
    Human,
    /// An agent, which is a command. Snapshot files call this kind `ai`.
    Agent,
    /// The application.
    System,
}

/// A message's addressees, and the message it answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// The markers as they were written, without brackets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub markers: Vec<Box<str>>,
    /// The members that the markers name, or else those that the text mentions; includes unknown names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addressees: Vec<Addressee>,
    /// The message that this one answers; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    /// The highest priority that the message asks for; `None` if it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

impl Routing {
    /// The routing of an answer to `parent`, without addressees.
    pub fn answering(parent: Option<MessageId>) -> Self {
        Self {
            parent,
            ..Self::default()
        }
    }
}

/// An addressee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addressee {
    /// The name as it was written.
    pub identifier: Box<str>,
    /// The member; `None` for an unknown name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<Box<str>>,
    /// The member's name when the message was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_name: Option<Box<str>>,
}

/// The priority that a message asks for in the queue, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Before all queued members (P1).
    Interrupt,
    /// An answer to what was just said (P2).
    Reply,
    /// A separate matter, after all queued members (P3).
    Extend,
}
