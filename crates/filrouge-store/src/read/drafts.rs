//! Reads and verifies drafts.

use std::collections::BTreeMap;

use filrouge_types::{Failure, SessionId, Timestamp, TurnId};

use super::{VerifiedSession, VerifiedSnapshot, in_session};
use crate::command::Scope;
use crate::draft::{Delta, DraftPiece, StreamId, assemble};
use crate::rows::{DraftChunk, DraftRow, TurnRow, View};

/// The growth of a draft since the newest chunk that the reader has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftNews {
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: StreamId,
    /// The name of the recording process ([`crate::Ledger::writer`]).
    pub writer: Box<str>,
    /// When the recording began.
    pub begun_at: Timestamp,
    /// The time of the recording's newest heartbeat.
    pub beat_at: Timestamp,
    /// The number of the draft's newest chunk; the reader passes it in `last_read` next time.
    pub chunk: u64,
    /// Whether the deltas are the complete draft, rather than those after the reader's chunk.
    pub complete: bool,
    /// The new deltas.
    pub deltas: Vec<Delta>,
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The drafts of a session's turns. `last_read` gives, for each recording, the newest chunk that the reader has.
    /// For these recordings the result has only the deltas after that chunk. It has the complete draft for any other
    /// recording, or if the reader's chunk was merged with later ones.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, `key_missing`.
    pub fn drafts(
        &self,
        scope: &Scope,
        id: &SessionId,
        last_read: &BTreeMap<StreamId, u64>,
    ) -> Result<Vec<DraftNews>, Failure> {
        let session = self.get(scope, id)?;
        let all = || {
            let rows = self.view.drafts(session.pk)?;
            rows.into_iter()
                .map(|row| self.news(&session, row, last_read))
                .collect()
        };
        in_session(id, all())
    }

    fn news(
        &self,
        session: &VerifiedSession,
        row: DraftRow,
        last_read: &BTreeMap<StreamId, u64>,
    ) -> Result<DraftNews, Failure> {
        let row = self.verified_draft(session, row)?;
        let last_chunk = last_read.get(&row.stream).copied();
        // If chunks were merged, the draft's first chunk replaces all chunks with lower numbers, even for a reader that
        // has them.
        let complete = last_chunk.is_none_or(|chunk| chunk < row.first_chunk);
        let after = if complete { 0 } else { last_chunk.unwrap_or(0) };
        let chunks = self.draft_chunks(session, &row, after)?;
        let deltas = self.deltas(session, &row, chunks)?;
        Ok(DraftNews {
            turn_id: row.turn_id,
            stream: row.stream,
            writer: row.writer,
            begun_at: row.begun_at,
            beat_at: row.beat_at,
            chunk: row.last_chunk,
            complete,
            deltas,
        })
    }

    /// The draft of a turn, if it has one.
    pub(crate) fn draft_row(
        &self,
        session: &VerifiedSession,
        turn: &TurnRow,
    ) -> Result<Option<DraftRow>, Failure> {
        let row = self.view.draft(session.pk, turn.place())?;
        row.map(|row| self.verified_draft(session, row)).transpose()
    }

    pub(crate) fn verified_draft(
        &self,
        session: &VerifiedSession,
        row: DraftRow,
    ) -> Result<DraftRow, Failure> {
        let mac_matches = row.verified(self.keyring, session.pk);
        self.check_mac(session, mac_matches, None, || changed(&row))?;
        Ok(row)
    }

    /// The pieces of a draft.
    pub(crate) fn draft_pieces(
        &self,
        session: &VerifiedSession,
        row: &DraftRow,
    ) -> Result<Vec<DraftPiece>, Failure> {
        let chunks = self.draft_chunks(session, row, 0)?;
        let deltas = self.deltas(session, row, chunks)?;
        assemble(deltas).ok_or_else(|| chunk_broken(session, row))
    }

    /// The draft's chunks numbered above `after`; an integrity failure if one is missing.
    fn draft_chunks(
        &self,
        session: &VerifiedSession,
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
        session: &VerifiedSession,
        row: &DraftRow,
        chunks: Vec<DraftChunk>,
    ) -> Result<Vec<Delta>, Failure> {
        let mut deltas = Vec::new();
        for chunk in chunks {
            let mac_matches = chunk.verified(self.keyring, (session.pk, row));
            self.check_mac(session, mac_matches, None, || changed(row))?;
            let more = chunk.deltas();
            deltas.extend(more.ok_or_else(|| chunk_broken(session, row))?);
        }
        Ok(deltas)
    }
}

fn chunk_broken(session: &VerifiedSession, row: &DraftRow) -> Failure {
    session.broken(None, changed(row))
}

fn changed(row: &DraftRow) -> String {
    format!("the draft of turn {} was changed", row.turn_id)
}
