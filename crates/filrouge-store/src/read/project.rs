//! Builds turns in their public form from their items (DESIGN §3).

mod item_cache;

use filrouge_types::{Item, Result, Timestamp, Turn, TurnId};

use super::items::ItemPage;
use super::lists::ListedTurn;
use super::span::memory_limit_failure;
use super::{VerifiedSession, VerifiedSnapshot};
use crate::record::{Batch, CloseEvent, StartEvent};
use crate::rows::{RECORDS_BYTES, TurnRow, View};
use item_cache::ItemCache;

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Builds the public record of a turn from its items.
    ///
    /// # Errors
    /// `integrity_error` when the items contradict the row.
    pub fn project(&self, session: &VerifiedSession, row: &TurnRow) -> Result<Turn> {
        let newer = self.next_version(session, row)?;
        ItemCache::new(self, session).project(row, newer.map(|n| n.turn_id))
    }

    /// Like [`Self::project`], and returns the turn's items, too. Subtracts the size of their contents, usage and
    /// metadata, and of other turns' items between them, from `remaining_bytes`. Reads each record once.
    ///
    /// # Errors
    /// `limit_exceeded` when the items are larger than `remaining_bytes`; `integrity_error`.
    pub fn project_with_items(
        &self,
        session: &VerifiedSession,
        row: &TurnRow,
        remaining_bytes: &mut usize,
    ) -> Result<(Turn, Vec<Item>)> {
        let newer = self.next_version(session, row)?;
        let mut cache = ItemCache::new(self, session);
        cache.read_range(row.first_seq, row.last_seq, RECORDS_OF_TURN)?;
        let turn = cache.project(row, newer.map(|n| n.turn_id))?;
        let mut items = Vec::new();
        for seq in row.first_seq..=row.last_seq {
            let item = cache.item(seq)?;
            let left = remaining_bytes.checked_sub(item.body.bytes());
            *remaining_bytes = left.ok_or_else(memory_limit_failure)?;
            if item.turn_id == Some(row.turn_id) {
                items.push(item.clone());
            }
        }
        // Items of other turns precede the turn's late ones.
        let mut after = row.last_seq;
        while after < row.newest_seq() {
            let page = self.items_of(session, after, ITEMS_AT_ONCE)?.0;
            after = page.last().map_or(row.newest_seq(), |item| item.seq);
            for item in page
                .into_iter()
                .filter(|item| item.turn_id == Some(row.turn_id))
            {
                let left = remaining_bytes.checked_sub(item.body.bytes());
                *remaining_bytes = left.ok_or_else(memory_limit_failure)?;
                items.push(item);
            }
        }
        Ok((turn, items))
    }

    /// Builds the public records of a page's first turns, up to the turn that reaches [`RECORDS_BYTES`]. Turns that are
    /// stored close together are read at once.
    pub(super) fn project_page(
        &self,
        session: &VerifiedSession,
        page: &[ListedTurn],
    ) -> Result<Vec<Turn>> {
        let (mut turns, mut bytes) = (Vec::new(), 0);
        let mut cache = ItemCache::new(self, session);
        for chunk in page.chunks(TURNS_AT_ONCE) {
            cache.drop_runs();
            cache.prefetch(chunk)?;
            for listed in chunk {
                if bytes >= RECORDS_BYTES {
                    return Ok(turns);
                }
                if cache.bytes >= RECORDS_BYTES {
                    cache.drop_runs();
                }
                let turn = cache.project(&listed.row, listed.replaced_by)?;
                bytes += turn_content_len(&turn);
                turns.push(turn);
            }
        }
        Ok(turns)
    }

    /// Like [`Self::project`], for a turn that this transaction has just written. `new_batch` contains the turn's
    /// newest items, so that they are not read back; the backend may have kept the first ones.
    pub(crate) fn project_with_new_batch(
        &self,
        session: &VerifiedSession,
        row: &TurnRow,
        new_batch: NewBatch<'_>,
    ) -> Result<Turn> {
        let started = self.view.started_turn(session.pk, row.first_seq);
        let first_batch = started.as_deref().map(|turn| NewBatch {
            batch: &turn.start.batch,
            turn_id: turn.turn_id,
            first_seq: turn.first_seq,
            created_at: turn.created_at,
        });
        let mut cache = ItemCache::new(self, session);
        cache.new_batches = [first_batch, Some(new_batch)];
        let newer = self.next_version(session, row)?;
        let turn = cache.project(row, newer.map(|n| n.turn_id))?;
        // A damaged store may fail to return what was written; the next read reports that failure.
        debug_assert!(
            self.project(session, row).map_or(true, |read| read == turn),
            "a written turn differs when it is read back"
        );
        Ok(turn)
    }

    /// The next version of a turn, if it was replaced.
    pub(crate) fn next_version(
        &self,
        session: &VerifiedSession,
        row: &TurnRow,
    ) -> Result<Option<TurnRow>> {
        let (from, to) = (row.place() + 1, (row.ordinal << 8) | 0xff);
        let newer = self.view.turns(session.pk, from, to, false, 1)?.pop();
        if let Some(newer) = &newer {
            self.check_turn_mac(session, newer)?;
        }
        Ok(newer)
    }

    /// The start event of a turn, from its first item.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn start_of(&self, session: &VerifiedSession, row: &TurnRow) -> Result<StartEvent> {
        ItemCache::new(self, session).start(row)
    }

    /// The close event of a turn, from its last item.
    pub(crate) fn close_of(&self, session: &VerifiedSession, row: &TurnRow) -> Result<CloseEvent> {
        ItemCache::new(self, session).close(row)
    }

    /// The items at those of these seqs that the session has, ascending. Reads each record once. The page ends when the
    /// records that were read reach [`RECORDS_BYTES`]; then the cursor is its last seq.
    pub(super) fn items_at_seqs(
        &self,
        session: &VerifiedSession,
        seqs: impl Iterator<Item = (u64, u64)>,
    ) -> Result<ItemPage> {
        let oldest = self.view.first_seq(session.pk)?;
        let newest = session.head.last_seq;
        let (mut page, mut bytes) = (Vec::new(), 0);
        let mut cache = ItemCache::new(self, session);
        for (first, last) in seqs {
            let (first, last) = (first.max(oldest), last.min(newest));
            for seq in first..=last {
                if !cache.contains(seq) {
                    if bytes >= RECORDS_BYTES {
                        let end = page.last().map(|item: &Item| item.seq.to_string());
                        return Ok((page, end));
                    }
                    // The seqs ascend, so the records read so far are not needed again.
                    cache.drop_runs();
                    let items = usize::try_from(last - seq + 1).unwrap_or(usize::MAX);
                    bytes += cache.read_range(seq, last, items.min(ITEMS_AT_ONCE))?;
                }
                page.push(cache.item(seq)?.clone());
            }
        }
        Ok((page, None))
    }

    /// One item of a session.
    pub(crate) fn item_at(&self, session: &VerifiedSession, seq: u64) -> Result<Item> {
        ItemCache::new(self, session).item(seq).cloned()
    }
}

