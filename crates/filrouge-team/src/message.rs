//! What a member says.

use filrouge_types::Timestamp;
use serde::{Deserialize, Serialize};

/// The id of a message, unique in its session and its item's `item_id` in the ledger: `msg-N`, N from 1.
pub type MessageId = Box<str>;

/// A message, whole or as far as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// When it was said; an agent's when it began.
    pub at: Timestamp,
    /// Who said it.
    pub speaker: Speaker,
    /// The text, without markers.
    pub content: Box<str>,
    /// To whom, and to what.
    pub routing: Routing,
    /// Why it is not whole.
    pub cut: Option<Cut>,
}

/// Why a message ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The user stopped it.
    Cancelled,
    /// The agent failed: its exit code was not 0, or its time was up.
    Failed,
    /// filrouge ended while it was said.
    Interrupted,
}

/// Who said a message, as it was at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// The member's id; of the application's notes `system`.
    pub id: Box<str>,
    /// The name shown.
    pub name: Box<str>,
    /// What it is.
    pub kind: SpeakerKind,
}

/// What a speaker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeakerKind {
    /// A person.
    Human,
    /// A command; `ai` in snapshots.
    Agent,
    /// The application.
    System,
}

/// To whom a message is, and what it answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// The markers as they were written, without brackets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub markers: Vec<Box<str>>,
    /// Whom they name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addressees: Vec<Addressee>,
    /// The message it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    /// What is to become of the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

impl Routing {
    /// An answer to this message, to nobody in particular.
    #[must_use]
    pub fn to(parent: Option<MessageId>) -> Self {
        Self {
            parent,
            ..Self::default()
        }
    }
}

/// One who is addressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addressee {
    /// As it was written.
    pub identifier: Box<str>,
    /// The member; `None` when nobody is called so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<Box<str>>,
    /// The member's name at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_name: Option<Box<str>>,
}

/// What a message asks of the queue. In this order they are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Before everything that waits (P1).
    Interrupt,
    /// An answer to what was just said (P2).
    Reply,
    /// A matter of its own, behind everything that waits (P3).
    Extend,
}
