//! Where a page begins or ends.

use crate::Conversation;
use crate::library::LibraryError;

/// A place between two characters of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::library) struct Place {
    /// The index of the message; that of none is the end.
    pub(in crate::library) message: usize,
    /// 0 is the message's own text, its error; n its nth part.
    pub(super) slot: usize,
    /// How many characters of that are before.
    pub(super) offset: usize,
}

impl Place {
    /// Before the message of an index.
    pub(in crate::library) const fn before(message: usize) -> Self {
        Self {
            message,
            slot: 0,
            offset: 0,
        }
    }

    /// Whether it is between two messages.
    pub(super) const fn is_between(self) -> bool {
        self.slot == 0 && self.offset == 0
    }
}

/// Where a page goes from its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::library) enum Way {
    /// To what is newer.
    On,
    /// To what is older.
    Back,
}

/// What is paged through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::library) enum Paged {
    /// All messages.
    History,
    /// What compactions and pruning dropped.
    Dropped,
}

impl Paged {
    /// What a cursor of it begins with.
    const fn prefix(self) -> &'static str {
        match self {
            Self::History => "",
            Self::Dropped => "dropped.",
        }
    }
}

/// What a cursor says. It names a message by its id: indexes move when messages are taken back.
///
/// Written `on.m.3.120.msg_1`: the way, whether offsets are those of masked text, slot, offset, message. What is behind
/// the last message is `on.m.0.0.`. One of what was dropped begins with `dropped.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::library) struct Cursor {
    pub(in crate::library) way: Way,
    pub(in crate::library) place: Place,
}

impl Cursor {
    pub(in crate::library) fn write(self, of: &Conversation, mask: bool, paged: Paged) -> String {
        let of_what = paged.prefix();
        let way = if self.way == Way::On { "on" } else { "back" };
        let text = if mask { "m" } else { "r" };
        let id = of.messages.get(self.place.message).map_or("", |m| &*m.id);
        format!(
            "{of_what}{way}.{text}.{}.{}.{id}",
            self.place.slot, self.place.offset
        )
    }

    /// Reads a cursor; `way` is that of one that only names a message.
    pub(in crate::library) fn read(
        text: &str,
        of: &Conversation,
        session: &str,
        mask: bool,
        (way, paged): (Way, Paged),
    ) -> Result<Self, LibraryError> {
        let within = |rest: &str| rest.strip_prefix(':').and_then(|id| index(of, id));
        let named = match text.strip_prefix("message:") {
            Some(id) => Some(index(of, id).ok_or_else(gone)?),
            None => text.strip_prefix(session).and_then(within),
        };
        if let Some(message) = named {
            let message = message + usize::from(way == Way::Back);
            let place = Place::before(message);
            return Ok(Self { way, place });
        }
        let fields = text.strip_prefix(paged.prefix()).and_then(fields);
        let (way, masked, slot, offset, id) = fields.ok_or_else(|| invalid(paged))?;
        if masked != mask && offset > 0 {
            return Err(LibraryError::Invalid(
                "the cursor is of a page that was masked otherwise; begin with message:ID"
                    .to_owned(),
            ));
        }
        let message = match id {
            "" => of.messages.len(),
            id => index(of, id).ok_or_else(gone)?,
        };
        let place = Place {
            message,
            slot,
            offset,
        };
        Ok(Self { way, place })
    }
}

fn fields(text: &str) -> Option<(Way, bool, usize, usize, &str)> {
    let mut fields = text.splitn(5, '.');
    let way = match fields.next()? {
        "on" => Way::On,
        "back" => Way::Back,
        _ => return None,
    };
    let masked = match fields.next()? {
        "m" => true,
        "r" => false,
        _ => return None,
    };
    let slot = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    Some((way, masked, slot, offset, fields.next()?))
}

fn index(of: &Conversation, id: &str) -> Option<usize> {
    of.messages.iter().position(|m| &*m.id == id)
}

fn invalid(paged: Paged) -> LibraryError {
    let text = match paged {
        Paged::History => {
            "the cursor is none of a history; take one of a page, message:ID, or sessionID:messageID"
        }
        Paged::Dropped => {
            "the cursor is none of what was dropped; take one of a page of get_compacted_context, or message:ID"
        }
    };
    LibraryError::Invalid(text.to_owned())
}

fn gone() -> LibraryError {
    let text = "the cursor names a message that is not in this session (any more)";
    LibraryError::Invalid(text.to_owned())
}
