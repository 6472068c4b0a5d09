//! Splits a session into units, so that an index rereads only the units that the ledger reports as changed.
//!
//! A unit is a turn, or an item outside any turn. The messages of a unit depend on that unit alone, with two
//! exceptions: a result joins its call even in another unit, and of two messages with the same id the later one gets a
//! new id.

use filrouge_types::Item;

use crate::Message;

/// A bit that is set in the unit number of every item outside a turn. Ordinals of turns are smaller.
const LOOSE_BIT: u64 = 1 << 40;

/// The messages of a session, or of some of its turns, by unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Units {
    /// The units in the order of the conversation: the ordinal of a turn, or [`loose_unit`]. Replaced turns are left
    /// out.
    pub units: Vec<(u64, Vec<Message>)>,
    /// Whether the messages of one unit may depend on other units. This is so if a result's call is not in the result's
    /// unit, or if messages of two units have the same id. The units must then be read together.
    pub interdependent: bool,
    /// Whether some messages have ids that the ledger does not keep unique: ids from another program, or ids that look
    /// like generated ones.
    pub has_foreign_ids: bool,
}

/// The unit number of an item outside any turn.
pub const fn loose_unit(seq: u64) -> u64 {
    LOOSE_BIT | seq
}

/// The seq of an item outside any turn, if `unit` is the unit of one: the inverse of [`loose_unit`].
pub const fn loose_seq(unit: u64) -> Option<u64> {
    if unit & LOOSE_BIT != 0 {
        Some(unit & !LOOSE_BIT)
    } else {
        None
    }
}

/// The name of an item, from which ids of messages and parts are built: the item's id, or else its seq.
pub(super) fn item_name(item: &Item) -> Box<str> {
    match &item.body.item_id {
        Some(id) => id.as_str().into(),
        None => format!("seq-{}", item.seq).into(),
    }
}
