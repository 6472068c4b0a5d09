//! Reads the store's rows: the implementation of [`View`], with one file for each table.

use std::collections::BTreeMap;

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    AgentsOf, CheckpointRow, DraftChunk, DraftRow, EventPosition, EventRow, LogRow, NoteRow,
    RECORDS_BYTES, SessionOrder, SessionPk, StoredSession, TurnRow, View, item_key, request_key,
};
use filrouge_store::{Lane, Lanes};
use filrouge_types::{
    EventKey, Failure, ItemId, RequestId, Result, SessionId, TenantId, Timestamp, TurnId,
    TurnStatus,
};
use tokio_postgres::types::{FromSqlOwned, Type};
use tokio_postgres::{Error, Row};

use crate::error::{failure, malformed};
use crate::lanes::query_lanes;
use crate::session::{Column, Driver, Param, Session, Sql, pipeline};

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
pub(crate) use log::{NEWEST_LOG, NEWEST_LOGS, read_log, read_newest_logs};
pub(crate) use read_ahead::ReadAhead;
pub(crate) use record::read_record;
pub(crate) use session::{BY_ID, SessionLookup, read_stored};
pub(crate) use turn::{open_since, read_turn};

/// A view of the store over one connection. The caller begins and ends the transaction.
///
/// A statement reads one lane, which is its parameter `$1`; a query of all lanes sends the statement for each. Only the
/// statements for commits of several lanes get an array of lanes as `$1`, unless the store is distributed.
pub(crate) struct Rows<'c> {
    pub(crate) session: &'c Session,
    pub(crate) driver: &'c Driver,
    /// The lanes of the store.
    pub(crate) lanes: Lanes,
    /// Rows that were read before they are needed. Used only in a snapshot, in which rows do not change.
    pub(crate) read_ahead: ReadAhead,
}

pub(crate) fn sql_int(n: u64) -> i64 {
    // All stored numbers are below 2^63 (docs/format.md). A larger number becomes `i64::MAX`, which matches no row.
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The value of the column `lane` for the rows of a lane.
pub(crate) fn sql_lane(lane: Lane) -> i16 {
    lane.number().cast_signed()
}

/// Decodes the column `lane`.
pub(crate) fn read_lane(row: &Row, index: usize) -> Result<Lane> {
    let number: i16 = column(row, index)?;
    Ok(Lane::new(number.cast_unsigned()))
}

/// Decodes a column as the type that filrouge writes.
pub(crate) fn column<T: FromSqlOwned>(row: &Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(|e| failure(&e))
}

pub(crate) fn read_u64(row: &Row, index: usize) -> Result<u64> {
    let n: i64 = column(row, index)?;
    u64::try_from(n).map_err(|_| malformed("number"))
}

/// Returns a column of bytes, without a copy.
pub(crate) fn bytes(row: &Row, index: usize) -> Result<&[u8]> {
    row.try_get(index).map_err(|e| failure(&e))
}

/// Reads the greatest number that a session of a lane has or had: the rows of an erased session may remain in part.
static NEWEST_PK: Sql = Sql::new(
    "SELECT greatest(
         (SELECT pk FROM filrouge.session WHERE lane = $1 ORDER BY pk DESC LIMIT 1),
         (SELECT pk FROM filrouge.head WHERE lane = $1 ORDER BY pk DESC LIMIT 1),
         (SELECT session_pk FROM filrouge.turn WHERE lane = $1 ORDER BY session_pk DESC LIMIT 1),
         (SELECT session_pk FROM filrouge.record WHERE lane = $1 ORDER BY session_pk DESC LIMIT 1))",
    &[Type::INT2],
);