/// A batch that the same transaction has just written.
#[derive(Clone, Copy)]
pub(crate) struct NewBatch<'a> {
    /// The batch.
    pub(crate) batch: &'a Batch,
    /// The turn of the batch.
    pub(crate) turn_id: TurnId,
    /// The seq of the batch's first item.
    pub(crate) first_seq: u64,
    /// The time of the commit.
    pub(crate) created_at: Timestamp,
}

/// The length in bytes of the content in a turn's public record: its texts, labels and metadata.
pub fn turn_content_len(turn: &Turn) -> usize {
    let texts = [
        &turn.question_neutral,
        &turn.question_translated,
        &turn.answer_neutral,
        &turn.answer_translated,
    ];
    let labels = turn.application.labels();
    let texts = texts.into_iter().flatten().map(|t| t.as_token().len());
    let labels = labels.into_iter().filter_map(|l| l.value).map(str::len);
    texts.chain(labels).sum::<usize>() + turn.metadata.as_str().len()
}

/// The number of turns of a page whose records are read at once.
const TURNS_AT_ONCE: usize = 128;

/// The number of records that are read at once for the items of one turn.
const RECORDS_OF_TURN: usize = 8;

/// The number of items that are read at once to find a turn's late ones, and of records for a range of seqs.
const ITEMS_AT_ONCE: usize = 256;
