//! Reads the store's rows: the implementation of [`View`], with one file for each table.

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventPosition, EventRow, KeyRow, LogRow, NoteRow,
    RECORDS_BYTES, SessionPk, StoredSession, TurnRow, View, item_key, request_key,
};
use filrouge_types::{
    EventKey, Failure, ItemId, RequestId, SessionId, TenantId, Timestamp, TurnId, TurnStatus,
};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, Type};

use crate::error::{failure, malformed};
use crate::session::{Driver, Param, Session, Sql};

mod checkpoint;
mod draft;
mod event;
mod key;
mod log;
mod note;
mod read_ahead;
mod record;
mod session;
mod structure;
mod turn;

pub(crate) use checkpoint::read_checkpoint;
pub(crate) use draft::read_draft;
pub(crate) use event::read_event;
pub(crate) use log::{NEWEST_LOG, read_log};
pub(crate) use read_ahead::ReadAhead;
pub(crate) use record::read_record;
pub(crate) use session::{BY_ID, SessionLookup, read_stored};
pub(crate) use turn::{open_since, read_turn};

/// A view of the store over one connection. The caller begins and ends the transaction.
pub(crate) struct Rows<'c> {
    pub(crate) session: &'c Session,
    pub(crate) driver: &'c Driver,
    /// Rows that were read before they are needed. Used only in a snapshot, in which rows do not change.
    pub(crate) read_ahead: ReadAhead,
}

pub(crate) fn sql_int(n: u64) -> i64 {
    // All stored numbers are below 2^63 (docs/format.md). A larger number becomes `i64::MAX`, which matches no row.
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Decodes a column as the type that filrouge writes.
pub(crate) fn column<T: FromSqlOwned>(row: &Row, index: usize) -> Result<T, Failure> {
    row.try_get(index).map_err(|e| failure(&e))
}

pub(crate) fn read_u64(row: &Row, index: usize) -> Result<u64, Failure> {
    let n: i64 = column(row, index)?;
    u64::try_from(n).map_err(|_| malformed("number"))
}

/// Returns a column of bytes, without a copy.
pub(crate) fn bytes(row: &Row, index: usize) -> Result<&[u8], Failure> {
    row.try_get(index).map_err(|e| failure(&e))
}

impl Rows<'_> {
    pub(crate) fn query_all(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let query = self.session.query(sql, params);
        self.driver.wait(self.session.with_answer_timeout(query))
    }

    pub(crate) fn query_opt(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query_all(sql, params)?.into_iter().next())
    }

    /// Runs a query for a single number; returns 0 if there is no row.
    fn query_number(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<u64, Failure> {
        let row = self.query_opt(sql, params)?;
        row.map_or(Ok(0), |row| read_u64(&row, 0))
    }
}

/// Methods of [`View`] that a function of a table's module implements.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*) -> $result:ty => $function:path;)*) => {$(
        fn $method(&self, $($argument: $type),*) -> Result<$result, Failure> {
            $function(self, $($argument),*)
        }
    )*};
}