impl Rows<'_> {
    pub(crate) fn query_all(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.wait(self.session.query(sql, params))
    }

    pub(crate) fn query_opt(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Option<Row>> {
        Ok(self.query_all(sql, params)?.into_iter().next())
    }

    /// Runs [`Session::query_columns`].
    pub(crate) fn query_columns(
        &self,
        sql: &'static Sql,
        lanes: &[i16],
        columns: &[&dyn Column],
        others: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.wait(self.session.query_columns(sql, lanes, columns, others))
    }

    /// Runs a query in every lane, without waiting in between. `params` are the parameters after the lane. Returns the
    /// rows of each lane, in the order of the lanes.
    pub(crate) fn query_lanes(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let lanes: Vec<i16> = self.lanes.iter().map(sql_lane).collect();
        let executions: Vec<_> = lanes.iter().map(|lane| in_lane(lane, params)).collect();
        self.wait(self.session.query_each(sql, &executions))
    }

    /// Reads, for each of `lanes`, the greatest number that a session has or had; `None` if there was no session.
    pub(crate) fn newest_pks(&self, lanes: Vec<Lane>) -> Result<BTreeMap<Lane, Option<SessionPk>>> {
        let fetched = query_lanes(self.session, &NEWEST_PK, lanes.iter().copied());
        let fetched = self.wait(fetched)?;
        let newest = fetched.iter().map(|rows| match rows.first() {
            Some(row) if column::<Option<i64>>(row, 0)?.is_some() => read_u64(row, 0).map(Some),
            _ => Ok(None),
        });
        let newest = lanes.into_iter().zip(newest);
        newest.map(|(lane, newest)| Ok((lane, newest?))).collect()
    }

    /// Runs, in every lane, a query whose text is built at run time. `types` and `params` are those of the parameters
    /// after the lane. Returns the rows of each lane, in the order of the lanes.
    fn query_lanes_text(
        &self,
        text: &str,
        types: &[Type],
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let types = [&[Type::INT2][..], types].concat();
        let lanes: Vec<i16> = self.lanes.iter().map(sql_lane).collect();
        let executions: Vec<_> = lanes.iter().map(|lane| in_lane(lane, params)).collect();
        let queries = executions.iter();
        let queries = queries.map(|params| self.session.query_text(text, &types, params));
        self.wait(pipeline(queries))
    }

    fn wait<T>(&self, query: impl Future<Output = Result<T, Error>>) -> Result<T> {
        self.driver.wait(self.session.with_answer_timeout(query))
    }

    /// The value of the column `lane` for the rows of a session.
    fn lane_of(&self, pk: SessionPk) -> i16 {
        sql_lane(self.lanes.of_pk(pk))
    }

    /// Runs a query for a single number; returns 0 if there is no row.
    fn query_number(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<u64> {
        let row = self.query_opt(sql, params)?;
        row.map_or(Ok(0), |row| read_u64(&row, 0))
    }
}

/// The parameters of a query in a lane, of which the first is the lane.
fn in_lane<'p>(lane: &'p i16, params: &[Param<'p>]) -> Vec<Param<'p>> {
    let lane: Param<'p> = lane;
    [&[lane][..], params].concat()
}

/// Groups the numbers of sessions by the values of the column `lane`.
fn by_lane(lanes: Lanes, pks: impl Iterator<Item = SessionPk>) -> BTreeMap<i16, Vec<i64>> {
    let mut by_lane = BTreeMap::<i16, Vec<i64>>::new();
    for pk in pks {
        let lane = sql_lane(lanes.of_pk(pk));
        by_lane.entry(lane).or_default().push(sql_int(pk));
    }
    by_lane
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
        sessions(scope: &Scope, filter: &SessionFilter, before: Option<SessionOrder>, limit: usize)
            -> Vec<StoredSession> => session::list;
        turn(pk: SessionPk, id: &TurnId) -> Option<TurnRow> => turn::by_id;
        session_of_turn(id: &TurnId) -> Option<SessionPk> => turn::session_of;
        turns(pk: SessionPk, from: u64, to: u64, descending: bool, limit: usize)
            -> Vec<TurnRow> => turn::page;
        idle_turns(before: Timestamp, limit: usize) -> Vec<(SessionPk, TurnRow)> => turn::idle;
        records(pk: SessionPk, seq: u64, limit: usize) -> Vec<RecordRow> => record::page;
        agents(pks: &[SessionPk]) -> AgentsOf => session::agents;
        log(lane: Lane, after: u64, limit: usize) -> Vec<LogRow> => log::page;
        logs(after: &[(Lane, u64)], limit: usize) -> Vec<Vec<LogRow>> => log::pages;
        newest_log(lane: Lane) -> Option<LogRow> => log::newest;
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

    fn lanes(&self) -> Lanes {
        self.lanes
    }

    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<StoredSession>> {
        let lookup = SessionLookup::new(self.lanes, tenant, id, scope);
        let read = self.read_ahead.session(&lookup);
        read.unwrap_or_else(|| session::by_id(self, &lookup))
    }

    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<StoredSession>> {
        match self.read_ahead.session_by_pk(pk) {
            Some(read) => read.map(Some),
            None => session::by_pk(self, pk),
        }
    }

    fn turn_row_count(&self, pk: SessionPk) -> Result<u64> {
        static SQL: Sql = Sql::new(
            "SELECT count(*) FROM filrouge.turn WHERE lane = $1 AND session_pk = $2",
            &[Type::INT2, Type::INT8],
        );
        self.query_number(&SQL, &[&self.lane_of(pk), &sql_int(pk)])
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64> {
        let read = self.read_ahead.newest_seq(pk);
        read.unwrap_or_else(|| record::newest_seq(self, pk))
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>> {
        key::seq(self, pk, item_key(id))
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>> {
        key::seq(self, pk, request_key(id))
    }

    fn item_key_count(&self, pk: SessionPk) -> Result<u64> {
        static SQL: Sql = Sql::new(
            "SELECT count(*) FROM filrouge.item_key WHERE lane = $1 AND session_pk = $2",
            &[Type::INT2, Type::INT8],
        );
        self.query_number(&SQL, &[&self.lane_of(pk), &sql_int(pk)])
    }

    fn events_at(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Vec<(SessionPk, EventRow)>> {
        let events = event::by_time(self, from, to, after, limit)?;
        self.read_ahead.fetch_sessions(self, &events)?;
        Ok(events)
    }

    fn session_pks(&self) -> Result<Vec<SessionPk>> {
        static SQL: Sql = Sql::new(
            "SELECT pk FROM filrouge.session WHERE lane = $1
             UNION SELECT pk FROM filrouge.head WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.turn WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.record WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.item_key WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.event WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.draft WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.draft_chunk WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.session_agent WHERE lane = $1
             UNION SELECT session_pk FROM filrouge.checkpoint WHERE lane = $1",
            &[Type::INT2],
        );
        let fetched = self.query_lanes(&SQL, &[])?;
        let rows = fetched.iter().flatten();
        rows.map(|row| read_u64(row, 0)).collect()
    }
}

/// A page of records ends once its rows have this many bytes.
const PAGE_BYTES: usize = RECORDS_BYTES;

fn is_open(turn: &TurnRow) -> bool {
    turn.status == TurnStatus::Open
}
