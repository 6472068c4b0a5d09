//! Kinds of rows, by which people filter the audit.

use filrouge_types::{Channel, TurnId};

use super::AuditRow;

/// What a row of the audit records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditKind {
    /// Something that the user, the agent or the application said.
    Said,
    /// A tool call, or its result.
    Tool,
    /// An error, or the end of a turn without an answer.
    Failure,
    /// A link of a session to an owner, or a refused one.
    Link,
    /// A redaction.
    Redaction,
    /// The erasure of a session.
    Erasure,
}

impl AuditKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Said,
        Self::Tool,
        Self::Failure,
        Self::Link,
        Self::Redaction,
        Self::Erasure,
    ];

    /// The kind's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Tool => "tool",
            Self::Failure => "failure",
            Self::Link => "link",
            Self::Redaction => "redaction",
            Self::Erasure => "erasure",
        }
    }

    /// The kind of an item. Links and redactions are outside turns: in a turn, a caller wrote the item.
    pub(super) const fn of_item(channel: &Channel, turn: Option<TurnId>) -> Self {
        match channel {
            Channel::ToolCall | Channel::ToolResult => Self::Tool,
            Channel::Error | Channel::Partial | Channel::Interrupted | Channel::Cancelled => {
                Self::Failure
            }
            Channel::Link if turn.is_none() => Self::Link,
            Channel::Redaction if turn.is_none() => Self::Redaction,
            _ => Self::Said,
        }
    }
}

impl AuditRow {
    /// The row's kind; `None` for a row that names a damaged session.
    pub fn kind(&self) -> Option<AuditKind> {
        match &self.channel {
            Some(channel) => Some(AuditKind::of_item(channel, self.turn_id)),
            None => self.is_erasure().then_some(AuditKind::Erasure),
        }
    }
}
