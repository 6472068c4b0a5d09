//! One turn of a window: whether it counts, what it shows, the summary in it.

use filrouge_store::rows::TurnRow;
use filrouge_types::{Item, TurnStatus};

use super::query::{RestoreQuery, Selection};
use super::shape::{Shaped, drop_all, pair, shape};
use super::summary::{self, Summary};

/// A turn that was shaped.
pub(super) struct Turned {
    pub(super) ordinal: u64,
    pub(super) first_seq: u64,
    /// Whether it counts as a turn of the window.
    pub(super) counts: bool,
    pub(super) shaped: Shaped,
    /// Its newest summary.
    pub(super) summary: Option<Summary>,
    /// About so many tokens of the context are its own.
    pub(super) tokens: u64,
}

/// Why a turn is left out as a whole; `newest` tells whether nothing replaces it.
const fn left_out(row: &TurnRow, newest: bool, selection: Selection) -> Option<&'static str> {
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

/// Shapes a turn. Several threads were tried and lost: what they allocate is freed by others.
pub(super) fn turned(row: &TurnRow, items: Vec<Item>, newest: bool, query: RestoreQuery) -> Turned {
    let left_out = left_out(row, newest, query.selection);
    let messages = query.selection == Selection::Messages;
    let counts = left_out.is_none();
    let summary = summary::newest(&items, query.variant).filter(|_| counts && messages);
    let shaped = match left_out {
        Some(reason) => Shaped::empty(row, drop_all(&items, reason)),
        None if messages => shape(row, items, query.variant, query.unanswered),
        None => pair(row, &items, query.variant),
    };
    Turned {
        ordinal: row.ordinal,
        first_seq: row.first_seq,
        counts,
        shaped,
        summary,
        tokens: 0,
    }
}
