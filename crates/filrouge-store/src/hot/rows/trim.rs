//! Drops the oldest turns, so that a session stays within its limits.

use filrouge_types::{ErrorCode, Failure, TurnId, TurnStatus};

use super::{EphemeralRows, PK};
use crate::hot::HotBounds;
use crate::keyring::Keyring;
use crate::rows::{RowKey, Tx};

/// The limits of a session, and the context of trimming it.
pub(in crate::hot) struct TrimContext<'a> {
    /// The limits.
    pub(in crate::hot) limits: HotBounds,
    /// The turn that was just written to; it is never trimmed.
    pub(in crate::hot) written_turn: Option<TurnId>,
    /// The keyring that signs the head, which counts the turns.
    pub(in crate::hot) keyring: &'a Keyring,
}

impl EphemeralRows {
    /// While the session exceeds its limits, drops the oldest turns with all their versions, and the items before the
    /// oldest remaining turn. Returns the number of dropped turn rows. Updates the head, so that readers report no
    /// missing turns.
    ///
    /// # Errors
    /// `limit_exceeded` when the session still has too many bytes once only turns remain that may not be dropped.
    pub(in crate::hot) fn trim(&mut self, ctx: &TrimContext<'_>) -> Result<u64, Failure> {
        self.encode_changes();
        let count_before = self.rows.turns.len();
        loop {
            let has_too_many_bytes = self.bytes > ctx.limits.bytes;
            let has_too_many_turns = self.rows.turns.len() as u64 > ctx.limits.turns;
            let Some(place) = self.next_to_trim(has_too_many_bytes || has_too_many_turns) else {
                if has_too_many_bytes {
                    return Err(too_large(ctx.limits.bytes));
                }
                break;
            };
            let versions = (PK, place)..=(PK, place | 0xff);
            let mut rows = self.rows.turns.range(versions).map(|(_, row)| row);
            if rows.any(|row| Some(row.turn_id) == ctx.written_turn) {
                if has_too_many_bytes {
                    return Err(too_large(ctx.limits.bytes));
                }
                break;
            }
            self.drop_turn(place)?;
            self.drop_items();
            self.encode_changes();
        }
        let dropped = count_before - self.rows.turns.len();
        if dropped > 0 {
            self.update_head(dropped as u64, ctx.keyring);
        }
        Ok(dropped as u64)
    }

    /// The place of the first version of the next turn to drop, which is the oldest. `None` if the session does not
    /// exceed its limits or if only the newest turn remains, which is never dropped.
    fn next_to_trim(&self, exceeds_limits: bool) -> Option<u64> {
        let newest = self.rows.turns.values().next_back()?.ordinal;
        let oldest = self.rows.oldest_turn()?.ordinal;
        (exceeds_limits && oldest < newest).then_some(oldest << 8)
    }

    /// Drops all versions of the turn whose first version has this place, with their drafts.
    fn drop_turn(&mut self, place: u64) -> Result<(), Failure> {
        let versions = self.rows.turns.range((PK, place)..=(PK, place | 0xff));
        let places: Vec<_> = versions
            .map(|((_, place), row)| (*place, row.turn_id))
            .collect();
        for (place, id) in places {
            if let Some(row) = self.rows.turns.remove(&(PK, place))
                && row.status == TurnStatus::Open
                && let Some(head) = self.rows.heads.get_mut(&PK)
            {
                head.open_turns = head.open_turns.saturating_sub(1);
            }
            self.rows.turn_ids.remove(&id);
            self.rows.record_change(RowKey::Turn(place));
            self.rows.delete_draft(PK, place)?;
        }
        Ok(())
    }

    /// Drops the records before the oldest turn, and the keys of their items.
    fn drop_items(&mut self) {
        let Some(first) = self.rows.oldest_turn().map(|turn| turn.first_seq) else {
            return;
        };
        while let Some((seq, last)) = self.oldest_record()
            && last < first
        {
            self.rows.records.remove(&(PK, seq));
            self.rows.record_change(RowKey::Record(seq));
        }
        let keys = &mut self.changes().item_keys;
        let kept = keys.split_off(&first);
        let dropped = std::mem::replace(keys, kept);
        for id in dropped.into_values().flatten() {
            self.rows.keys.remove(&(PK, id.clone()));
            self.rows.record_change(RowKey::Item(id));
        }
        // Only an adopted session has request keys.
        let requests = self.rows.requests.extract_if(.., |_, seq| *seq < first);
        let requests: Vec<_> = requests.map(|((_, id), _)| RowKey::Request(id)).collect();
        self.changes().changed_rows.extend(requests);
    }

    /// The first and last seq of the oldest record.
    fn oldest_record(&self) -> Option<(u64, u64)> {
        let (_, row) = self.rows.records.first_key_value()?;
        Some((row.first_seq, row.last_seq()))
    }

    /// Subtracts the dropped turn rows from the count in the head.
    fn update_head(&mut self, dropped: u64, keyring: &Keyring) {
        if let Some(mut head) = self.rows.heads.remove(&PK) {
            head.turn_rows = head.turn_rows.saturating_sub(dropped);
            self.rows.heads.insert(PK, head.sealed(keyring, PK));
            self.rows.record_change(RowKey::Head);
            self.encode_changes();
        }
    }
}

fn too_large(bytes: u64) -> Failure {
    let detail = format!(
        "a session without an identity holds at most {bytes} bytes, and this turn does not fit"
    );
    Failure::new(ErrorCode::LimitExceeded, detail)
        .with_hint("send less in one turn, or log in: the session of an identity has no such bound")
}
