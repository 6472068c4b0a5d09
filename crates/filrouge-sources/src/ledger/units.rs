//! A session in the units that an index reads again one by one, when the ledger tells that they have changed.
//!
//! A unit is a turn, or an item of no turn. What the messages of a unit are depends on the unit alone, but for two things: a
//! result joins its call wherever that is, and of two messages with one id the later one is given another.

use filrouge_types::{Item, Recorded, Session};

use super::{messages, rows};
use crate::{Header, Message};

/// What the numbers of units of loose items begin with; ordinals of turns are smaller.
const LOOSE: u64 = 1 << 40;

/// The messages of a session, or of some of its turns, by units.
#[derive(Debug, Clone, PartialEq)]
pub struct Units {
    /// The units in the order of the conversation: the ordinal of a turn, or [`loose_unit`]. Replaced turns are none.
    pub units: Vec<(u64, Vec<Message>)>,
    /// Whether what one unit's messages are may depend on other units: a result without its call in the same unit, or an
    /// id that another unit's message has. Then units cannot be read apart.
    pub entangled: bool,
    /// Whether there are ids that the ledger does not keep apart: those of other programs' messages.
    pub foreign: bool,
}

/// The messages of what was read of a session; the same as [`super::LedgerSource`] gives, if all of it was read, and if
/// they are not entangled also those of its parts.
#[must_use]
pub fn units(read: &Recorded) -> Units {
    messages::units(read)
}

/// The unit of an item of no turn.
#[must_use]
pub const fn loose_unit(seq: u64) -> u64 {
    LOOSE | seq
}

/// A session's header, as [`super::LedgerSource`] lists it.
#[must_use]
pub fn header(session: &Session) -> Header {
    rows::header(session)
}

/// What an item is called: its id as it is, or its seq.
pub(super) fn item_name(item: &Item) -> Box<str> {
    match &item.body.item_id {
        Some(id) => id.as_str().into(),
        None => format!("seq-{}", item.seq).into(),
    }
}
