//! Writes rows: the implementation of [`Tx`] for a group of writes.

use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, LogRow, NoteRow, SessionPk, SessionRow,
    TurnRow, Tx, item_key, request_key,
};
use filrouge_types::{Failure, ItemId, RequestId};
use tokio_postgres::types::Type;

use super::Stage;
use crate::rows::int;
use crate::session::{Param, Sql};

/// When the buffered records have more bytes than this, all buffered rows are sent before the end of the transaction.
const PENDING_BYTES: usize = 16 << 20;

impl Stage<'_> {
    /// Runs a statement at once, after the buffered rows: for statements that are too rare to be buffered.
    fn run_now(&mut self, sql: &'static Sql, params: &[Param<'_>]) -> Result<(), Failure> {
        self.puts += 1;
        self.flushed()?.many(sql, params).map(drop)
    }

    fn put_key(&mut self, pk: SessionPk, key: [u8; 16], seq: u64) {
        self.puts += 1;
        self.cache.put_key(pk, key, seq);
        self.pending.get_mut().key(pk, key, seq);
    }

    /// Permits the database's guards to let this transaction change or delete rows of the session `pk`. `what` is the
    /// setting that the guards read: `filrouge.redacts` or `filrouge.erases`.
    fn allow(&self, what: &str, pk: SessionPk) -> Result<(), Failure> {
        static SQL: Sql = Sql::new("SELECT set_config($1, $2, true)", &[Type::TEXT, Type::TEXT]);
        self.flushed()?
            .many(&SQL, &[&what, &pk.to_string()])
            .map(drop)
    }
}

impl Tx for Stage<'_> {
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk, Failure> {
        self.puts += 1;
        let pk = self.cache.add_session(row);
        self.pending.get_mut().session(pk, row);
        Ok(pk)
    }

    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<(), Failure> {
        self.puts += 1;
        if let Some(stored) = self.cache.stored(pk) {
            stored.head = Some(head.clone());
        }
        self.pending.get_mut().head(pk, head);
        Ok(())
    }

    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.put_turn(pk, row);
        self.pending.get_mut().turn(pk, row, true);
        Ok(())
    }

    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.put_turn(pk, row);
        self.pending.get_mut().turn(pk, row, false);
        Ok(())
    }

    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.put_record(pk, row);
        let bytes = self.pending.get_mut().record(pk, row);
        if bytes > PENDING_BYTES {
            self.flushed()?;
        }
        Ok(())
    }

    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure> {
        static SQL: Sql = Sql::new(
            "UPDATE filrouge.record SET head = $3, body = $4 WHERE session_pk = $1 AND first_seq = $2",
            &[Type::INT8, Type::INT8, Type::BYTEA, Type::BYTEA],
        );
        self.allow("filrouge.redacts", pk)?;
        self.cache.forget(pk);
        self.run_now(&SQL, &[&int(pk), &int(row.first_seq), &row.head, &row.body])
    }

    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<(), Failure> {
        self.put_key(pk, item_key(id), seq);
        Ok(())
    }

    fn insert_request_key(
        &mut self,
        pk: SessionPk,
        id: &RequestId,
        seq: u64,
    ) -> Result<(), Failure> {
        self.put_key(pk, request_key(id), seq);
        Ok(())
    }

    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<(), Failure> {
        self.puts += 1;
        if let Some(stored) = self.cache.stored(pk) {
            stored.row = row.clone();
        }
        self.pending.get_mut().change_session(pk, row);
        Ok(())
    }

    fn note_agent(&mut self, pk: SessionPk, agent: &str) -> Result<(), Failure> {
        self.puts += 1;
        self.pending.get_mut().agent(pk, agent);
        Ok(())
    }

    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.side_rows_mut().put_event(pk, row);
        self.pending.get_mut().event(pk, row);
        Ok(())
    }

    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.side_rows_mut().put_checkpoint(pk, row);
        self.pending.get_mut().checkpoint(pk, row);
        Ok(())
    }

    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.side_rows_mut().delete_checkpoint(pk, seq);
        self.pending.get_mut().delete_checkpoint(pk, seq);
        Ok(())
    }

    fn put_note(&mut self, row: &NoteRow) -> Result<(), Failure> {
        static SQL: Sql = Sql::new(
            "INSERT INTO filrouge.note (name, data) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data",
            &[Type::TEXT, Type::BYTEA],
        );
        let name: &str = &row.name;
        self.run_now(&SQL, &[&name, &row.encode()])
    }

    fn erase(&mut self, pk: SessionPk) -> Result<(), Failure> {
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
        self.allow("filrouge.erases", pk)?;
        self.cache.forget(pk);
        self.puts += 1;
        let rows = self.flushed()?;
        for table in TABLES {
            let sql = format!("DELETE FROM filrouge.{table} WHERE session_pk = $1");
            let pk = int(pk);
            let params: [Param<'_>; 1] = [&pk];
            let query = rows.session.query_text(&sql, &[Type::INT8], &params);
            rows.driver.wait(rows.session.answered(query))?;
        }
        Ok(())
    }

    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.put_draft(pk, row.place, Some(row));
        self.pending.get_mut().draft(pk, row);
        Ok(())
    }

    fn insert_draft_chunk(
        &mut self,
        pk: SessionPk,
        place: u64,
        chunk: &DraftChunk,
    ) -> Result<(), Failure> {
        self.puts += 1;
        self.pending.get_mut().chunk(pk, place, chunk);
        Ok(())
    }

    fn clear_draft_chunks(&mut self, pk: SessionPk, place: u64) -> Result<(), Failure> {
        self.puts += 1;
        self.pending.get_mut().clear_chunks(pk, place);
        Ok(())
    }

    fn delete_draft(&mut self, pk: SessionPk, place: u64) -> Result<(), Failure> {
        self.puts += 1;
        self.cache.put_draft(pk, place, None);
        self.pending.get_mut().delete_draft(pk, place);
        Ok(())
    }

    fn insert_log(&mut self, row: &LogRow) -> Result<(), Failure> {
        self.puts += 1;
        self.pending.get_mut().log(row);
        Ok(())
    }
}
