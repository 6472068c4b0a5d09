//! Cursors: positions in a conversation from which a page extends forward or backward.

use crate::Conversation;
use crate::library::{LibraryError, Result};

/// A position between two characters of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::library) struct Position {
    /// The index of the message; at the end, the number of messages.
    pub(in crate::library) message: usize,
    /// The slot in the message: 0 is the message's own text, which is its error; n is its nth part, from 1.
    pub(super) slot: usize,
    /// The number of characters of the slot before the position.
    pub(super) offset: usize,
}

impl Position {
    /// The position before the message with this index.
    pub(in crate::library) const fn before(message: usize) -> Self {
        Self {
            message,
            slot: 0,
            offset: 0,
        }
    }

    /// Whether the position is between two messages.
    pub(super) const fn is_between(self) -> bool {
        self.slot == 0 && self.offset == 0
    }
}

filrouge_types::words!(
    /// The direction in which a page extends from its position, with its word in cursors.
    pub(in crate::library) enum Direction: "direction" {
        /// Towards newer messages.
        Forward => "on",
        /// Towards older messages.
        Backward => "back",
    }
);

/// The content that the pages of a query cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::library) enum PagedContent {
    /// All messages.
    History,
    /// Messages dropped by compactions, and pruned outputs.
    Dropped,
}

impl PagedContent {
    /// The prefix of its cursors.
    const fn prefix(self) -> &'static str {
        match self {
            Self::History => "",
            Self::Dropped => "dropped.",
        }
    }
}

/// The content of a cursor. It names a message by its id, because indexes change when messages are reverted.
///
/// Its format is `on.m.3.120.msg_1`: the direction (`on` or `back`), whether the offset counts characters of the masked
/// (`m`) or the raw (`r`) text, the slot, the offset, and the id of the message. The position after the last message
/// has an empty id: `on.m.0.0.`. Cursors of dropped messages begin with `dropped.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::library) struct Cursor {
    pub(in crate::library) direction: Direction,
    pub(in crate::library) position: Position,
}

impl Cursor {
    /// Writes the cursor as text. `mask`: whether the page shows masked text.
    pub(in crate::library) fn write(
        self,
        conversation: &Conversation,
        mask: bool,
        paged: PagedContent,
    ) -> String {
        let (prefix, direction) = (paged.prefix(), self.direction);
        let text = if mask { "m" } else { "r" };
        let id = conversation
            .messages
            .get(self.position.message)
            .map_or("", |m| &*m.id);
        format!(
            "{prefix}{direction}.{text}.{}.{}.{id}",
            self.position.slot, self.position.offset
        )
    }

    /// Reads a cursor of a page of the content `paged`. `direction` is used for a cursor that only names a message.
    /// `mask`: whether the next page shows masked text; an offset in text with the other setting is refused.
    pub(in crate::library) fn read(
        text: &str,
        conversation: &Conversation,
        session: &str,
        mask: bool,
        (direction, paged): (Direction, PagedContent),
    ) -> Result<Self> {
        let message_in_session = |rest: &str| {
            rest.strip_prefix(':')
                .and_then(|id| message_index(conversation, id))
        };
        let named_message = match text.strip_prefix("message:") {
            Some(id) => Some(message_index(conversation, id).ok_or_else(message_not_found)?),
            None => text.strip_prefix(session).and_then(message_in_session),
        };
        if let Some(message) = named_message {
            let message = message + usize::from(direction == Direction::Backward);
            let position = Position::before(message);
            return Ok(Self {
                direction,
                position,
            });
        }
        let fields = text.strip_prefix(paged.prefix()).and_then(parse_fields);
        let (direction, masked, slot, offset, id) = fields.ok_or_else(|| invalid_cursor(paged))?;
        if masked != mask && offset > 0 {
            return Err(LibraryError::Invalid(
                "the cursor belongs to a page with another mask setting; begin with message:ID"
                    .to_owned(),
            ));
        }
        let message = match id {
            "" => conversation.messages.len(),
            id => message_index(conversation, id).ok_or_else(message_not_found)?,
        };
        let position = Position {
            message,
            slot,
            offset,
        };
        Ok(Self {
            direction,
            position,
        })
    }
}

/// Splits a cursor without its prefix into the direction, whether it counts masked text, the slot, the offset, and the
/// message id.
fn parse_fields(text: &str) -> Option<(Direction, bool, usize, usize, &str)> {
    let mut fields = text.splitn(5, '.');
    let direction = fields.next()?.parse().ok()?;
    let masked = match fields.next()? {
        "m" => true,
        "r" => false,
        _ => return None,
    };
    let slot = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    Some((direction, masked, slot, offset, fields.next()?))
}

/// The index of the message with this id.
fn message_index(conversation: &Conversation, id: &str) -> Option<usize> {
    conversation.messages.iter().position(|m| &*m.id == id)
}

fn invalid_cursor(paged: PagedContent) -> LibraryError {
    let text = match paged {
        PagedContent::History => {
            "this is not a cursor of a history; use one from a page, message:ID, or sessionID:messageID"
        }
        PagedContent::Dropped => {
            "this is not a cursor of get_compacted_context; use one from its pages, or message:ID"
        }
    };
    LibraryError::Invalid(text.to_owned())
}

fn message_not_found() -> LibraryError {
    let text = "the cursor names a message that is not in this session (any more)";
    LibraryError::Invalid(text.to_owned())
}
