//! All rows of one session. Its head goes last: a session with its head is whole.

use filrouge_types::{ErrorCode, Failure};

use super::Piece;
use super::run::Run;
use crate::read::in_session;
use crate::rows::{EventRow, HeadRow, KeyRow, SessionPk, SessionRow, Stored, TurnRow, View};

/// Rows that are read at once.
const PAGE: usize = 1000;

/// What every write to a session changes.
#[derive(PartialEq)]
struct State {
    row: SessionRow,
    head: HeadRow,
    newest_event: u64,
    /// One that could not be read is put again without a change of the head.
    checkpoints: Vec<u64>,
}

/// How a session stands; `None` when that cannot be told by its head alone: rows are missing or malformed, or there
/// may be drafts, which grow beside the head.
fn state<V: View + ?Sized>(view: &V, pk: SessionPk) -> Result<Option<State>, Failure> {
    let stored = match view.session_by_pk(pk) {
        Err(failure) if failure.code == ErrorCode::IntegrityError => return Ok(None),
        stored => stored?,
    };
    let Some(Stored { row, head, .. }) = stored else {
        return Ok(None);
    };
    let Some(head) = head.filter(|head| head.open_turns == 0) else {
        return Ok(None);
    };
    let beside =
        || -> Result<_, Failure> { Ok((view.newest_event(pk)?, view.checkpoint_seqs(pk)?)) };
    let (newest_event, checkpoints) = match beside() {
        Err(failure) if failure.code == ErrorCode::IntegrityError => return Ok(None),
        beside => beside?,
    };
    Ok(Some(State {
        row,
        head,
        newest_event,
        checkpoints,
    }))
}

impl<V: View + ?Sized> Run<'_, '_, V> {
    /// Whether an earlier run has copied the session as it is now.
    pub(super) fn is_copied(&mut self, pk: SessionPk) -> Result<bool, Failure> {
        let Some(now) = state(self.source.view, pk)? else {
            return Ok(false);
        };
        let mut then = None;
        self.intake.look(&mut |view| {
            then = state(view, pk)?;
            Ok(())
        })?;
        Ok(then == Some(now))
    }

    /// Copies a session.
    pub(super) fn session(&mut self, pk: SessionPk) -> Result<(), Failure> {
        if self.resumed {
            self.put(Piece::Gone(pk))?;
        }
        let without = || {
            let what = format!("session number {pk} has no row; its head is left out");
            Failure::new(ErrorCode::IntegrityError, what)
        };
        let stored = self.source.view.session_by_pk(pk);
        let stored = stored.and_then(|found| found.ok_or_else(without));
        let Some(Stored { row, head, .. }) = self.readable(stored)? else {
            return self.rows_of(pk);
        };
        let id = row.session_id.clone();
        self.put(Piece::Session(pk, Box::new(row)))?;
        let rows = self.rows_of(pk);
        in_session(&id, rows)?;
        match head {
            Some(head) => self.put(Piece::Head(pk, head)),
            // What it has become is a finding of the source.
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
            self.put(Piece::Agent(pk, agent))?;
        }
        Ok(())
    }

    /// Puts the rows of all pages; a page that cannot be read, or leads no further, is the last one.
    fn pages<T, C: Copy + PartialOrd>(
        &mut self,
        mut at: C,
        page: impl Fn(&V, C) -> Result<Vec<T>, Failure>,
        behind: impl Fn(&T) -> C,
        piece: impl Fn(T) -> Piece,
    ) -> Result<(), Failure> {
        loop {
            let rows = page(self.source.view, at);
            let rows = self.readable(rows)?.unwrap_or_default();
            let Some(next) = rows.last().map(&behind).filter(|next| *next > at) else {
                return Ok(());
            };
            at = next;
            for row in rows {
                self.put(piece(row))?;
            }
        }
    }

    fn turns(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, from| view.turns(pk, from, PLACE_MAX, false, PAGE);
        let behind = |row: &TurnRow| row.place() + 1;
        self.pages(0, page, behind, |row| Piece::Turn(pk, row))
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
                self.put(Piece::Record(pk, row))?;
            }
        }
    }

    fn keys(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, after| view.key_rows(pk, after, PAGE);
        let behind = |row: &KeyRow| Some(row.key);
        self.pages(None, page, behind, |row| Piece::Key(pk, row))
    }

    fn events(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let page = |view: &V, after| view.events(pk, after, PAGE);
        let behind = |row: &EventRow| row.number;
        self.pages(0, page, behind, |row| Piece::Event(pk, row))
    }

    fn checkpoints(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let seqs = self.source.view.checkpoint_seqs(pk);
        for seq in self.readable(seqs)?.unwrap_or_default() {
            let row = self.source.view.checkpoint(pk, seq);
            if let Some(row) = self.readable(row)?.flatten() {
                self.put(Piece::Checkpoint(pk, row))?;
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
                self.put(Piece::Chunk(pk, place, chunk))?;
            }
            self.put(Piece::Draft(pk, draft))?;
        }
        Ok(())
    }
}

/// The highest place of a turn.
const PLACE_MAX: u64 = crate::read::ALL_PLACES.1;
