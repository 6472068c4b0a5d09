//! The turn table.

use filrouge_store::rows::{SessionPk, TurnRow};
use filrouge_types::{Failure, TurnId, TurnStatus};
use rusqlite::Row;

use super::uint;
use crate::error::malformed;

/// Decodes the columns id, turn_id, data, open_since.
pub(super) fn read_turn(row: &Row<'_>) -> rusqlite::Result<Option<(SessionPk, TurnRow)>> {
    let id = uint(row, 0)?;
    let turn_id = TurnId::from_bytes(row.get(1)?);
    let turn = TurnRow::decode(
        turn_id,
        id & u64::from(u32::MAX),
        row.get_ref(2)?.as_blob()?,
    );
    // The column is only used to find inactive turns; it must agree with the turn.
    let since: Option<i64> = row.get(3)?;
    let turn = turn.filter(|t| open_since(t) == since);
    Ok(turn.map(|t| (id >> 32, t)))
}

pub(super) fn all_turns(
    rows: Vec<Option<(SessionPk, TurnRow)>>,
) -> Result<Vec<(SessionPk, TurnRow)>, Failure> {
    rows.into_iter()
        .map(|r| r.ok_or_else(|| malformed("turn")))
        .collect()
}

/// The column `open_since`: when an open turn was last active; `None` for a closed one.
pub(super) fn open_since(row: &TurnRow) -> Option<i64> {
    (row.status == TurnStatus::Open).then(|| row.touched_at.as_micros())
}
