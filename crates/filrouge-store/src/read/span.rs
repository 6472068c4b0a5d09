//! Turns and items of a span, for whoever restores a conversation: rows first, then the items they stand for.

use filrouge_types::{ErrorCode, Failure, Item, RequestId};

use super::{ALL_PLACES, Loaded, Redactions, Sight};
use crate::chain::{GENESIS, Link};
use crate::record::{ChainedItem, FaultKind, Proof, decode_chained, salted};
use crate::rows::{TurnRow, View};

impl<V: View + ?Sized> Sight<'_, V> {
    /// Turn rows from the newest back, at most `limit`, below `before` (the place of the last one of the span
    /// before), with every version of each turn. An empty answer means that all were seen.
    ///
    /// # Errors
    /// `integrity_error` when a row was changed or one is missing.
    pub fn turn_rows_back(
        &self,
        session: &Loaded,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<TurnRow>, Failure> {
        let to = match before {
            Some(0) => return Ok(Vec::new()),
            Some(place) => place - 1,
            None => ALL_PLACES.1,
        };
        let found = self.view.turns(session.pk, ALL_PLACES.0, to, true, limit)?;
        let exhausted = found.len() < limit;
        // The place that the next older row must have: a version less, or any version of the turn before.
        let mut above = before.unwrap_or((session.head.turn_count + 1) << 8);
        let mut rows = Vec::with_capacity(found.len());
        for row in found {
            let place = row.place();
            let follows = if above & 0xff == 0 {
                place >> 8 == (above >> 8) - 1
            } else {
                place == above - 1
            };
            if !follows {
                let missing = if above & 0xff == 0 {
                    (above >> 8) - 1
                } else {
                    above >> 8
                };
                return Err(session.broken(None, format!("turn {missing} is missing")));
            }
            above = place;
            rows.push(self.verified_turn(session, row)?);
        }
        if exhausted {
            if above != self.view.first_ordinal(session.pk)? << 8 {
                return Err(session.broken(None, "turns are missing"));
            }
            self.all_turn_rows(session)?;
        }
        Ok(rows)
    }

    /// The items from `first` to `last`, whole and in order, as long as their contents, usage and metadata stay
    /// within `room` bytes, which what was read is taken from.
    ///
    /// # Errors
    /// `limit_exceeded` when there is not enough room, `integrity_error`.
    pub fn items_between(
        &self,
        session: &Loaded,
        first: u64,
        last: u64,
        room: &mut usize,
    ) -> Result<Vec<Item>, Failure> {
        let mut items: Vec<Item> = Vec::new();
        // What went before the first item that is here is not asked for.
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
            *room = room.checked_sub(bytes).ok_or_else(no_room)?;
            if items.is_empty() {
                items = page;
            } else {
                items.append(&mut page);
            }
        }
        Ok(items)
    }

    /// Shows every item of the session in order, with what its link is made of.
    ///
    /// # Errors
    /// `integrity_error`, and those of `see`.
    pub fn each_chained(
        &self,
        session: &Loaded,
        mut see: impl FnMut(ChainedItem) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut next = self.view.first_seq(session.pk)?;
        // What went before the first item that is here stands in its record, under the MAC.
        let mut link = (next == 1).then_some(GENESIS);
        let mut known = Redactions::default();
        while next <= session.head.last_seq {
            let rows = self.view.records(session.pk, next, RECORDS)?;
            if rows.first().is_none_or(|r| r.first_seq != next) {
                return Err(session.broken(Some(next), FaultKind::Missing));
            }
            for row in &rows {
                let decoded = decode_chained(row, &session.scope, self.keyring, self.check);
                let (previous, items) = decoded.map_err(|fault| self.fault(session, &fault))?;
                if row.first_seq != next || link.is_some_and(|link| previous != link) {
                    return Err(session.broken(Some(next), FaultKind::Gap));
                }
                for one in items {
                    if let Proof::Erased { redaction_seq, .. } = one.proof {
                        let pair = [(one.item.seq, redaction_seq)];
                        self.check_redactions(session, &pair, &mut known)?;
                    }
                    next = one.item.seq + 1;
                    link = Some(one.link);
                    see(one)?;
                }
            }
        }
        if link.is_none_or(|link| link != session.head.link) {
            return Err(session.broken(Some(session.head.last_seq), FaultKind::Gap));
        }
        Ok(())
    }

    /// The link of the item at `seq`; `None` when the session does not reach so far.
    pub(crate) fn link_at(&self, session: &Loaded, seq: u64) -> Result<Option<Link>, Failure> {
        Ok(self.chained_at(session, seq)?.map(|one| one.link))
    }

    /// Whether the request that left `stored` in the item at `seq` had the same body as the one `asked` is of. Once
    /// something of it is redacted nobody is told, and of what was recorded elsewhere nobody can tell; a retry is then
    /// taken for what it says it is.
    pub(crate) fn same_request(
        &self,
        session: &Loaded,
        (row, seq): (&TurnRow, u64),
        stored: &[u8; 16],
        asked: &[u8; 16],
    ) -> Result<bool, Failure> {
        let items = self.record_around(session, seq)?;
        // What was written with the item was of the same request, mostly.
        if items.iter().any(|one| one.item.redacted) || self.is_foreign(session, row)? {
            return Ok(true);
        }
        let own = items.iter().find(|one| one.item.seq == seq);
        Ok(match own.map(|one| one.proof) {
            Some(Proof::Salt(salt)) => *stored == salted(asked, &salt),
            _ => false,
        })
    }

    /// Whether a turn was recorded elsewhere: its fingerprints are under another key.
    fn is_foreign(&self, session: &Loaded, row: &TurnRow) -> Result<bool, Failure> {
        if !session.head.adopted {
            return Ok(false);
        }
        let request = self.start_of(session, row)?.request_id;
        let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
        Ok(self.keyring.turn_id(tenant, name, &request) != row.turn_id)
    }

    fn chained_at(&self, session: &Loaded, seq: u64) -> Result<Option<ChainedItem>, Failure> {
        let items = self.record_around(session, seq)?;
        Ok(items.into_iter().find(|i| i.item.seq == seq))
    }

    /// The items of the record that holds `seq`; none when the session does not reach so far.
    fn record_around(&self, session: &Loaded, seq: u64) -> Result<Vec<ChainedItem>, Failure> {
        let rows = self.view.records(session.pk, seq, 1)?;
        let Some(row) = rows.first().filter(|r| r.first_seq <= seq) else {
            return Ok(Vec::new());
        };
        let decoded = decode_chained(row, &session.scope, self.keyring, self.check);
        let (_, items) = decoded.map_err(|fault| self.fault(session, &fault))?;
        Ok(items)
    }

    /// The turn of a request, if there is one; also in a session that was taken in from elsewhere.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn turn_of_request(
        &self,
        session: &Loaded,
        request: &RequestId,
    ) -> Result<Option<TurnRow>, Failure> {
        let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
        let derived = self.keyring.turn_id(tenant, name, request);
        let found = self.known_turn(session, &derived)?;
        if found.is_some() || !session.head.adopted {
            return Ok(found);
        }
        let Some(seq) = self.view.request_seq(session.pk, request)? else {
            return Ok(None);
        };
        match self.item_at(session, seq)?.turn_id {
            Some(id) => self.known_turn(session, &id),
            None => Err(session.broken(Some(seq), "no turn begins here")),
        }
    }
}

/// Records read at once.
const RECORDS: usize = 256;

fn no_room() -> Failure {
    let what = "the items asked for are more than are held in memory at once";
    Failure::new(ErrorCode::LimitExceeded, what)
        .with_hint("ask for fewer turns, by last_turns or max_tokens; a bundle (format json) is written as it is read")
}