impl View for Rows<'_> {
    forward! {
        sessions(scope: &Scope, filter: &SessionFilter, before: Option<SessionPk>, limit: usize)
            -> Vec<StoredSession> => session::list;
        turn(pk: SessionPk, id: &TurnId) -> Option<TurnRow> => turn::by_id;
        session_of_turn(id: &TurnId) -> Option<SessionPk> => turn::session_of;
        turns(pk: SessionPk, from: u64, to: u64, descending: bool, limit: usize)
            -> Vec<TurnRow> => turn::page;
        idle_turns(before: Timestamp, limit: usize) -> Vec<(SessionPk, TurnRow)> => turn::idle;
        records(pk: SessionPk, seq: u64, limit: usize) -> Vec<RecordRow> => record::page;
        key_rows(pk: SessionPk, after: Option<[u8; 16]>, limit: usize) -> Vec<KeyRow> => key::page;
        agents(pk: SessionPk) -> Vec<Box<str>> => session::agents;
        log(after: u64, limit: usize) -> Vec<LogRow> => log::page;
        for_each_session(visit: &mut dyn FnMut(SessionPk, Option<StoredSession>))
            -> () => session::for_each;
        check_structure() -> Vec<String> => structure::find_faults;
        event(pk: SessionPk, key: &EventKey) -> Option<EventRow> => event::by_key;
        events(pk: SessionPk, after: u64, limit: usize) -> Vec<EventRow> => event::page;
        newest_event(pk: SessionPk) -> u64 => event::newest;
        checkpoint(pk: SessionPk, seq: u64) -> Option<CheckpointRow> => checkpoint::by_seq;
        checkpoint_seqs(pk: SessionPk) -> Vec<u64> => checkpoint::seqs;
        note(name: &str) -> Option<NoteRow> => note::get;
        notes() -> Vec<Option<NoteRow>> => note::all;
        draft(pk: SessionPk, place: u64) -> Option<DraftRow> => draft::get;
        drafts(pk: SessionPk) -> Vec<DraftRow> => draft::for_session;
        draft_chunks(pk: SessionPk, place: u64, after: u64) -> Vec<DraftChunk> => draft::chunks;
        all_drafts() -> Vec<(SessionPk, DraftRow)> => draft::all;
    }

    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<StoredSession>, Failure> {
        let lookup = SessionLookup::new(tenant, id, scope);
        match self.read_ahead.session(&lookup) {
            Some(read) => read,
            None => session::by_id(self, &lookup),
        }
    }

    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<StoredSession>, Failure> {
        match self.read_ahead.session_by_pk(pk) {
            Some(read) => read.map(Some),
            None => session::by_pk(self, pk),
        }
    }

    fn turn_row_count(&self, pk: SessionPk) -> Result<u64, Failure> {
        static SQL: Sql = Sql::new(
            "SELECT count(*) FROM filrouge.turn WHERE session_pk = $1",
            &[Type::INT8],
        );
        self.query_number(&SQL, &[&sql_int(pk)])
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64, Failure> {
        match self.read_ahead.newest_seq(pk) {
            Some(seq) => seq,
            None => record::newest_seq(self, pk),
        }
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>, Failure> {
        key::seq(self, pk, item_key(id))
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>, Failure> {
        key::seq(self, pk, request_key(id))
    }

    fn item_key_count(&self, pk: SessionPk) -> Result<u64, Failure> {
        static SQL: Sql = Sql::new(
            "SELECT count(*) FROM filrouge.item_key WHERE session_pk = $1",
            &[Type::INT8],
        );
        self.query_number(&SQL, &[&sql_int(pk)])
    }

    fn newest_log(&self) -> Result<Option<LogRow>, Failure> {
        let newest = self.query_opt(&NEWEST_LOG, &[])?;
        newest.map(|row| read_log(&row, 0)).transpose()
    }

    fn events_at(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Vec<(SessionPk, EventRow)>, Failure> {
        let events = event::by_time(self, from, to, after, limit)?;
        self.read_ahead.fetch_sessions(self, &events)?;
        Ok(events)
    }

    fn session_pks(&self) -> Result<Vec<SessionPk>, Failure> {
        static SQL: Sql = Sql::new(
            "SELECT pk FROM filrouge.session UNION SELECT pk FROM filrouge.head
             UNION SELECT session_pk FROM filrouge.turn UNION SELECT session_pk FROM filrouge.record
             UNION SELECT session_pk FROM filrouge.item_key UNION SELECT session_pk FROM filrouge.event
             UNION SELECT session_pk FROM filrouge.draft UNION SELECT session_pk FROM filrouge.draft_chunk
             UNION SELECT session_pk FROM filrouge.session_agent UNION SELECT session_pk FROM filrouge.checkpoint",
            &[],
        );
        self.query_all(&SQL, &[])?
            .iter()
            .map(|row| read_u64(row, 0))
            .collect()
    }
}

/// A page of records ends once its rows have this many bytes.
const PAGE_BYTES: usize = RECORDS_BYTES;

fn is_open(turn: &TurnRow) -> bool {
    turn.status == TurnStatus::Open
}
