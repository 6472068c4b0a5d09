//! Writes rows: implements the transactions of a store.

use filrouge_store::Keyring;
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    AgentRow, CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, LogRow, NoteRow, SessionPk,
    SessionRow, StartedTurn, StoredSession, TurnRow, Tx, item_key, request_key,
};
use filrouge_types::{ItemId, RequestId, Result};
use rusqlite::params;

use super::{Rows, checkpoint, draft, event, note, open_since, session, sql_int, turn_row_id};

impl Tx for Rows<'_> {
    fn keep_started_turn(&mut self, pk: SessionPk, turn: StartedTurn) {
        self.update_cache(|cache| cache.keep_started_turn(pk, turn));
    }

    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk> {
        let pk = session::insert(self, row)?;
        self.update_cache(|cache| {
            cache.add_session(&StoredSession {
                pk,
                row: row.clone(),
                head: None,
                updated_at: StoredSession::UNKNOWN_TIME,
            });
        });
        Ok(pk)
    }

    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<()> {
        // An append within a turn leaves the index of last activities alone.
        let is_same_time = self.in_cache(|cache| cache.head(pk).map(|old| old.updated_at))
            == Some(head.updated_at);
        self.update_cache(|cache| cache.put_head(pk, head));
        let (pk, data, updated_at) = (sql_int(pk), head.encode(), head.updated_at.as_micros());
        if is_same_time {
            let sql = "UPDATE head SET data = ?2 WHERE pk = ?1";
            return self.execute(sql, params![pk, data]);
        }
        let sql = "INSERT INTO head (pk, data, tenant_id, updated_at)
             VALUES (?1, ?2, (SELECT tenant_id FROM session WHERE pk = ?1), ?3)
             ON CONFLICT DO UPDATE SET data = ?2, tenant_id = excluded.tenant_id, updated_at = ?3";
        self.execute(sql, params![pk, data, updated_at])
    }

    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()> {
        let sql = "INSERT INTO turn (id, turn_id, open_since, data) VALUES (?1, ?2, ?3, ?4)";
        let id = turn_row_id(pk, row.place());
        self.update_cache(|cache| cache.put_turn(pk, row));
        self.execute(
            sql,
            params![id, row.turn_id.as_bytes(), open_since(row), row.encode()],
        )
    }

    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()> {
        let sql = "UPDATE turn SET open_since = ?2, data = ?3 WHERE id = ?1";
        self.update_cache(|cache| cache.put_turn(pk, row));
        self.execute(
            sql,
            params![turn_row_id(pk, row.place()), open_since(row), row.encode()],
        )
    }

    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()> {
        self.update_cache(|cache| cache.put_record(pk, row));
        self.execute(
            "INSERT INTO record (head, body) VALUES (?1, ?2)",
            params![row.head, row.body],
        )?;
        let id = self.conn.last_insert_rowid();
        let sql = "INSERT INTO record_key (session_pk, first_seq, count, record_id) VALUES (?1, ?2, ?3, ?4)";
        self.execute(
            sql,
            params![sql_int(pk), sql_int(row.first_seq), sql_int(row.count), id],
        )
    }

    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()> {
        self.update_cache(|cache| cache.remove_session(pk));
        let sql = "UPDATE record SET head = ?3, body = ?4 WHERE id =
             (SELECT record_id FROM record_key WHERE session_pk = ?1 AND first_seq = ?2)";
        self.execute(
            sql,
            params![sql_int(pk), sql_int(row.first_seq), row.head, row.body],
        )
    }

    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<()> {
        self.insert_key(pk, item_key(id), seq)
    }

    fn insert_request_key(&mut self, pk: SessionPk, id: &RequestId, seq: u64) -> Result<()> {
        self.insert_key(pk, request_key(id), seq)
    }

    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<()> {
        self.update_cache(|cache| cache.update_session(pk, row));
        session::update(self, pk, row)
    }

    fn insert_agent(&mut self, pk: SessionPk, agent: &str, keyring: &Keyring) -> Result<()> {
        if self
            .cache
            .is_some_and(|cache| cache.borrow_mut().add_agent(pk, agent))
        {
            return Ok(());
        }
        let sql =
            "INSERT OR IGNORE INTO session_agent (agent, session_pk, data) VALUES (?1, ?2, ?3)";
        let data = AgentRow::sealed(agent, keyring, pk).encode();
        self.execute(sql, params![agent, sql_int(pk), data])
    }

    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<()> {
        event::insert(self, pk, row)
    }

    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<()> {
        checkpoint::put(self, pk, row)
    }

    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<()> {
        checkpoint::delete(self, pk, seq)
    }

    fn put_note(&mut self, row: &NoteRow) -> Result<()> {
        note::put(self, row)
    }

    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<()> {
        self.update_cache(|cache| cache.set_without_draft(pk, None));
        draft::put(self, pk, row)
    }

    fn insert_draft_chunk(&mut self, pk: SessionPk, place: u64, chunk: &DraftChunk) -> Result<()> {
        draft::insert_chunk(self, pk, place, chunk)
    }

    fn clear_draft_chunks(&mut self, pk: SessionPk, place: u64) -> Result<()> {
        draft::delete_chunks(self, pk, place)
    }

    fn delete_draft(&mut self, pk: SessionPk, place: u64) -> Result<()> {
        draft::delete(self, pk, place)
    }

    fn erase(&mut self, pk: SessionPk) -> Result<()> {
        self.update_cache(|cache| cache.remove_session(pk));
        let by_session = [
            "DELETE FROM record WHERE id IN (SELECT record_id FROM record_key WHERE session_pk = ?1)",
            "DELETE FROM record_key WHERE session_pk = ?1",
            "DELETE FROM item_key WHERE session_pk = ?1",
            "DELETE FROM event WHERE session_pk = ?1",
            "DELETE FROM checkpoint WHERE session_pk = ?1",
            "DELETE FROM session_agent WHERE session_pk = ?1",
        ];
        for sql in by_session {
            self.execute(sql, [sql_int(pk)])?;
        }
        let by_turn = [
            "DELETE FROM draft_chunk WHERE turn BETWEEN ?1 AND ?2",
            "DELETE FROM draft WHERE turn BETWEEN ?1 AND ?2",
            "DELETE FROM turn WHERE id BETWEEN ?1 AND ?2",
        ];
        for sql in by_turn {
            self.execute(sql, [turn_row_id(pk, 0), turn_row_id(pk, u64::MAX)])?;
        }
        Ok(())
    }

    fn insert_log(&mut self, row: &LogRow) -> Result<()> {
        let sql = "INSERT INTO commit_log (commit_no, data) VALUES (?1, ?2)";
        self.update_cache(|cache| cache.newest_log = Some(row.clone()));
        self.execute(sql, params![sql_int(row.commit_no), row.encode()])
    }
}
