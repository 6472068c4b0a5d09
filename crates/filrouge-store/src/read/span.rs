//! Reads a span of a session's turns and items, to restore a conversation: first the turn rows, then their items. Also
//! reads items with the inputs of their links.

use filrouge_types::{ErrorCode, Failure, Item, RequestId, Result};

use super::{ALL_PLACES, Redactions, VerifiedSession, VerifiedSnapshot};
use crate::chain::{GENESIS, Link};
use crate::record::{ChainedItem, CommitmentProof, RecordFaultKind, decode_chained, salted};
use crate::rows::{TurnRow, View};

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// At most `limit` turn rows, newest first, with every version of each turn. `before` is the place of the last row
    /// that the previous call returned, or `None` for the first call. An empty result means that all rows were read.
    ///
    /// # Errors
    /// `integrity_error` when a row was changed or one is missing.
    pub fn turn_rows_descending(
        &self,
        session: &VerifiedSession,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<TurnRow>> {
        let to = match before {
            Some(0) => return Ok(Vec::new()),
            Some(place) => place - 1,
            None => ALL_PLACES.1,
        };
        let stored = self.view.turns(session.pk, ALL_PLACES.0, to, true, limit)?;
        let exhausted = stored.len() < limit;
        // The next older row is the previous version of the same turn, or any version of the previous turn.
        let mut newer_place = before.unwrap_or((session.head.turn_count + 1) << 8);
        let mut rows = Vec::with_capacity(stored.len());
        for row in stored {
            let place = row.place();
            let follows = if newer_place & 0xff == 0 {
                place >> 8 == (newer_place >> 8) - 1
            } else {
                place == newer_place - 1
            };
            if !follows {
                let missing = if newer_place & 0xff == 0 {
                    (newer_place >> 8) - 1
                } else {
                    newer_place >> 8
                };
                return Err(session.integrity_failure(None, format!("turn {missing} is missing")));
            }
            newer_place = place;
            rows.push(self.verified_turn(session, row)?);
        }
        if exhausted {
            if newer_place != self.view.first_ordinal(session.pk)? << 8 {
                return Err(session.integrity_failure(None, "turns are missing"));
            }
            self.check_all_turn_rows(session)?;
        }
        Ok(rows)
    }

    /// The items from `first` to `last`, complete and in order. Subtracts the size of their contents, usage and
    /// metadata from `remaining_bytes`.
    ///
    /// # Errors
    /// `limit_exceeded` when the items are larger than `remaining_bytes`; `integrity_error`.
    pub fn items_between(
        &self,
        session: &VerifiedSession,
        first: u64,
        last: u64,
        remaining_bytes: &mut usize,
    ) -> Result<Vec<Item>> {
        let mut items: Vec<Item> = Vec::new();
        // The oldest items may have been trimmed.
        let first = first.max(self.view.first_seq(session.pk)?);
        let mut after = first.saturating_sub(1);
        while after < last {
            let limit = usize::try_from(last - after).unwrap_or(usize::MAX);
            let (mut page, _) = self.items_of(session, after, limit)?;
            let Some(newest) = page.last() else {
                break;
            };
            after = newest.seq;
            let bytes = page.iter().map(|item| item.body.bytes()).sum();
            *remaining_bytes = remaining_bytes
                .checked_sub(bytes)
                .ok_or_else(memory_limit_failure)?;
            if items.is_empty() {
                items = page;
            } else {
                items.append(&mut page);
            }
        }
        Ok(items)
    }

    /// Calls `visit` with every item of the session in order, with the inputs of its link.
    ///
    /// # Errors
    /// `integrity_error`, and those of `visit`.
    pub fn for_each_chained_item(
        &self,
        session: &VerifiedSession,
        mut visit: impl FnMut(ChainedItem) -> Result<()>,
    ) -> Result<()> {
        let mut next_seq = self.view.first_seq(session.pk)?;
        // If the first items were trimmed, only the record of the first stored item contains the link before it; the
        // record's MAC covers this link.
        let mut link = (next_seq == 1).then_some(GENESIS);
        let mut redactions = Redactions::default();
        while next_seq <= session.head.last_seq {
            let rows = self.view.records(session.pk, next_seq, RECORDS_PER_READ)?;
            if rows.first().is_none_or(|r| r.first_seq != next_seq) {
                return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
            }
            for row in &rows {
                let decoded = decode_chained(row, &session.scope, self.keyring, self.check);
                let (previous, items) =
                    decoded.map_err(|fault| self.record_failure(session, &fault))?;
                if row.first_seq != next_seq || link.is_some_and(|link| previous != link) {
                    return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Gap));
                }
                for chained in items {
                    if let CommitmentProof::Erased { redaction_seq, .. } = chained.proof {
                        let pair = [(chained.item.seq, redaction_seq)];
                        self.check_contentless(session, &pair, &mut redactions)?;
                    }
                    self.check_content(session, &chained.item, &mut redactions)?;
                    next_seq = chained.item.seq + 1;
                    link = Some(chained.link);
                    visit(chained)?;
                }
            }
        }
        if link.is_none_or(|link| link != session.head.link) {
            return Err(
                session.integrity_failure(Some(session.head.last_seq), RecordFaultKind::Gap)
            );
        }
        Ok(())
    }

    /// The link of the item at `seq`; `None` when no item is stored at this seq.
    pub(crate) fn link_at(&self, session: &VerifiedSession, seq: u64) -> Result<Option<Link>> {
        let items = self.record_around(session, seq)?;
        let chained = items.into_iter().find(|i| i.item.seq == seq);
        Ok(chained.map(|chained| chained.link))
    }

    /// Whether a request has the same body as an earlier one. `stored` is the fingerprint of the earlier request, from
    /// an event of the item at `seq`; `current` is that of the new request.
    ///
    /// The result is also `true`, so that a retry is accepted, in two cases: part of the item's record is redacted, so
    /// that a comparison would reveal content; or the turn was recorded elsewhere, so that the fingerprints are not
    /// comparable.
    pub(crate) fn is_same_request(
        &self,
        session: &VerifiedSession,
        (row, seq): (&TurnRow, u64),
        stored: &[u8; 16],
        current: &[u8; 16],
    ) -> Result<bool> {
        let items = self.record_around(session, seq)?;
        // The items of one record usually belong to one request.
        if items.iter().any(|chained| chained.item.redacted) || self.is_foreign(session, row)? {
            return Ok(true);
        }
        let carrier = items.iter().find(|chained| chained.item.seq == seq);
        Ok(match carrier.map(|chained| chained.proof) {
            Some(CommitmentProof::Salt(salt)) => *stored == salted(current, &salt),
            _ => false,
        })
    }

    /// Whether a turn was recorded elsewhere, so that its fingerprints were computed with another key.
    fn is_foreign(&self, session: &VerifiedSession, row: &TurnRow) -> Result<bool> {
        if !session.head.adopted {
            return Ok(false);
        }
        let request = self.start_of(session, row)?.request_id;
        let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
        Ok(self.keyring.turn_id(tenant, name, &request) != row.turn_id)
    }

    /// The items of the newest record that begins at or before `seq`; none when there is no such record. If the session
    /// has an item at `seq`, this record contains it.
    fn record_around(&self, session: &VerifiedSession, seq: u64) -> Result<Vec<ChainedItem>> {
        let rows = self.view.records(session.pk, seq, 1)?;
        let Some(row) = rows.first().filter(|r| r.first_seq <= seq) else {
            return Ok(Vec::new());
        };
        let decoded = decode_chained(row, &session.scope, self.keyring, self.check);
        let (_, items) = decoded.map_err(|fault| self.record_failure(session, &fault))?;
        Ok(items)
    }

    /// The turn that a request started, even in an adopted session; `None` if there is none.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn turn_of_request(
        &self,
        session: &VerifiedSession,
        request: &RequestId,
    ) -> Result<Option<TurnRow>> {
        let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
        let derived = self.keyring.turn_id(tenant, name, request);
        let row = self.stored_turn(session, &derived)?;
        if row.is_some() || !session.head.adopted {
            return Ok(row);
        }
        let Some(seq) = self.view.request_seq(session.pk, request)? else {
            return Ok(None);
        };
        match self.item_at(session, seq)?.turn_id {
            Some(id) => self.stored_turn(session, &id),
            None => Err(session.integrity_failure(Some(seq), "no turn begins here")),
        }
    }
}

/// The number of records per read.
const RECORDS_PER_READ: usize = 256;

pub(super) fn memory_limit_failure() -> Failure {
    let detail = "the requested items exceed the memory limit of one request";
    Failure::new(ErrorCode::LimitExceeded, detail).with_hint(
        "ask for fewer turns, by last_turns or max_tokens; a bundle (format json) is streamed",
    )
}
