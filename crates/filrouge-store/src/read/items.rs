//! Pages of items.

use filrouge_types::{Item, ItemId, Result, SessionId};

use super::{Redactions, VerifiedSession, VerifiedSnapshot, genesis_for, in_session};
use crate::chain::Link;
use crate::command::Scope;
use crate::record::{RecordFaultKind, RecordRow, Seqs};
use crate::rows::{RECORDS_BYTES, SEQ_MAX, View};

/// The maximum number of records of a page's first read.
const FIRST_READ_RECORDS: usize = 32;
/// The maximum number of records of any later read.
const READ_RECORDS_MAX: usize = 4096;

/// A page of items, and the cursor of the next page.
pub type ItemPage = (Vec<Item>, Option<String>);

/// The number of records that contain the `wanted` items from seq `next_seq` on, or fewer if the page reaches its byte
/// limit first. Adds the records' sizes to `bytes`, the page's size so far.
fn records_needed(rows: &[RecordRow], next_seq: u64, wanted: usize, bytes: &mut usize) -> usize {
    let last_wanted = next_seq.saturating_add(wanted as u64) - 1;
    let mut count = 0;
    for row in rows {
        count += 1;
        *bytes += row.unpacked_len();
        if *bytes >= RECORDS_BYTES || row.last_seq() >= last_wanted {
            break;
        }
    }
    count
}

