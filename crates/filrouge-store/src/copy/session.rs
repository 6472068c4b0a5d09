//! Copies all rows of one session. The head is written last: a session with a head is complete.

use filrouge_types::{ErrorCode, Failure};

use super::CopyRow;
use super::run::Run;
use crate::read::in_session;
use crate::rows::{EventRow, HeadRow, KeyRow, SessionPk, SessionRow, StoredSession, TurnRow, View};

/// The number of rows per read.
const PAGE: usize = 1000;

/// The data of a session by which a change is recognized: every write changes at least one of these fields.
#[derive(PartialEq)]
struct State {
    row: SessionRow,
    head: HeadRow,
    newest_event: u64,
    /// An unreadable checkpoint can be rewritten without a change of the head, so the seqs are compared as well.
    checkpoints: Vec<u64>,
}

/// The state of a session. `None` when a state would not reveal every change, because rows are missing or malformed or
/// because the session has open turns, whose drafts grow without a change of the head.
fn state<V: View + ?Sized>(view: &V, pk: SessionPk) -> Result<Option<State>, Failure> {
    let stored = match view.session_by_pk(pk) {
        Err(failure) if failure.code == ErrorCode::IntegrityError => return Ok(None),
        stored => stored?,
    };
    let Some(StoredSession { row, head, .. }) = stored else {
        return Ok(None);
    };
    let Some(head) = head.filter(|head| head.open_turns == 0) else {
        return Ok(None);
    };
    let side_rows =
        || -> Result<_, Failure> { Ok((view.newest_event(pk)?, view.checkpoint_seqs(pk)?)) };
    let (newest_event, checkpoints) = match side_rows() {
        Err(failure) if failure.code == ErrorCode::IntegrityError => return Ok(None),
        side_rows => side_rows?,
    };
    Ok(Some(State {
        row,
        head,
        newest_event,
        checkpoints,
    }))
}

impl<V: View + ?Sized> Run<'_, '_, V> {
    /// Whether an earlier run copied the session in its current state.
    pub(super) fn is_copied(&mut self, pk: SessionPk) -> Result<bool, Failure> {
        let Some(now) = state(self.source.view, pk)? else {
            return Ok(false);
        };
        let mut then = None;
        self.copy_target.with_view(&mut |view| {
            then = state(view, pk)?;
            Ok(())
        })?;
        Ok(then == Some(now))
    }

    /// Copies a session.
    pub(super) fn session(&mut self, pk: SessionPk) -> Result<(), Failure> {
        if self.resumed {
            self.put(CopyRow::RemoveSession(pk))?;
        }
        let row_missing = || {
            let what = format!("session number {pk} has no row; its head is left out");
            Failure::new(ErrorCode::IntegrityError, what)
        };
        let stored = self.source.view.session_by_pk(pk);
        let stored = stored.and_then(|found| found.ok_or_else(row_missing));
        let Some(StoredSession { row, head, .. }) = self.readable(stored)? else {
            return self.rows_of(pk);
        };
        let id = row.session_id.clone();
        self.put(CopyRow::Session(pk, Box::new(row)))?;
        let rows = self.rows_of(pk);
        in_session(&id, rows)?;
        match head {
            Some(head) => self.put(CopyRow::Head(pk, head)),
            // The verification of the source reports the unreadable head.
            None => Ok(()),
        }
    }

    fn rows_of(&mut self, pk: SessionPk) -> Result<(), Failure> {
        self.turns(pk)?;
        self.records(pk)?;
        self.keys(pk)?;
        self.events(pk)?;
        self.checkpoints(pk)?;
        self.drafts(pk)?;
        let agents = self.source.view.agents(pk);
        for agent in self.readable(agents)?.unwrap_or_default() {
            self.put(CopyRow::Agent(pk, agent))?;
        }
        Ok(())
    }

    /// Writes the rows of all pages, until a page is empty or unreadable or does not advance the cursor.
    fn pages<T, C: Copy + PartialOrd>(
        &mut self,
        mut at: C,
        page: impl Fn(&V, C) -> Result<Vec<T>, Failure>,
        cursor_after: impl Fn(&T) -> C,
        to_copy_row: impl Fn(T) -> CopyRow,
    ) -> Result<(), Failure> {
        loop {
            let rows = page(self.source.view, at);
            let rows = self.readable(rows)?.unwrap_or_default();
            let Some(next) = rows.last().map(&cursor_after).filter(|next| *next > at) else {
                return Ok(());
            };
            at = next;
            for row in rows {
                self.put(to_copy_row(row))?;
            }
        }
    }

    fn turns(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, from| view.turns(pk, from, PLACE_MAX, false, PAGE);
        let cursor_after = |row: &TurnRow| row.place() + 1;
        self.pages(0, page, cursor_after, |row| CopyRow::Turn(pk, row))
    }

    fn records(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let (mut next, mut newest) = (1, None);
        loop {
            let rows = self.source.view.records(pk, next, PAGE);
            let mut rows = self.readable(rows)?.unwrap_or_default();
            rows.retain(|row| Some(row.first_seq) > newest);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            newest = Some(last.first_seq);
            next = last.last_seq().max(last.first_seq) + 1;
            for row in rows {
                self.put(CopyRow::Record(pk, row))?;
            }
        }
    }

    fn keys(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, after| view.key_rows(pk, after, PAGE);
        let cursor_after = |row: &KeyRow| Some(row.key);
        self.pages(None, page, cursor_after, |row| CopyRow::Key(pk, row))
    }

    fn events(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, after| view.events(pk, after, PAGE);
        let cursor_after = |row: &EventRow| row.number;
        self.pages(0, page, cursor_after, |row| CopyRow::Event(pk, row))
    }

    fn checkpoints(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let seqs = self.source.view.checkpoint_seqs(pk);
        for seq in self.readable(seqs)?.unwrap_or_default() {
            let row = self.source.view.checkpoint(pk, seq);
            if let Some(row) = self.readable(row)?.flatten() {
                self.put(CopyRow::Checkpoint(pk, row))?;
            }
        }
        Ok(())
    }

    fn drafts(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let drafts = self.source.view.drafts(pk);
        for draft in self.readable(drafts)?.unwrap_or_default() {
            let place = draft.place;
            let chunks = self.source.view.draft_chunks(pk, place, 0);
            for chunk in self.readable(chunks)?.unwrap_or_default() {
                self.put(CopyRow::Chunk(pk, place, chunk))?;
            }
            self.put(CopyRow::Draft(pk, draft))?;
        }
        Ok(())
    }
}

/// The highest place of a turn.
const PLACE_MAX: u64 = crate::read::ALL_PLACES.1;
