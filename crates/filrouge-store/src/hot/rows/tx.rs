//! Held rows as a view and a transaction: what is put is noted.

use filrouge_types::{
    EventKey, Failure, ItemId, RequestId, SessionId, TenantId, Timestamp, TurnId,
};

use super::{HeldRows, PK, Piece};
use crate::command::{Scope, SessionFilter};
use crate::record::RecordRow;
use crate::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventPlace, EventRow, HeadRow, KeyRow, LogRow, NoteRow,
    SessionPk, SessionRow, Stored, TurnRow, Tx, View,
};

/// Reads that the rows answer as they do in any ledger.
macro_rules! as_the_rows {
    ($(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {
        $(fn $name(&self $(, $arg: $type)*) -> Result<$out, Failure> {
            self.rows.$name($($arg),*)
        })*
    };
}

impl View for HeldRows {
    as_the_rows! {
        fn session(&self, tenant: &TenantId, id: &SessionId, scope: Option<&Scope>) -> Option<Stored>;
        fn session_by_pk(&self, pk: SessionPk) -> Option<Stored>;
        fn turn(&self, pk: SessionPk, id: &TurnId) -> Option<TurnRow>;
        fn session_of_turn(&self, id: &TurnId) -> Option<SessionPk>;
        fn turns(&self, pk: SessionPk, from: u64, to: u64, descending: bool, limit: usize) -> Vec<TurnRow>;
        fn silent_turns(&self, before: Timestamp, limit: usize) -> Vec<(SessionPk, TurnRow)>;
        fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Vec<RecordRow>;
        fn newest_seq(&self, pk: SessionPk) -> u64;
        fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Option<u64>;
        fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Option<u64>;
        fn item_keys(&self, pk: SessionPk) -> u64;
        fn key_rows(&self, pk: SessionPk, after: Option<[u8; 16]>, limit: usize) -> Vec<KeyRow>;
        fn agents(&self, pk: SessionPk) -> Vec<Box<str>>;
        fn log(&self, after: u64, limit: usize) -> Vec<LogRow>;
        fn newest_log(&self) -> Option<LogRow>;
        fn structure(&self) -> Vec<String>;
        fn event(&self, pk: SessionPk, key: &EventKey) -> Option<EventRow>;
        fn events(&self, pk: SessionPk, after: u64, limit: usize) -> Vec<EventRow>;
        fn newest_event(&self, pk: SessionPk) -> u64;
        fn events_at(&self, from: Timestamp, to: Timestamp, after: Option<EventPlace>, limit: usize) -> Vec<(SessionPk, EventRow)>;
        fn checkpoint(&self, pk: SessionPk, seq: u64) -> Option<CheckpointRow>;
        fn checkpoint_seqs(&self, pk: SessionPk) -> Vec<u64>;
        fn note(&self, name: &str) -> Option<NoteRow>;
        fn notes(&self) -> Vec<Option<NoteRow>>;
        fn draft(&self, pk: SessionPk, place: u64) -> Option<DraftRow>;
        fn drafts(&self, pk: SessionPk) -> Vec<DraftRow>;
        fn draft_chunks(&self, pk: SessionPk, place: u64, after: u64) -> Vec<DraftChunk>;
        fn all_drafts(&self) -> Vec<(SessionPk, DraftRow)>;
        fn session_pks(&self) -> Vec<SessionPk>;
        fn sessions(&self, scope: &Scope, filter: &SessionFilter, before: Option<SessionPk>, limit: usize) -> Vec<Stored>;
    }

    fn turn_rows(&self, _: SessionPk) -> Result<u64, Failure> {
        // All are of the one session.
        Ok(self.rows.turns.len() as u64)
    }

    fn each_session(&self, see: &mut dyn FnMut(SessionPk, Option<Stored>)) -> Result<(), Failure> {
        self.rows.each_session(see)
    }

    /// Where the oldest turn begins, if there were older ones.
    fn first_seq(&self, pk: SessionPk) -> Result<u64, Failure> {
        let trimmed = self.first_ordinal(pk)? > 1;
        let oldest = self.oldest().filter(|_| trimmed);
        Ok(oldest.map_or(1, |turn| turn.first_seq))
    }

    fn first_ordinal(&self, _: SessionPk) -> Result<u64, Failure> {
        Ok(self.oldest().map_or(1, |turn| turn.ordinal))
    }

    fn forgets(&self) -> bool {
        true
    }
}

impl Tx for HeldRows {
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk, Failure> {
        self.touch(Piece::Session);
        self.rows.insert_session(row)
    }

    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<(), Failure> {
        self.touch(Piece::Head);
        self.rows.put_head(pk, head)
    }

    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure> {
        self.touch(Piece::Turn(row.place()));
        self.rows.insert_turn(pk, row)
    }

    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure> {
        self.touch(Piece::Turn(row.place()));
        self.rows.update_turn(pk, row)
    }

    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure> {
        self.touch(Piece::Record(row.first_seq));
        self.rows.insert_record(pk, row)
    }

    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure> {
        self.touch(Piece::Record(row.first_seq));
        self.rows.update_record(pk, row)
    }

    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<(), Failure> {
        self.touch(Piece::Item(id.clone()));
        self.item_keys.entry(seq).or_default().push(id.clone());
        self.rows.insert_item_key(pk, id, seq)
    }

    fn insert_request_key(
        &mut self,
        pk: SessionPk,
        id: &RequestId,
        seq: u64,
    ) -> Result<(), Failure> {
        self.touch(Piece::Request(id.clone()));
        self.rows.insert_request_key(pk, id, seq)
    }

    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<(), Failure> {
        self.touch(Piece::Session);
        self.rows.update_session(pk, row)
    }

    fn note_agent(&mut self, pk: SessionPk, agent: &str) -> Result<(), Failure> {
        // Most items are of an agent that is known.
        if !self.rows.agents.contains(&(pk, agent.into())) {
            self.touch(Piece::Agent(agent.into()));
            self.rows.note_agent(pk, agent)?;
        }
        Ok(())
    }

    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<(), Failure> {
        self.touch(Piece::Event(row.number));
        self.rows.insert_event(pk, row)
    }

    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<(), Failure> {
        self.touch(Piece::Checkpoint(row.checkpoint.seq));
        self.rows.put_checkpoint(pk, row)
    }

    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<(), Failure> {
        self.touch(Piece::Checkpoint(seq));
        self.rows.delete_checkpoint(pk, seq)
    }

    /// A note is of no session: none is kept.
    fn put_note(&mut self, _: &NoteRow) -> Result<(), Failure> {
        Ok(())
    }

    fn erase(&mut self, pk: SessionPk) -> Result<(), Failure> {
        let stay = |piece: &&Piece| matches!(piece, Piece::Session | Piece::Head);
        let gone: Vec<_> = self.sizes.keys().filter(|p| !stay(p)).cloned().collect();
        self.touched.extend(gone);
        self.item_keys.clear();
        self.rows.erase(pk)
    }

    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<(), Failure> {
        self.touch(Piece::Draft(row.place));
        self.rows.put_draft(pk, row)
    }

    fn insert_draft_chunk(
        &mut self,
        pk: SessionPk,
        place: u64,
        chunk: &DraftChunk,
    ) -> Result<(), Failure> {
        self.touch(Piece::Chunk(place, chunk.number));
        self.rows.insert_draft_chunk(pk, place, chunk)
    }

    fn clear_draft_chunks(&mut self, _: SessionPk, place: u64) -> Result<(), Failure> {
        self.drop_chunks(place);
        Ok(())
    }

    fn delete_draft(&mut self, _: SessionPk, place: u64) -> Result<(), Failure> {
        self.drop_draft(place);
        Ok(())
    }

    /// The commit log is of a whole store: none is kept.
    fn insert_log(&mut self, _: &LogRow) -> Result<(), Failure> {
        Ok(())
    }
}

const _: () = assert!(PK == 1, "rows in memory number their first session so");
