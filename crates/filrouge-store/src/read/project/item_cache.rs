//! [`ItemCache`]: the items from which turns are built.

use filrouge_types::{Channel, Item, JsonText, Result, Role, Timestamp, Turn, TurnId, TurnStatus};

use super::NewBatch;
use crate::read::lists::ListedTurn;
use crate::read::redactions::{Redactions, redacted_seqs};
use crate::read::{VerifiedSession, VerifiedSnapshot, merge_metadata};
use crate::record::{CloseEvent, Event, RecordFaultKind, RecordRow, StartEvent};
use crate::rows::{RECORDS_BYTES, TurnRow, View};

/// The maximum density for a common read: the records of a page's turns are read at once if the range from the first to
/// the last of their items has fewer than this many items per turn.
const PREFETCH_ITEMS_PER_TURN: u64 = 16;

type Entries = Vec<(Item, Vec<Event>)>;

fn contains_seq(run: &[(Item, Vec<Event>)], seq: u64) -> bool {
    let [first, last] = [run.first(), run.last()].map(|entry| entry.map(|(item, _)| item.seq));
    first.is_some_and(|first| first <= seq) && last.is_some_and(|last| seq <= last)
}

/// A cache of the items that projections have read, in runs of consecutive seqs.
pub(super) struct ItemCache<'a, 'b, V: ?Sized> {
    snapshot: &'a VerifiedSnapshot<'b, V>,
    session: &'a VerifiedSession,
    pub(super) new_batches: [Option<NewBatch<'a>>; 2],
    runs: Vec<Entries>,
    /// The index of the run in which the last lookup succeeded. The next lookup starts at this run, because turns are
    /// projected in order.
    recent: usize,
    /// The size of the records that were read one by one since the runs were last dropped.
    pub(super) bytes: usize,
    redactions: Redactions,
}

impl<'a, 'b, V: View + ?Sized> ItemCache<'a, 'b, V> {
    pub(super) fn new(snapshot: &'a VerifiedSnapshot<'b, V>, session: &'a VerifiedSession) -> Self {
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
    pub(super) fn drop_runs(&mut self) {
        self.runs.clear();
        self.recent = 0;
        self.bytes = 0;
    }

    /// Reads the records of all these turns at once, unless many other items are stored between them.
    pub(super) fn prefetch(&mut self, page: &[ListedTurn]) -> Result<()> {
        let first = page.iter().map(|t| t.row.first_seq).min().unwrap_or(0);
        let last = page.iter().map(|t| t.row.last_seq).max().unwrap_or(0);
        if page.len() < 2 || last - first >= PREFETCH_ITEMS_PER_TURN * page.len() as u64 {
            return Ok(());
        }
        self.read_range(first, last, page.len() + 1)?;
        Ok(())
    }

    /// Reads the records of the items from `first` to `last`, `limit` records at once. Stops after [`RECORDS_BYTES`] of
    /// unpacked records. Returns their size.
    pub(super) fn read_range(&mut self, first: u64, last: u64, limit: usize) -> Result<usize> {
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
        Ok(bytes)
    }

    pub(super) fn project(&mut self, row: &TurnRow, replaced_by: Option<TurnId>) -> Result<Turn> {
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

    /// Whether the item at this seq is in the cache.
    pub(super) fn contains(&self, seq: u64) -> bool {
        self.runs.iter().any(|run| contains_seq(run, seq))
    }

    /// The item at this seq with its events, from the cache or the store.
    fn entry(&mut self, seq: u64) -> Result<&(Item, Vec<Event>)> {
        let runs = (self.recent..self.runs.len()).chain(0..self.recent);
        let run_index = match runs
            .into_iter()
            .find(|index| contains_seq(&self.runs[*index], seq))
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
    fn read_record(&mut self, seq: u64) -> Result<Entries> {
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

    pub(super) fn item(&mut self, seq: u64) -> Result<&Item> {
        self.entry(seq).map(|(item, _)| item)
    }

    pub(super) fn start(&mut self, row: &TurnRow) -> Result<StartEvent> {
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

    pub(super) fn close(&mut self, row: &TurnRow) -> Result<CloseEvent> {
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
    fn deleted_at(&mut self, row: &TurnRow) -> Result<Option<Timestamp>> {
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
    fn questions(&mut self, row: &TurnRow) -> Result<[Option<JsonText>; 2]> {
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
