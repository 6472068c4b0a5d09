//! The table `turn`.

use filrouge_store::rows::{SessionPk, TurnRow};
use filrouge_types::{Failure, TurnId, TurnStatus};
use rusqlite::Row;

use super::read_u64;
use crate::error::malformed;

/// Decodes the columns id, turn_id, data, open_since: the session's number and the turn; `None` if the row is
/// malformed.
pub(super) fn read_turn(row: &Row<'_>) -> rusqlite::Result<Option<(SessionPk, TurnRow)>> {
    let id = read_u64(row, 0)?;
    let turn_id = TurnId::from_bytes(row.get(1)?);
    let turn = TurnRow::decode(
        turn_id,
        id & u64::from(u32::MAX),
        row.get_ref(2)?.as_blob()?,
    );
    // The column only serves to find inactive turns. It repeats a fact about the turn, with which it must agree.
    let since: Option<i64> = row.get(3)?;
    let turn = turn.filter(|t| open_since(t) == since);
    Ok(turn.map(|t| (id >> 32, t)))
}

/// Returns the turns of decoded rows; fails if one is malformed.
pub(super) fn all_turns(
    rows: Vec<Option<(SessionPk, TurnRow)>>,
) -> Result<Vec<(SessionPk, TurnRow)>, Failure> {
    rows.into_iter()
        .map(|r| r.ok_or_else(|| malformed("turn")))
        .collect()
}

/// The value of the column `open_since`: the time at which an open turn was last active, in microseconds since 1970;
/// `None` for a closed turn.
pub(super) fn open_since(row: &TurnRow) -> Option<i64> {
    (row.status == TurnStatus::Open).then(|| row.last_write_at.as_micros())
}
