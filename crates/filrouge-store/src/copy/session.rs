//! Copies all rows of one session. The head is written last: a session with a head is complete.

use filrouge_types::{ErrorCode, Failure};

use super::CopyRow;
use super::run::Run;
use crate::read::in_session;
use crate::rows::{EventRow, HeadRow, KeyRow, SessionPk, SessionRow, StoredSession, TurnRow, View};

/// The number of rows per read.
const PAGE: usize = 1000;

/// The data that reveals a change of a session: every write changes at least one of these fields.
#[derive(PartialEq)]
struct SessionState {
    row: SessionRow,
    head: HeadRow,
    newest_event: u64,
    /// An unreadable checkpoint can be rewritten without a change of the head, so the seqs are compared as well.
    checkpoints: Vec<u64>,
}

/// The state of a session. `None` when the state would not reveal every change: if rows are missing or malformed, or if
/// the session has open turns, whose drafts grow without a change of the head.
fn session_state<V: View + ?Sized>(
    view: &V,
    pk: SessionPk,
) -> Result<Option<SessionState>, Failure> {
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
    Ok(Some(SessionState {
        row,
        head,
        newest_event,
        checkpoints,
    }))
}

impl<V: View + ?Sized> Run<'_, '_, V> {
    /// Whether an earlier run copied the session in its current state.
    pub(super) fn is_copied(&mut self, pk: SessionPk) -> Result<bool, Failure> {
        let Some(source_state) = session_state(self.source.view, pk)? else {
            return Ok(false);
        };
        let mut copied_state = None;
        self.copy_target.with_view(&mut |view| {
            copied_state = session_state(view, pk)?;
            Ok(())
        })?;
        Ok(copied_state == Some(source_state))
    }

    /// Copies a session.
    pub(super) fn copy_session(&mut self, pk: SessionPk) -> Result<(), Failure> {
        if self.resumed {
            self.put(CopyRow::RemoveSession(pk))?;
        }
        let row_missing = || {
            let detail = format!("session number {pk} has no row; its head is left out");
            Failure::new(ErrorCode::IntegrityError, detail)
        };
        let stored = self.source.view.session_by_pk(pk);
        let stored = stored.and_then(|session| session.ok_or_else(row_missing));
        let Some(StoredSession { row, head, .. }) = self.unless_unreadable(stored)? else {
            return self.copy_rows_of(pk);
        };
        let id = row.session_id.clone();
        self.put(CopyRow::Session(pk, Box::new(row)))?;
        let rows = self.copy_rows_of(pk);
        in_session(&id, rows)?;
        match head {
            Some(head) => self.put(CopyRow::Head(pk, head)),
            // The verification of the source reports the unreadable head.
            None => Ok(()),
        }
    }

    fn copy_rows_of(&mut self, pk: SessionPk) -> Result<(), Failure> {
        self.copy_turns(pk)?;
        self.copy_records(pk)?;
        self.copy_keys(pk)?;
        self.copy_events(pk)?;
        self.copy_checkpoints(pk)?;
        self.copy_drafts(pk)?;
        let agents = self.source.view.agents(pk);
        for agent in self.unless_unreadable(agents)?.unwrap_or_default() {
            self.put(CopyRow::Agent(pk, agent))?;
        }
        Ok(())
    }

    /// Copies the rows of all pages, until a page is empty or unreadable, or does not advance the cursor.
    fn copy_pages<T, C: Copy + PartialOrd>(
        &mut self,
        mut cursor: C,
        read_page: impl Fn(&V, C) -> Result<Vec<T>, Failure>,
        cursor_after: impl Fn(&T) -> C,
        to_copy_row: impl Fn(T) -> CopyRow,
    ) -> Result<(), Failure> {
        loop {
            let rows = read_page(self.source.view, cursor);
            let rows = self.unless_unreadable(rows)?.unwrap_or_default();
            let Some(next) = rows.last().map(&cursor_after).filter(|next| *next > cursor) else {
                return Ok(());
            };
            cursor = next;
            for row in rows {
                self.put(to_copy_row(row))?;
            }
        }
    }

    fn copy_turns(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, from| view.turns(pk, from, PLACE_MAX, false, PAGE);
        let cursor_after = |row: &TurnRow| row.place() + 1;
        self.copy_pages(0, page, cursor_after, |row| CopyRow::Turn(pk, row))
    }

    fn copy_records(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let (mut next_seq, mut newest_first_seq) = (1, None);
        loop {
            let rows = self.source.view.records(pk, next_seq, PAGE);
            let mut rows = self.unless_unreadable(rows)?.unwrap_or_default();
            rows.retain(|row| Some(row.first_seq) > newest_first_seq);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            newest_first_seq = Some(last.first_seq);
            next_seq = last.last_seq().max(last.first_seq) + 1;
            for row in rows {
                self.put(CopyRow::Record(pk, row))?;
            }
        }
    }

    fn copy_keys(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, after| view.key_rows(pk, after, PAGE);
        let cursor_after = |row: &KeyRow| Some(row.key);
        self.copy_pages(None, page, cursor_after, |row| CopyRow::Key(pk, row))
    }

    fn copy_events(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, after| view.events(pk, after, PAGE);
        let cursor_after = |row: &EventRow| row.number;
        self.copy_pages(0, page, cursor_after, |row| CopyRow::Event(pk, row))
    }

    fn copy_checkpoints(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let seqs = self.source.view.checkpoint_seqs(pk);
        for seq in self.unless_unreadable(seqs)?.unwrap_or_default() {
            let row = self.source.view.checkpoint(pk, seq);
            if let Some(row) = self.unless_unreadable(row)?.flatten() {
                self.put(CopyRow::Checkpoint(pk, row))?;
            }
        }
        Ok(())
    }

    fn copy_drafts(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let drafts = self.source.view.drafts(pk);
        for draft in self.unless_unreadable(drafts)?.unwrap_or_default() {
            let place = draft.place;
            let chunks = self.source.view.draft_chunks(pk, place, 0);
            for chunk in self.unless_unreadable(chunks)?.unwrap_or_default() {
                self.put(CopyRow::Chunk(pk, place, chunk))?;
            }
            self.put(CopyRow::Draft(pk, draft))?;
        }
        Ok(())
    }
}

/// The highest place of a turn.
const PLACE_MAX: u64 = crate::read::ALL_PLACES.1;
