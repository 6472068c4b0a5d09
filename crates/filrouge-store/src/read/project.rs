//! Turns as callers see them: projections over their items (DESIGN §3).

use filrouge_types::{Channel, Failure, Item, JsonText, Role, Timestamp, Turn, TurnId, TurnStatus};

use super::lists::Listed;
use super::redactions::{Redactions, named_by};
use super::{Loaded, Sight, merged};
use crate::record::{Batch, CloseEvent, Event, FaultKind, RecordRow, StartEvent};
use crate::rows::{RECORDS_BYTES, TurnRow, View};

impl<V: View + ?Sized> Sight<'_, V> {
    /// The public record of a turn, from its items.
    ///
    /// # Errors
    /// `integrity_error` when the items and the row do not agree.
    pub fn project(&self, session: &Loaded, row: &TurnRow) -> Result<Turn, Failure> {
        let newer = self.next_version(session, row)?;
        Pages::new(self, session).project(row, newer.map(|n| n.turn_id))
    }

    /// The public records of the first turns of a page, up to and with the one that fills [`RECORDS_BYTES`]. Turns
    /// that lie close together are read in one go.
    pub(super) fn project_page(
        &self,
        session: &Loaded,
        page: &[Listed],
    ) -> Result<Vec<Turn>, Failure> {
        let (mut turns, mut bytes) = (Vec::new(), 0);
        let mut pages = Pages::new(self, session);
        for chunk in page.chunks(TURNS_AT_ONCE) {
            pages.forget();
            pages.prefetch(chunk)?;
            for listed in chunk {
                if bytes >= RECORDS_BYTES {
                    return Ok(turns);
                }
                if pages.bytes >= RECORDS_BYTES {
                    pages.forget();
                }
                let turn = pages.project(&listed.row, listed.replaced_by)?;
                bytes += turn_len(&turn);
                turns.push(turn);
            }
        }
        Ok(turns)
    }

    /// As [`Self::project`], for a turn that has just been written to: what was put need not be read back.
    pub(crate) fn project_fresh(
        &self,
        session: &Loaded,
        row: &TurnRow,
        fresh: Fresh<'_>,
    ) -> Result<Turn, Failure> {
        let mut pages = Pages::new(self, session);
        pages.fresh = Some(fresh);
        let newer = self.next_version(session, row)?;
        let turn = pages.project(row, newer.map(|n| n.turn_id))?;
        // A damaged store may not read back what it took; that is for the next read to say.
        debug_assert!(
            self.project(session, row).map_or(true, |read| read == turn),
            "a written turn reads back otherwise"
        );
        Ok(turn)
    }

    /// The next version of a turn, if it was replaced.
    pub(crate) fn next_version(
        &self,
        session: &Loaded,
        row: &TurnRow,
    ) -> Result<Option<TurnRow>, Failure> {
        let (from, to) = (row.place() + 1, (row.ordinal << 8) | 0xff);
        let newer = self.view.turns(session.pk, from, to, false, 1)?.pop();
        if let Some(newer) = &newer {
            self.authentic(session, newer)?;
        }
        Ok(newer)
    }

    /// What started a turn.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn start_of(&self, session: &Loaded, row: &TurnRow) -> Result<StartEvent, Failure> {
        Pages::new(self, session).start(row)
    }

    /// What closed a turn.
    pub(crate) fn close_of(&self, session: &Loaded, row: &TurnRow) -> Result<CloseEvent, Failure> {
        Pages::new(self, session).close(row)
    }

    /// One item of a session.
    pub(crate) fn item_at(&self, session: &Loaded, seq: u64) -> Result<Item, Failure> {
        Pages::new(self, session).item(seq).cloned()
    }
}

