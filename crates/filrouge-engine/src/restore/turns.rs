//! Shapes one turn of a window, with the summary in it, and decides whether it counts towards the limit of turns.

use filrouge_store::rows::TurnRow;
use filrouge_types::{Item, TurnStatus};

use super::query::{RestoreQuery, Selection};
use super::shape::{Shaped, drop_all, pair, shape};
use super::summary::{self, Summary};

/// A shaped turn.
pub(super) struct ShapedTurn {
    pub(super) ordinal: u64,
    pub(super) first_seq: u64,
    /// Whether the turn counts towards the limit of turns.
    pub(super) counts: bool,
    pub(super) shaped: Shaped,
    /// Its newest summary.
    pub(super) summary: Option<Summary>,
    /// Its tokens in the context, approximately.
    pub(super) tokens: u64,
}

/// The reason why an entire turn is left out; `None` if it is not. `newest` says whether `row` is the turn's newest
/// version.
const fn omission_reason(
    row: &TurnRow,
    newest: bool,
    selection: Selection,
) -> Option<&'static str> {
    if !newest {
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

/// Shapes a turn. Runs on one thread: several threads were slower, because each freed memory that others had allocated.
pub(super) fn shape_turn(
    row: &TurnRow,
    items: Vec<Item>,
    newest: bool,
    query: RestoreQuery,
) -> ShapedTurn {
    let omission_reason = omission_reason(row, newest, query.selection);
    let messages = query.selection == Selection::Messages;
    let counts = omission_reason.is_none();
    let summary = summary::newest(&items, query.variant).filter(|_| counts && messages);
    let shaped = match omission_reason {
        Some(reason) => Shaped::empty(row, drop_all(&items, reason)),
        None if messages => shape(row, items, query.variant, query.unanswered),
        None => pair(row, &items, query.variant),
    };
    ShapedTurn {
        ordinal: row.ordinal,
        first_seq: row.first_seq,
        counts,
        shaped,
        summary,
        tokens: 0,
    }
}
