//! Letting the oldest turns go, so that a session stays within its bounds.

use filrouge_types::{ErrorCode, Failure, TurnId, TurnStatus};

use super::{HeldRows, PK};
use crate::hot::HotBounds;
use crate::keyring::Keyring;
use crate::rows::{Piece, Tx};

/// What a session is trimmed to.
pub(in crate::hot) struct Bounds<'a> {
    /// Its size.
    pub(in crate::hot) most: HotBounds,
    /// The turn that was written to just now: it does not go.
    pub(in crate::hot) written: Option<TurnId>,
    /// For signing the head, which counts the turns.
    pub(in crate::hot) keyring: &'a Keyring,
}

impl HeldRows {
    /// Lets the oldest turns go, all versions of each, with the items before what is left; gives how many. The head is put
    /// right, so that whoever reads finds nothing missing.
    pub(in crate::hot) fn trim(&mut self, bounds: &Bounds<'_>) -> Result<u64, Failure> {
        self.settle();
        let before = self.rows.turns.len();
        loop {
            let full = self.bytes > bounds.most.bytes;
            let many = self.rows.turns.len() as u64 > bounds.most.turns;
            let Some(place) = self.trimmed_next(full || many) else {
                if full {
                    return Err(too_large(bounds.most.bytes));
                }
                break;
            };
            let going = (PK, place)..=(PK, place | 0xff);
            let mut rows = self.rows.turns.range(going).map(|(_, row)| row);
            if rows.any(|row| Some(row.turn_id) == bounds.written) {
                if full {
                    return Err(too_large(bounds.most.bytes));
                }
                break;
            }
            self.drop_turn(place)?;
            self.drop_items();
            self.settle();
        }
        let gone = before - self.rows.turns.len();
        if gone > 0 {
            self.put_head_right(gone as u64, bounds.keyring);
        }
        Ok(gone as u64)
    }

    /// The first place of the oldest turn, if it may go: the newest one stays.
    fn trimmed_next(&self, over: bool) -> Option<u64> {
        let newest = self.rows.turns.values().next_back()?.ordinal;
        let oldest = self.rows.oldest()?.ordinal;
        (over && oldest < newest).then_some(oldest << 8)
    }

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
            self.rows.touch(Piece::Turn(place));
            self.rows.delete_draft(PK, place)?;
        }
        Ok(())
    }

    /// Drops the records, with the keys of their items, that lie before the oldest turn.
    fn drop_items(&mut self) {
        let Some(first) = self.rows.oldest().map(|turn| turn.first_seq) else {
            return;
        };
        while let Some((seq, last)) = self.oldest_record()
            && last < first
        {
            self.rows.records.remove(&(PK, seq));
            self.rows.touch(Piece::Record(seq));
        }
        let keys = &mut self.account().item_keys;
        let kept = keys.split_off(&first);
        let gone = std::mem::replace(keys, kept);
        for id in gone.into_values().flatten() {
            self.rows.keys.remove(&(PK, id.clone()));
            self.rows.touch(Piece::Item(id));
        }
        // Only a session that was taken in from elsewhere has any.
        let requests = self.rows.requests.extract_if(.., |_, seq| *seq < first);
        let requests: Vec<_> = requests.map(|((_, id), _)| Piece::Request(id)).collect();
        self.account().touched.extend(requests);
    }

    fn oldest_record(&self) -> Option<(u64, u64)> {
        let (_, row) = self.rows.records.first_key_value()?;
        Some((row.first_seq, row.last_seq()))
    }

    fn put_head_right(&mut self, gone: u64, keyring: &Keyring) {
        if let Some(mut head) = self.rows.heads.remove(&PK) {
            head.turn_rows = head.turn_rows.saturating_sub(gone);
            self.rows.heads.insert(PK, head.sealed(keyring, PK));
            self.rows.touch(Piece::Head);
            self.settle();
        }
    }
}

fn too_large(bytes: u64) -> Failure {
    let what = format!(
        "a session without an identity holds at most {bytes} bytes, and this turn does not fit beside what must stay"
    );
    Failure::new(ErrorCode::LimitExceeded, what)
        .with_hint("send less in one turn, or log in: the session of an identity has no such bound")
}