/// The average number of items per record, rounded down; at least one.
fn items_per_record(rows: &[RecordRow]) -> usize {
    let items: u64 = rows.iter().map(|r| r.count).sum();
    usize::try_from(items)
        .unwrap_or(1)
        .div_euclid(rows.len().max(1))
        .max(1)
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// A page of the items after the seq `after`.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error` with the first seq that fails verification.
    pub fn items(
        &self,
        scope: &Scope,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        let loaded = self.get(scope, session)?;
        in_session(session, self.items_of(&loaded, after, limit))
    }

    /// Like [`Self::items`], for a verified session.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn items_of(
        &self,
        session: &VerifiedSession,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        let mut page: Vec<Item> = Vec::with_capacity(limit.min(1024));
        let mut bytes = 0;
        let mut redactions = Redactions::default();
        // A value of `after` beyond the highest possible seq gives an empty page.
        let mut next_seq = (after.min(SEQ_MAX) + 1).max(self.view.first_seq(session.pk)?);
        let mut previous: Option<Link> = genesis_for(next_seq).copied();
        let mut read_limit = FIRST_READ_RECORDS;
        while next_seq <= session.head.last_seq && page.len() < limit && bytes < RECORDS_BYTES {
            let wanted = limit - page.len();
            let rows = self
                .view
                .records(session.pk, next_seq, read_limit.min(wanted))?;
            if rows.is_empty() {
                return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
            }
            let needed = records_needed(&rows, next_seq, wanted, &mut bytes);
            // Most records contain several items. The average of this read determines the size of the next one, so that
            // few records are read needlessly.
            read_limit = READ_RECORDS_MAX.min(wanted.div_ceil(items_per_record(&rows[..needed])));
            for decoded in self.decode_many(session, &rows[..needed]) {
                let decoded = decoded?;
                self.check_redactions(session, &decoded, &mut redactions)?;
                let first = decoded.items.first().map_or(0, |(i, _)| i.seq);
                let last = decoded.items.last().map_or(0, |(i, _)| i.seq);
                if first > next_seq || last < next_seq {
                    return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
                }
                if previous.is_some_and(|p| p != decoded.previous_link) {
                    return Err(session.integrity_failure(Some(first), RecordFaultKind::Gap));
                }
                previous = Some(decoded.last_link);
                let skip = usize::try_from(next_seq - first).unwrap_or(usize::MAX);
                page.extend(decoded.items.into_iter().skip(skip).map(|(item, _)| item));
                next_seq = last + 1;
            }
        }
        if next_seq > session.head.last_seq {
            self.check_end(session, next_seq - 1, previous)?;
        }
        page.truncate(limit);
        let end = page.last().map_or(after, |i| i.seq);
        let has_more = end < session.head.last_seq && !page.is_empty();
        Ok((page, has_more.then(|| end.to_string())))
    }

    /// A page of the items before the seq `before`, newest first. The cursor is the seq before which the next page ends.
    ///
    /// # Errors
    /// As [`Self::items`].
    pub fn items_before(
        &self,
        scope: &Scope,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        let loaded = self.get(scope, session)?;
        in_session(session, self.items_before_of(&loaded, before, limit))
    }

    fn items_before_of(
        &self,
        session: &VerifiedSession,
        before: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        let first = self.view.first_seq(session.pk)?.max(1);
        let last = before.saturating_sub(1).min(session.head.last_seq);
        let mut rows = (last + 1).saturating_sub(first).min(limit as u64);
        if rows == 0 {
            return Ok((Vec::new(), None));
        }
        // Seqs are dense, so the `rows` items that end at `last` begin after `last - rows`. If the limit in bytes ends
        // this page before `last`, half as many rows are read.
        loop {
            let page = self.items_of(session, last - rows, usize::try_from(rows).unwrap_or(limit));
            let (mut page, _) = page?;
            if page.last().is_some_and(|item| item.seq == last) {
                page.reverse();
                let end = page.last().map_or(first, |item| item.seq);
                return Ok((page, (end > first).then(|| end.to_string())));
            }
            rows /= 2;
            if rows == 0 {
                return Err(session.integrity_failure(Some(last), RecordFaultKind::Missing));
            }
        }
    }

    /// The item with this caller's key; `None` if the session has none.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub fn item_with_id(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: &ItemId,
    ) -> Result<Option<Item>> {
        let loaded = self.get(scope, session)?;
        let Some(seq) = self.view.item_seq(loaded.pk, id)? else {
            return Ok(None);
        };
        let item = in_session(session, self.item_at(&loaded, seq))?;
        if item.body.item_id.as_ref() != Some(id) {
            return Err(loaded.integrity_failure(Some(seq), "the item's key names another item"));
        }
        Ok(Some(item))
    }

    /// The items at those of these seqs after `after` that the session has, ascending. The cursor is the last seq of a
    /// page that its limit in bytes has ended. The caller limits the number of seqs.
    ///
    /// # Errors
    /// As [`Self::items`].
    pub fn items_at(
        &self,
        scope: &Scope,
        session: &SessionId,
        seqs: &Seqs,
        after: u64,
    ) -> Result<ItemPage> {
        let loaded = self.get(scope, session)?;
        let after = after.min(SEQ_MAX);
        let ranges = seqs
            .ranges()
            .map(|(first, last)| (first.max(after + 1), last));
        in_session(session, self.items_at_seqs(&loaded, ranges))
    }

    /// The summaries that the session's head names, newest first, without those that were trimmed and those of turns
    /// that were replaced or redacted.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn newest_summaries(&self, session: &VerifiedSession) -> Result<Vec<Item>> {
        let first = self.view.first_seq(session.pk)?;
        let mut summaries = Vec::new();
        for seq in session
            .head
            .summaries
            .iter()
            .rev()
            .filter(|seq| **seq >= first)
        {
            let item = self.item_at(session, *seq)?;
            let turn = match &item.turn_id {
                Some(id) => self.stored_turn(session, id)?,
                None => None,
            };
            let is_omitted = match turn {
                Some(turn) => turn.redacted_by != 0 || self.next_version(session, &turn)?.is_some(),
                None => false,
            };
            if !is_omitted {
                summaries.push(item);
            }
        }
        Ok(summaries)
    }

    /// Checks that the head names the last item that was read (`last`, with its link) as the newest one, and that no
    /// item is stored after it.
    fn check_end(&self, session: &VerifiedSession, last: u64, link: Option<Link>) -> Result<()> {
        if last == session.head.last_seq && link.is_some_and(|l| l != session.head.link) {
            return Err(session.integrity_failure(Some(last), RecordFaultKind::Gap));
        }
        let newest = self.view.newest_seq(session.pk)?;
        if newest != session.head.last_seq {
            let first = newest.min(session.head.last_seq) + 1;
            let detail = if newest < session.head.last_seq {
                "the item is missing"
            } else {
                "an item was added"
            };
            return Err(session.integrity_failure(Some(first), detail));
        }
        Ok(())
    }
}
