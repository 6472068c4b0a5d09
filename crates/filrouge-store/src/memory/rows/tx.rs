//! Writes rows in maps: implements [`Tx`] for [`Rows`].

use std::collections::btree_map::Entry;

use filrouge_types::{ItemId, RequestId, Result};

use super::Rows;
use crate::keyring::Keyring;
use crate::record::RecordRow;
use crate::rows::{
    AgentRow, CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, LogRow, NoteRow, RowKey,
    SessionPk, SessionRow, TurnRow, Tx,
};

impl Tx for Rows {
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk> {
        self.record_change(RowKey::Session);
        let lane = self.lanes.of_session(&row.tenant_id, &row.session_id);
        let mut newest_first = self.sessions.keys().rev().copied();
        let newest = newest_first.find(|pk| self.lanes.of_pk(*pk) == lane);
        let pk = self.lanes.next_pk(lane, newest);
        self.names
            .insert((row.tenant_id.clone(), row.session_id.clone()), pk);
        self.sessions.insert(pk, row.clone());
        Ok(pk)
    }

    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<()> {
        self.record_change(RowKey::Head);
        self.heads.insert(pk, head.clone());
        Ok(())
    }

    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()> {
        self.turn_ids.insert(row.turn_id, (pk, row.place()));
        self.update_turn(pk, row)
    }

    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()> {
        self.record_change(RowKey::Turn(row.place()));
        self.turns.insert((pk, row.place()), row.clone());
        Ok(())
    }

    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()> {
        self.record_change(RowKey::Record(row.first_seq));
        self.records.insert((pk, row.first_seq), row.clone());
        Ok(())
    }

    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()> {
        self.insert_record(pk, row)
    }

    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<()> {
        self.record_change(RowKey::Item(id.clone()));
        if let Some(changes) = &mut self.changes {
            changes.item_keys.entry(seq).or_default().push(id.clone());
        }
        self.keys.insert((pk, id.clone()), seq);
        Ok(())
    }

    fn insert_request_key(&mut self, pk: SessionPk, id: &RequestId, seq: u64) -> Result<()> {
        self.record_change(RowKey::Request(id.clone()));
        self.requests.insert((pk, id.clone()), seq);
        Ok(())
    }

    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<()> {
        self.record_change(RowKey::Session);
        self.sessions.insert(pk, row.clone());
        Ok(())
    }

    fn insert_agent(&mut self, pk: SessionPk, agent: &str, keyring: &Keyring) -> Result<()> {
        // Most items name an agent that is already recorded.
        if let Entry::Vacant(entry) = self.agents.entry((pk, agent.into())) {
            entry.insert(AgentRow::sealed(agent, keyring, pk));
            self.record_change(RowKey::Agent(agent.into()));
        }
        Ok(())
    }

    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<()> {
        self.record_change(RowKey::Event(row.number));
        self.event_keys
            .insert((pk, row.event.key.clone()), row.number);
        self.events.insert((pk, row.number), row.clone());
        Ok(())
    }

    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<()> {
        self.record_change(RowKey::Checkpoint(row.checkpoint.seq));
        self.checkpoints
            .insert((pk, row.checkpoint.seq), row.clone());
        Ok(())
    }

    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<()> {
        self.record_change(RowKey::Checkpoint(seq));
        self.checkpoints.remove(&(pk, seq));
        Ok(())
    }

    fn put_note(&mut self, row: &NoteRow) -> Result<()> {
        // The rows of one ephemeral session contain no notes, which belong to a ledger.
        if self.changes.is_none() {
            self.notes.insert(row.name.clone(), row.clone());
        }
        Ok(())
    }

    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<()> {
        self.record_change(RowKey::Draft(row.place));
        self.drafts.insert((pk, row.place), row.clone());
        Ok(())
    }

    fn insert_draft_chunk(&mut self, pk: SessionPk, place: u64, chunk: &DraftChunk) -> Result<()> {
        self.record_change(RowKey::Chunk(place, chunk.number));
        let key = (pk, place, chunk.number);
        self.draft_chunks.insert(key, chunk.clone());
        Ok(())
    }

    fn clear_draft_chunks(&mut self, pk: SessionPk, place: u64) -> Result<()> {
        let chunks = self
            .draft_chunks
            .range((pk, place, 0)..=(pk, place, u64::MAX));
        let numbers: Vec<_> = chunks.map(|((_, _, number), _)| *number).collect();
        for number in numbers {
            self.draft_chunks.remove(&(pk, place, number));
            self.record_change(RowKey::Chunk(place, number));
        }
        Ok(())
    }

    fn delete_draft(&mut self, pk: SessionPk, place: u64) -> Result<()> {
        self.record_change(RowKey::Draft(place));
        self.drafts.remove(&(pk, place));
        self.clear_draft_chunks(pk, place)
    }

    fn erase(&mut self, pk: SessionPk) -> Result<()> {
        if let Some(changes) = &mut self.changes {
            changes.erased = true;
            changes.item_keys.clear();
        }
        self.records.retain(|(p, _), _| *p != pk);
        self.keys.retain(|(p, _), _| *p != pk);
        self.requests.retain(|(p, _), _| *p != pk);
        self.turns.retain(|(p, _), _| *p != pk);
        self.turn_ids.retain(|_, (p, _)| *p != pk);
        self.events.retain(|(p, _), _| *p != pk);
        self.event_keys.retain(|(p, _), _| *p != pk);
        self.agents.retain(|(p, _), _| *p != pk);
        self.drafts.retain(|(p, _), _| *p != pk);
        self.draft_chunks.retain(|(p, _, _), _| *p != pk);
        self.checkpoints.retain(|(p, _), _| *p != pk);
        Ok(())
    }

    fn insert_log(&mut self, row: &LogRow) -> Result<()> {
        // The rows of one ephemeral session contain no commit log, which belongs to a ledger.
        if self.changes.is_none() {
            self.log.insert((row.lane, row.commit_no), row.clone());
        }
        Ok(())
    }
}
