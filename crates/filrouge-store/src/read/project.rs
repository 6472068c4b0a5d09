//! Builds turns in their public form from their items (DESIGN §3).

use filrouge_types::{Channel, Failure, Item, JsonText, Role, Timestamp, Turn, TurnId, TurnStatus};

use super::lists::ListedTurn;
use super::redactions::{Redactions, redacted_seqs};
use super::span::memory_limit_failure;
use super::{VerifiedSession, VerifiedSnapshot, merge_metadata};
use crate::record::{Batch, CloseEvent, Event, RecordFaultKind, RecordRow, StartEvent};
use crate::rows::{RECORDS_BYTES, TurnRow, View};

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Builds the public record of a turn from its items.
    ///
    /// # Errors
    /// `integrity_error` when the items contradict the row.
    pub fn project(&self, session: &VerifiedSession, row: &TurnRow) -> Result<Turn, Failure> {
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
    ) -> Result<(Turn, Vec<Item>), Failure> {
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
    ) -> Result<Vec<Turn>, Failure> {
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
    ) -> Result<Turn, Failure> {
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
    ) -> Result<Option<TurnRow>, Failure> {
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
    pub fn start_of(
        &self,
        session: &VerifiedSession,
        row: &TurnRow,
    ) -> Result<StartEvent, Failure> {
        ItemCache::new(self, session).start(row)
    }

    /// The close event of a turn, from its last item.
    pub(crate) fn close_of(
        &self,
        session: &VerifiedSession,
        row: &TurnRow,
    ) -> Result<CloseEvent, Failure> {
        ItemCache::new(self, session).close(row)
    }

    /// One item of a session.
    pub(crate) fn item_at(&self, session: &VerifiedSession, seq: u64) -> Result<Item, Failure> {
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

/// The number of items that are read at once to find a turn's late ones.
const ITEMS_AT_ONCE: usize = 256;

/// The maximum density for a common read: the records of a page's turns are read at once if the range from the first to
/// the last of their items has fewer than this many items per turn.
const PREFETCH_ITEMS_PER_TURN: u64 = 16;

type Entries = Vec<(Item, Vec<Event>)>;

/// A cache of the items that projections have read, in runs of consecutive seqs.
struct ItemCache<'a, 'b, V: ?Sized> {
    snapshot: &'a VerifiedSnapshot<'b, V>,
    session: &'a VerifiedSession,
    new_batches: [Option<NewBatch<'a>>; 2],
    runs: Vec<Entries>,
    /// The index of the run in which the last lookup succeeded. The next lookup starts at this run, because turns are
    /// projected in order.
    recent: usize,
    /// The size of the records that were read one by one since the runs were last dropped.
    bytes: usize,
    redactions: Redactions,
}

impl<'a, 'b, V: View + ?Sized> ItemCache<'a, 'b, V> {
    fn new(snapshot: &'a VerifiedSnapshot<'b, V>, session: &'a VerifiedSession) -> Self {
        Self {
            snapshot,
            session,
            new_batches: [None; 2],
            runs: Vec::new(),
            recent: 0,
            bytes: 0,
            redactions: Redactions::default(),
        }
    }

    /// Drops the cached items, so that a long page needs little memory.
    fn drop_runs(&mut self) {
        self.runs.clear();
        self.recent = 0;
        self.bytes = 0;
    }

    /// Reads the records of all these turns at once, unless many other items are stored between them.
    fn prefetch(&mut self, page: &[ListedTurn]) -> Result<(), Failure> {
        let first = page.iter().map(|t| t.row.first_seq).min().unwrap_or(0);
        let last = page.iter().map(|t| t.row.last_seq).max().unwrap_or(0);
        if page.len() < 2 || last - first >= PREFETCH_ITEMS_PER_TURN * page.len() as u64 {
            return Ok(());
        }
        self.read_range(first, last, page.len() + 1)
    }

    /// Reads the records of the items from `first` to `last`, `limit` records at once. Stops after [`RECORDS_BYTES`] of
    /// unpacked records.
    fn read_range(&mut self, first: u64, last: u64, limit: usize) -> Result<(), Failure> {
        let (mut next_seq, mut bytes) = (first, 0);
        while next_seq <= last && bytes < RECORDS_BYTES {
            let rows = self
                .snapshot
                .view
                .records(self.session.pk, next_seq, limit)?;
            let wanted = rows.iter().take_while(|r| r.first_seq <= last);
            let fitting = wanted.take_while(|row| {
                let is_below_limit = bytes < RECORDS_BYTES;
                bytes += row.unpacked_len();
                is_below_limit
            });
            let count = fitting.count();
            let Some(newest) = rows[..count].last() else {
                return Err(self
                    .session
                    .integrity_failure(Some(next_seq), RecordFaultKind::Missing));
            };
            next_seq = newest.last_seq().max(next_seq) + 1;
            let decoded = self.snapshot.decode_many(self.session, &rows[..count]);
            for decoded in decoded {
                let decoded = decoded?;
                self.snapshot
                    .check_redactions(self.session, &decoded, &mut self.redactions)?;
                self.runs.push(decoded.items);
            }
        }
        Ok(())
    }

    fn project(&mut self, row: &TurnRow, replaced_by: Option<TurnId>) -> Result<Turn, Failure> {
        let start = self.start(row)?;
        let close = if row.status.is_closed() {
            Some(self.close(row)?)
        } else {
            None
        };
        let deleted_at = self.deleted_at(row)?;
        let [question_neutral, question_translated] = self.questions(row)?;
        let mut answers = [None, None];
        for (answer, seq) in answers.iter_mut().zip(row.finals) {
            if seq != 0 && row.status == TurnStatus::Finalized {
                *answer = self.item(seq)?.body.text();
            }
        }
        let [answer_neutral, answer_translated] = answers;
        let finalized_at = match close {
            Some(_) => Some(self.item(row.last_seq)?.created_at),
            None => None,
        };
        Ok(Turn {
            turn_id: row.turn_id,
            session_id: self.session.row.session_id.clone(),
            request_id: start.request_id,
            ordinal: row.ordinal,
            status: row.status,
            identity_id: start.identity_id,
            question_neutral,
            question_translated,
            answer_neutral,
            answer_translated,
            answer_translated_is_fallback: close.as_ref().is_some_and(|c| c.fallback),
            application: start.application,
            metadata: merge_metadata(
                start.metadata.as_ref(),
                close.as_ref().and_then(|c| c.metadata.as_ref()),
            ),
            first_seq: row.first_seq,
            last_seq: row.last_seq,
            record_version: row.record_version,
            replaced_by_turn_id: replaced_by,
            created_at: self.item(row.first_seq)?.created_at,
            finalized_at,
            deleted_at,
            replayed: false,
            differs: false,
        })
    }

    /// The item at this seq with its events, from the cache or the store.
    fn entry(&mut self, seq: u64) -> Result<&(Item, Vec<Event>), Failure> {
        let contains_seq = |run: &Entries| {
            run.first().is_some_and(|(i, _)| i.seq <= seq)
                && run.last().is_some_and(|(i, _)| seq <= i.seq)
        };
        let runs = (self.recent..self.runs.len()).chain(0..self.recent);
        let run_index = match runs
            .into_iter()
            .find(|index| contains_seq(&self.runs[*index]))
        {
            Some(index) => index,
            None => {
                let run = self.read_record(seq)?;
                self.runs.push(run);
                self.runs.len() - 1
            }
        };
        self.recent = run_index;
        let first = self.runs[run_index].first().map_or(seq, |(i, _)| i.seq);
        let index = usize::try_from(seq - first).unwrap_or(usize::MAX);
        self.runs[run_index].get(index).ok_or_else(|| {
            self.session
                .integrity_failure(Some(seq), RecordFaultKind::Missing)
        })
    }

    /// Reads the items of the record that contains this seq.
    fn read_record(&mut self, seq: u64) -> Result<Entries, Failure> {
        let written = |new_batch: &NewBatch<'_>| {
            let index = usize::try_from(seq.checked_sub(new_batch.first_seq)?).ok()?;
            let (turn_id, created_at) = (new_batch.turn_id, new_batch.created_at);
            new_batch
                .batch
                .written_item(index, seq, turn_id, created_at)
        };
        if let Some(entry) = self.new_batches.iter().flatten().find_map(written) {
            return Ok(vec![entry]);
        }
        let rows = self.snapshot.view.records(self.session.pk, seq, 1)?;
        let contains_seq = |row: &&RecordRow| row.first_seq <= seq && seq <= row.last_seq();
        let Some(row) = rows.first().filter(contains_seq) else {
            return Err(self
                .session
                .integrity_failure(Some(seq), RecordFaultKind::Missing));
        };
        self.bytes += row.unpacked_len();
        let decoded = self.snapshot.decode_without_redactions(self.session, row)?;
        self.snapshot
            .check_redactions(self.session, &decoded, &mut self.redactions)?;
        Ok(decoded.items)
    }

    fn item(&mut self, seq: u64) -> Result<&Item, Failure> {
        self.entry(seq).map(|(item, _)| item)
    }

    fn start(&mut self, row: &TurnRow) -> Result<StartEvent, Failure> {
        let (item, events) = self.entry(row.first_seq)?;
        let start = events.iter().find_map(|e| match e {
            Event::Start(s) if item.turn_id == Some(row.turn_id) => Some(s.as_ref().clone()),
            _ => None,
        });
        start.ok_or_else(|| {
            self.session
                .integrity_failure(Some(row.first_seq), "no turn begins here")
        })
    }

    fn close(&mut self, row: &TurnRow) -> Result<CloseEvent, Failure> {
        let (item, events) = self.entry(row.last_seq)?;
        let close = events.iter().find_map(|e| match e {
            Event::Close(c) if item.turn_id == Some(row.turn_id) && c.status == row.status => {
                Some(c.as_ref().clone())
            }
            _ => None,
        });
        close.ok_or_else(|| {
            self.session.integrity_failure(
                Some(row.last_seq),
                "the turn does not end here, although its row says so",
            )
        })
    }

    /// The time at which the turn was redacted; `None` if it was not. Fails if an older row of the turn was put back
    /// outside filrouge, and a redaction that erased the turn's first item names all items up to its last.
    fn deleted_at(&mut self, row: &TurnRow) -> Result<Option<Timestamp>, Failure> {
        if row.redacted_by == 0 {
            self.item(row.first_seq)?;
            let has_ended = row.status != TurnStatus::Open;
            if has_ended && self.redactions.cover(row.first_seq, row.last_seq) {
                let detail = "a redaction names the turn, although its row does not say so";
                return Err(self.session.integrity_failure(Some(row.first_seq), detail));
            }
            return Ok(None);
        }
        let (redaction, events) = self.entry(row.redacted_by)?;
        let at = redaction.created_at;
        let seqs = redacted_seqs(events).filter(|seqs| {
            !redaction.redacted && seqs.contains(row.first_seq) && seqs.contains(row.last_seq)
        });
        if seqs.is_none() {
            let detail = "no redaction names the turn, although its row says so";
            return Err(self.session.integrity_failure(Some(row.first_seq), detail));
        }
        let second = row.last_seq.min(row.first_seq + 1);
        let used_seqs = [row.first_seq, second, row.last_seq];
        for seq in used_seqs.into_iter().chain(row.finals).filter(|s| *s != 0) {
            let item = self.item(seq)?;
            if item.turn_id == Some(row.turn_id) && !item.redacted {
                let detail = "the item of a redacted turn has a content";
                return Err(self.session.integrity_failure(Some(seq), detail));
            }
        }
        Ok(Some(at))
    }

    /// The question's texts, neutral and translated, from the question items at the turn's start.
    fn questions(&mut self, row: &TurnRow) -> Result<[Option<JsonText>; 2], Failure> {
        let mut texts = [None, None];
        for seq in row.first_seq..=row.last_seq.min(row.first_seq + 1) {
            let item = self.item(seq)?;
            let is_question =
                item.body.role == Role::User && item.body.channel == Channel::Question;
            if !is_question || item.turn_id != Some(row.turn_id) {
                break;
            }
            let slot = &mut texts[item.body.variant.slot()];
            if slot.is_none() {
                *slot = item.body.text();
            }
        }
        Ok(texts)
    }
}
