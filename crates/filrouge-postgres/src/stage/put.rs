//! Writes rows: the implementation of [`Tx`] for a group of writes.

use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, LogRow, NoteRow, SessionPk, SessionRow,
    TurnRow, Tx, item_key, request_key,
};
use filrouge_store::{Keyring, Lane};
use filrouge_types::{ItemId, RequestId, Result};
use tokio_postgres::types::Type;

use super::{Pending, Stage};
use crate::rows::{sql_int, sql_lane};
use crate::session::{Param, Sql};

/// The maximum number of bytes of the buffered records. Above it, all buffered rows are sent before the transaction
/// ends.
const PENDING_BYTES: usize = 16 << 20;

impl Stage<'_> {
    /// Sends the buffered rows, and then runs a statement that is too rare to be buffered.
    fn run_now(&mut self, sql: &'static Sql, params: &[Param<'_>]) -> Result<()> {
        self.write_count += 1;
        self.flush()?.query_all(sql, params).map(drop)
    }

    /// The buffered rows, to which the caller adds those of one write operation.
    fn buffer(&mut self) -> &mut Pending {
        self.write_count += 1;
        self.pending.get_mut()
    }

    /// The value of the column `lane` for the rows of a session.
    fn lane_of(&self, pk: SessionPk) -> i16 {
        sql_lane(self.rows.lanes.of_pk(pk))
    }

    fn put_key(&mut self, pk: SessionPk, key: [u8; 16], seq: u64) {
        self.cache.put_key(pk, key, seq);
        self.buffer().insert_key(pk, key, seq);
    }

    /// Permits the database's guards to let this transaction change or delete rows of the session `pk`. The guards read
    /// `setting`, which is `filrouge.redacts` or `filrouge.erases`.
    fn permit_changes(&self, setting: &str, pk: SessionPk) -> Result<()> {
        let rows = self.flush()?;
        // In a distributed store this statement, unlike `set_config`, also sets the setting on the node that owns the
        // lane.
        let set = format!("SET LOCAL {setting} = '{pk}'");
        let set = rows.session.run(&set);
        rows.driver.wait(rows.session.with_answer_timeout(set))
    }
}

impl Tx for Stage<'_> {
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk> {
        let rows = &self.rows;
        let newest_pks = |lanes| rows.newest_pks(lanes);
        let pk = self.cache.add_session(row, newest_pks)?;
        self.buffer().insert_session(pk, row);
        Ok(pk)
    }

    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<()> {
        if let Some(stored) = self.cache.session_mut(pk) {
            stored.head = Some(head.clone());
            stored.updated_at = head.updated_at;
        }
        self.buffer().put_head(pk, head);
        Ok(())
    }

    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()> {
        self.cache.put_turn(pk, row);
        self.buffer().put_turn(pk, row, true);
        Ok(())
    }

    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()> {
        self.cache.put_turn(pk, row);
        self.buffer().put_turn(pk, row, false);
        Ok(())
    }

    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()> {
        self.cache.put_record(pk, row);
        let buffered_bytes = self.buffer().insert_record(pk, row);
        if buffered_bytes > PENDING_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()> {
        static SQL: Sql = Sql::new(
            "UPDATE filrouge.record SET head = $4, body = $5
             WHERE lane = $1 AND session_pk = $2 AND first_seq = $3",
            &[Type::INT2, Type::INT8, Type::INT8, Type::BYTEA, Type::BYTEA],
        );
        self.permit_changes("filrouge.redacts", pk)?;
        self.cache.drop_session(pk);
        let (lane, first_seq) = (self.lane_of(pk), sql_int(row.first_seq));
        self.run_now(
            &SQL,
            &[&lane, &sql_int(pk), &first_seq, &row.head, &row.body],
        )
    }

    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<()> {
        self.put_key(pk, item_key(id), seq);
        Ok(())
    }

    fn insert_request_key(&mut self, pk: SessionPk, id: &RequestId, seq: u64) -> Result<()> {
        self.put_key(pk, request_key(id), seq);
        Ok(())
    }

    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<()> {
        if let Some(stored) = self.cache.session_mut(pk) {
            stored.row = row.clone();
        }
        self.buffer().change_session(pk, row);
        Ok(())
    }

    fn insert_agent(&mut self, pk: SessionPk, agent: &str, keyring: &Keyring) -> Result<()> {
        self.buffer().insert_agent(pk, agent, keyring);
        Ok(())
    }

    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<()> {
        self.cache.side_rows_mut().put_event(pk, row);
        self.buffer().insert_event(pk, row);
        Ok(())
    }

    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<()> {
        self.cache.side_rows_mut().put_checkpoint(pk, row);
        self.buffer().put_checkpoint(pk, row);
        Ok(())
    }

    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<()> {
        self.cache.side_rows_mut().delete_checkpoint(pk, seq);
        self.buffer().delete_checkpoint(pk, seq);
        Ok(())
    }

    fn put_note(&mut self, row: &NoteRow) -> Result<()> {
        static SQL: Sql = Sql::new(
            "INSERT INTO filrouge.note (lane, name, data) VALUES ($1, $2, $3)
             ON CONFLICT (lane, name) DO UPDATE SET data = EXCLUDED.data",
            &[Type::INT2, Type::TEXT, Type::BYTEA],
        );
        let name: &str = &row.name;
        self.run_now(&SQL, &[&sql_lane(Lane::FIRST), &name, &row.encode()])
    }

    fn erase(&mut self, pk: SessionPk) -> Result<()> {
        const TABLES: [&str; 8] = [
            "record",
            "item_key",
            "event",
            "session_agent",
            "draft_chunk",
            "draft",
            "checkpoint",
            "turn",
        ];
        self.permit_changes("filrouge.erases", pk)?;
        self.cache.drop_session(pk);
        self.write_count += 1;
        let (lane, pk) = (self.lane_of(pk), sql_int(pk));
        let params: [Param<'_>; 2] = [&lane, &pk];
        let rows = self.flush()?;
        for table in TABLES {
            let sql = format!("DELETE FROM filrouge.{table} WHERE lane = $1 AND session_pk = $2");
            let types = [Type::INT2, Type::INT8];
            let query = rows.session.query_text(&sql, &types, &params);
            rows.driver.wait(rows.session.with_answer_timeout(query))?;
        }
        Ok(())
    }

    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<()> {
        self.cache.put_draft(pk, row.place, Some(row));
        self.buffer().put_draft(pk, row);
        Ok(())
    }

    fn insert_draft_chunk(&mut self, pk: SessionPk, place: u64, chunk: &DraftChunk) -> Result<()> {
        self.buffer().insert_chunk(pk, place, chunk);
        Ok(())
    }

    fn clear_draft_chunks(&mut self, pk: SessionPk, place: u64) -> Result<()> {
        self.buffer().clear_chunks(pk, place);
        Ok(())
    }

    fn delete_draft(&mut self, pk: SessionPk, place: u64) -> Result<()> {
        self.cache.put_draft(pk, place, None);
        self.buffer().delete_draft(pk, place);
        Ok(())
    }

    fn insert_log(&mut self, row: &LogRow) -> Result<()> {
        self.buffer().insert_log(row);
        Ok(())
    }
}