/// A batch that was put a moment ago, in the same transaction.
#[derive(Clone, Copy)]
pub(crate) struct Fresh<'a> {
    /// The batch.
    pub(crate) batch: &'a Batch,
    /// Its turn.
    pub(crate) turn_id: TurnId,
    /// The seq of its first item.
    pub(crate) first_seq: u64,
    /// The time of the commit.
    pub(crate) created_at: Timestamp,
}

/// The bytes of what callers wrote in a turn's public record: its texts, labels and metadata.
#[must_use]
pub fn turn_len(turn: &Turn) -> usize {
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

/// Turns of a page whose records are read in one go.
const TURNS_AT_ONCE: usize = 128;

/// Items a turn, on average, up to which a page's turns are read in one go.
const CLOSE_BY: u64 = 16;

type Entries = Vec<(Item, Vec<Event>)>;

/// The items a projection has looked at, in runs of consecutive seqs.
struct Pages<'a, 'b, V: ?Sized> {
    sight: &'a Sight<'b, V>,
    session: &'a Loaded,
    fresh: Option<Fresh<'a>>,
    runs: Vec<Entries>,
    /// Where the last one was found: turns are projected in order.
    recent: usize,
    /// Bytes of the records that were looked at one by one since the runs were last dropped.
    bytes: usize,
    redactions: Redactions,
}

impl<'a, 'b, V: View + ?Sized> Pages<'a, 'b, V> {
    fn new(sight: &'a Sight<'b, V>, session: &'a Loaded) -> Self {
        Self {
            sight,
            session,
            fresh: None,
            runs: Vec::new(),
            recent: 0,
            bytes: 0,
            redactions: Redactions::default(),
        }
    }

    /// Drops the items, which bounds what a long page holds.
    fn forget(&mut self) {
        self.runs.clear();
        self.recent = 0;
        self.bytes = 0;
    }

    /// Reads the records of all these turns at once, when few others lie between them; of large ones the first, up
    /// to [`RECORDS_BYTES`] unpacked.
    fn prefetch(&mut self, page: &[Listed]) -> Result<(), Failure> {
        let first = page.iter().map(|t| t.row.first_seq).min().unwrap_or(0);
        let last = page.iter().map(|t| t.row.last_seq).max().unwrap_or(0);
        if page.len() < 2 || last - first >= CLOSE_BY * page.len() as u64 {
            return Ok(());
        }
        let (mut next, mut bytes) = (first, 0);
        while next <= last && bytes < RECORDS_BYTES {
            let rows = self
                .sight
                .view
                .records(self.session.pk, next, page.len() + 1)?;
            let wanted = rows.iter().take_while(|r| r.first_seq <= last);
            let fitting = wanted.take_while(|row| {
                let before = bytes;
                bytes += row.unpacked_len();
                before < RECORDS_BYTES
            });
            let taken = fitting.count();
            let Some(newest) = rows[..taken].last() else {
                return Err(self.session.broken(Some(next), FaultKind::Missing));
            };
            next = newest.last_seq().max(next) + 1;
            let decoded = self.sight.decode_many(self.session, &rows[..taken]);
            for decoded in decoded {
                let decoded = decoded?;
                self.sight.check_redactions(
                    self.session,
                    &decoded.redacted,
                    &mut self.redactions,
                )?;
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
            metadata: merged(
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

    fn entry(&mut self, seq: u64) -> Result<&(Item, Vec<Event>), Failure> {
        let holds = |run: &Entries| {
            run.first().is_some_and(|(i, _)| i.seq <= seq)
                && run.last().is_some_and(|(i, _)| seq <= i.seq)
        };
        let runs = (self.recent..self.runs.len()).chain(0..self.recent);
        let at = match runs.into_iter().find(|at| holds(&self.runs[*at])) {
            Some(at) => at,
            None => {
                let run = self.load(seq)?;
                self.runs.push(run);
                self.runs.len() - 1
            }
        };
        self.recent = at;
        let first = self.runs[at].first().map_or(seq, |(i, _)| i.seq);
        let index = usize::try_from(seq - first).unwrap_or(usize::MAX);
        self.runs[at]
            .get(index)
            .ok_or_else(|| self.session.broken(Some(seq), FaultKind::Missing))
    }

    fn load(&mut self, seq: u64) -> Result<Entries, Failure> {
        if let Some(fresh) = &self.fresh
            && let Some(index) = seq.checked_sub(fresh.first_seq)
            && let Some(entry) = fresh.batch.placed(
                usize::try_from(index).unwrap_or(usize::MAX),
                seq,
                fresh.turn_id,
                fresh.created_at,
            )
        {
            return Ok(vec![entry]);
        }
        let rows = self.sight.view.records(self.session.pk, seq, 1)?;
        let holds = |row: &&RecordRow| row.first_seq <= seq && seq <= row.last_seq();
        let Some(row) = rows.first().filter(holds) else {
            return Err(self.session.broken(Some(seq), FaultKind::Missing));
        };
        self.bytes += row.unpacked_len();
        let decoded = self.sight.decode_alone(self.session, row)?;
        self.sight
            .check_redactions(self.session, &decoded.redacted, &mut self.redactions)?;
        Ok(decoded.items)
    }

    fn item(&mut self, seq: u64) -> Result<&Item, Failure> {
        self.entry(seq).map(|(item, _)| item)
    }

    fn start(&mut self, row: &TurnRow) -> Result<StartEvent, Failure> {
        let (item, events) = self.entry(row.first_seq)?;
        let found = events.iter().find_map(|e| match e {
            Event::Start(s) if item.turn_id == Some(row.turn_id) => Some(s.as_ref().clone()),
            _ => None,
        });
        found.ok_or_else(|| {
            self.session
                .broken(Some(row.first_seq), "no turn begins here")
        })
    }

    fn close(&mut self, row: &TurnRow) -> Result<CloseEvent, Failure> {
        let (item, events) = self.entry(row.last_seq)?;
        let found = events.iter().find_map(|e| match e {
            Event::Close(c) if item.turn_id == Some(row.turn_id) && c.status == row.status => {
                Some(c.as_ref().clone())
            }
            _ => None,
        });
        found.ok_or_else(|| {
            self.session.broken(
                Some(row.last_seq),
                "the turn does not end here as its row says",
            )
        })
    }

    /// When the turn was redacted. What a projection shows of such a turn must be without content: a record that
    /// was put back has one.
    fn deleted_at(&mut self, row: &TurnRow) -> Result<Option<Timestamp>, Failure> {
        if row.redacted_by == 0 {
            return Ok(None);
        }
        let (redaction, events) = self.entry(row.redacted_by)?;
        let at = redaction.created_at;
        let named = named_by(events).filter(|seqs| {
            !redaction.redacted && seqs.contains(row.first_seq) && seqs.contains(row.last_seq)
        });
        if named.is_none() {
            let what = "no redaction names the turn as its row says";
            return Err(self.session.broken(Some(row.first_seq), what));
        }
        let second = row.last_seq.min(row.first_seq + 1);
        let shown = [row.first_seq, second, row.last_seq];
        for seq in shown.into_iter().chain(row.finals).filter(|s| *s != 0) {
            let item = self.item(seq)?;
            if item.turn_id == Some(row.turn_id) && !item.redacted {
                let what = "the item of a redacted turn has a content";
                return Err(self.session.broken(Some(seq), what));
            }
        }
        Ok(Some(at))
    }

    /// The question's texts, neutral and translated: the question items that the turn begins with.
    fn questions(&mut self, row: &TurnRow) -> Result<[Option<JsonText>; 2], Failure> {
        let mut texts = [None, None];
        for seq in row.first_seq..=row.last_seq.min(row.first_seq + 1) {
            let item = self.item(seq)?;
            let asked = item.body.role == Role::User && item.body.channel == Channel::Question;
            if !asked || item.turn_id != Some(row.turn_id) {
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
