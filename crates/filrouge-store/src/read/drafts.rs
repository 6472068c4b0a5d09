//! Drafts, verified.

use std::collections::BTreeMap;

use filrouge_types::{Failure, SessionId, Timestamp, TurnId};

use super::{Loaded, Sight, in_session};
use crate::command::Scope;
use crate::draft::{Delta, Piece, StreamId, assemble};
use crate::rows::{DraftChunk, DraftRow, TurnRow, View};

/// What has come to a draft behind what its reader knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftNews {
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: StreamId,
    /// The process that records.
    pub writer: Box<str>,
    /// When the recording began.
    pub begun_at: Timestamp,
    /// When its writer last gave a sign of life.
    pub beat_at: Timestamp,
    /// The number of its newest chunk: what the reader knows from now on.
    pub chunk: u64,
    /// Whether the deltas are all that the draft has, rather than what came behind the reader's chunk.
    pub whole: bool,
    /// What has come.
    pub deltas: Vec<Delta>,
}

impl<V: View + ?Sized> Sight<'_, V> {
    /// The drafts of a session's turns: of a recording whose chunks the reader has up to a number, what came behind
    /// it; of another, or when that is not kept any more, all of it.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, `key_missing`.
    pub fn drafts(
        &self,
        scope: &Scope,
        id: &SessionId,
        known: &BTreeMap<StreamId, u64>,
    ) -> Result<Vec<DraftNews>, Failure> {
        let session = self.get(scope, id)?;
        let all = || {
            let rows = self.view.drafts(session.pk)?;
            rows.into_iter()
                .map(|row| self.news(&session, row, known))
                .collect()
        };
        in_session(id, all())
    }

    fn news(
        &self,
        session: &Loaded,
        row: DraftRow,
        known: &BTreeMap<StreamId, u64>,
    ) -> Result<DraftNews, Failure> {
        let row = self.verified_draft(session, row)?;
        let known = known.get(&row.stream).copied();
        // The first chunk is whole, also for whoever has those before it.
        let whole = known.is_none_or(|chunk| chunk < row.first_chunk);
        let after = if whole { 0 } else { known.unwrap_or(0) };
        let chunks = self.draft_chunks(session, &row, after)?;
        let deltas = self.deltas(session, &row, chunks)?;
        Ok(DraftNews {
            turn_id: row.turn_id,
            stream: row.stream,
            writer: row.writer,
            begun_at: row.begun_at,
            beat_at: row.beat_at,
            chunk: row.last_chunk,
            whole,
            deltas,
        })
    }

    /// The draft of a turn, if it has one.
    pub(crate) fn draft_row(
        &self,
        session: &Loaded,
        turn: &TurnRow,
    ) -> Result<Option<DraftRow>, Failure> {
        let row = self.view.draft(session.pk, turn.place())?;
        row.map(|row| self.verified_draft(session, row)).transpose()
    }

    pub(crate) fn verified_draft(
        &self,
        session: &Loaded,
        row: DraftRow,
    ) -> Result<DraftRow, Failure> {
        let fits = row.verified(self.keyring, session.pk);
        self.vouch(session, fits, None, || changed(&row))?;
        Ok(row)
    }

    /// What a draft shows.
    pub(crate) fn draft_pieces(
        &self,
        session: &Loaded,
        row: &DraftRow,
    ) -> Result<Vec<Piece>, Failure> {
        let chunks = self.draft_chunks(session, row, 0)?;
        let deltas = self.deltas(session, row, chunks)?;
        assemble(deltas).ok_or_else(|| chunk_broken(session, row))
    }

    /// The chunks above `after`, which must all be there.
    fn draft_chunks(
        &self,
        session: &Loaded,
        row: &DraftRow,
        after: u64,
    ) -> Result<Vec<DraftChunk>, Failure> {
        let chunks = self.view.draft_chunks(session.pk, row.place, after)?;
        let first = row.first_chunk.max(after.saturating_add(1));
        let numbers = chunks.iter().map(|c| c.number);
        if !numbers.eq(first..=row.last_chunk) {
            return Err(chunk_broken(session, row));
        }
        Ok(chunks)
    }

    fn deltas(
        &self,
        session: &Loaded,
        row: &DraftRow,
        chunks: Vec<DraftChunk>,
    ) -> Result<Vec<Delta>, Failure> {
        let mut deltas = Vec::new();
        for chunk in chunks {
            let fits = chunk.verified(self.keyring, (session.pk, row));
            self.vouch(session, fits, None, || changed(row))?;
            let more = chunk.deltas();
            deltas.extend(more.ok_or_else(|| chunk_broken(session, row))?);
        }
        Ok(deltas)
    }
}

fn chunk_broken(session: &Loaded, row: &DraftRow) -> Failure {
    session.broken(None, changed(row))
}

fn changed(row: &DraftRow) -> String {
    format!("the draft of turn {} was changed", row.turn_id)
}
