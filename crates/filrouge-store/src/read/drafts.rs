//! Reads and verifies drafts.

use std::collections::BTreeMap;

use filrouge_types::{Failure, SessionId, Timestamp, TurnId};

use super::{VerifiedSession, VerifiedSnapshot, in_session};
use crate::command::Scope;
use crate::draft::{Delta, DraftPiece, StreamId, assemble};
use crate::rows::{DraftChunk, DraftRow, TurnRow, View};

/// The growth of a draft since the newest chunk that the reader has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftUpdate {
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: StreamId,
    /// The name of the recording process ([`crate::Ledger::writer`]).
    pub writer: Box<str>,
    /// The time at which the recording began.
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
    /// For these recordings the result contains only the deltas after that chunk. It contains the complete draft for
    /// any other recording, and if the reader's chunk was merged with later ones.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, `key_missing`.
    pub fn drafts(
        &self,
        scope: &Scope,
        id: &SessionId,
        last_read: &BTreeMap<StreamId, u64>,
    ) -> Result<Vec<DraftUpdate>, Failure> {
        let session = self.get(scope, id)?;
        let read_drafts = || {
            let rows = self.view.drafts(session.pk)?;
            rows.into_iter()
                .map(|row| self.draft_update(&session, row, last_read))
                .collect()
        };
        in_session(id, read_drafts())
    }

    /// The growth of one draft since the reader's newest chunk.
    fn draft_update(
        &self,
        session: &VerifiedSession,
        row: DraftRow,
        last_read: &BTreeMap<StreamId, u64>,
    ) -> Result<DraftUpdate, Failure> {
        let row = self.verified_draft(session, row)?;
        let read_chunk = last_read.get(&row.stream).copied();
        // If chunks were merged, the draft's first chunk replaces all chunks with lower numbers, so that the deltas
        // after one of those are no longer known.
        let complete = read_chunk.is_none_or(|chunk| chunk < row.first_chunk);
        let after = if complete { 0 } else { read_chunk.unwrap_or(0) };
        let chunks = self.draft_chunks(session, &row, after)?;
        let deltas = self.deltas(session, &row, chunks)?;
        Ok(DraftUpdate {
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
        let mac_matches = row.mac_matches(self.keyring, session.pk);
        self.check_mac(session, mac_matches, None, || changed_draft_detail(&row))?;
        Ok(row)
    }

    /// The pieces of a draft, assembled from all its chunks.
    pub(crate) fn draft_pieces(
        &self,
        session: &VerifiedSession,
        row: &DraftRow,
    ) -> Result<Vec<DraftPiece>, Failure> {
        let chunks = self.draft_chunks(session, row, 0)?;
        let deltas = self.deltas(session, row, chunks)?;
        assemble(deltas).ok_or_else(|| draft_failure(session, row))
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
            return Err(draft_failure(session, row));
        }
        Ok(chunks)
    }

    /// The deltas of these chunks, verified.
    fn deltas(
        &self,
        session: &VerifiedSession,
        row: &DraftRow,
        chunks: Vec<DraftChunk>,
    ) -> Result<Vec<Delta>, Failure> {
        let mut deltas = Vec::new();
        for chunk in chunks {
            let mac_matches = chunk.mac_matches(self.keyring, (session.pk, row));
            self.check_mac(session, mac_matches, None, || changed_draft_detail(row))?;
            let chunk_deltas = chunk.deltas();
            deltas.extend(chunk_deltas.ok_or_else(|| draft_failure(session, row))?);
        }
        Ok(deltas)
    }
}

fn draft_failure(session: &VerifiedSession, row: &DraftRow) -> Failure {
    session.integrity_failure(None, changed_draft_detail(row))
}

fn changed_draft_detail(row: &DraftRow) -> String {
    format!("the draft of turn {} was changed", row.turn_id)
}
