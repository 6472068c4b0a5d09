//! Shapes one turn of a window, and decides whether it counts towards the limit of turns.

use filrouge_store::rows::TurnRow;
use filrouge_types::{Item, TurnStatus};

use super::query::{RestoreQuery, Selection};
use super::shape::{ShapedTurn, drop_all, pair, shape};

/// A shaped turn of a window.
pub(super) struct WindowTurn {
    pub(super) ordinal: u64,
    pub(super) first_seq: u64,
    /// Whether the turn counts towards the limit of turns.
    pub(super) is_counted: bool,
    pub(super) shaped: ShapedTurn,
    /// The estimate of its tokens in the context; 0 until the window sets it.
    pub(super) tokens: u64,
}

/// The reason why an entire turn is left out; `None` if it is not. `is_newest` says whether `row` is the turn's newest
/// version.
const fn omission_reason(
    row: &TurnRow,
    is_newest: bool,
    selection: Selection,
) -> Option<&'static str> {
    if !is_newest {
        return Some("turn_replaced");
    }
    if row.redacted_by != 0 {
        return Some("redacted");
    }
    match (selection, row.status) {
        (Selection::Messages, _) | (Selection::Pairs, TurnStatus::Finalized) => None,
        (Selection::Pairs, TurnStatus::Open) => Some("turn_open"),
        (Selection::Pairs, TurnStatus::Interrupted) => Some("turn_interrupted"),
        (Selection::Pairs, TurnStatus::Failed) => Some("turn_failed"),
        (Selection::Pairs, TurnStatus::Cancelled) => Some("turn_cancelled"),
    }
}

/// Shapes a turn. Turns are shaped on one thread: several threads were slower, because each thread freed memory that
/// others had allocated.
pub(super) fn window_turn(
    row: &TurnRow,
    items: Vec<Item>,
    is_newest: bool,
    query: RestoreQuery,
) -> WindowTurn {
    let omission_reason = omission_reason(row, is_newest, query.selection);
    let wants_messages = query.selection == Selection::Messages;
    let is_counted = omission_reason.is_none();
    let shaped = match omission_reason {
        Some(reason) => ShapedTurn::empty(row, drop_all(&items, reason)),
        None if wants_messages => shape(row, items, query.variant, query.unanswered),
        None => pair(row, &items, query.variant),
    };
    WindowTurn {
        ordinal: row.ordinal,
        first_seq: row.first_seq,
        is_counted,
        shaped,
        tokens: 0,
    }
}
