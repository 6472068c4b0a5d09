//! One transaction of the writer, which contains a group of writes to lanes that it has locked. The rows that the rules
//! are expected to read are fetched in advance. The rows that the rules write are buffered, and sent when all writes of
//! the group are applied. A read of other rows queries the database; the buffered rows are sent first, so that the answer
//! includes them.

use std::cell::RefCell;

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    AgentsOf, CheckpointRow, DraftChunk, DraftRow, EventPosition, EventRow, LogRow, NoteRow,
    SessionOrder, SessionPk, StoredSession, TurnRow, View, event_key, item_key, request_key,
};
use filrouge_store::write_queue::GroupTx;
use filrouge_store::{Lane, Lanes};
use filrouge_types::{
    EventKey, Failure, ItemId, RequestId, SessionId, TenantId, Timestamp, TurnId,
};
use tokio_postgres::types::Type;

use crate::rows::Rows;
use crate::session::Sql;

mod cache;
mod pending;
mod prefetch;
mod put;

use cache::Cache;
pub(crate) use pending::Pending;
pub(crate) use prefetch::{Fetched, Prefetch};

/// The rows of one transaction of the writer: those fetched, and those written so far.
pub(crate) struct Stage<'c> {
    rows: Rows<'c>,
    cache: Cache,
    pending: RefCell<Pending>,
    /// The number of write operations so far. A command that writes nothing leaves it unchanged.
    write_count: u64,
}

impl<'c> Stage<'c> {
    pub(crate) fn new(rows: Rows<'c>, fetched: Fetched) -> Self {
        Self {
            cache: Cache::new(rows.lanes, fetched),
            pending: RefCell::new(Pending::new(rows.lanes)),
            write_count: 0,
            rows,
        }
    }

    /// Returns the buffered rows, which the caller must send.
    pub(crate) fn into_pending(self) -> Pending {
        self.pending.into_inner()
    }

    /// Sends all buffered rows, and returns the database's rows.
    fn flush(&self) -> Result<&Rows<'c>, Failure> {
        let mut pending = self.pending.borrow_mut();
        let session = self.rows.session;
        let send = session.with_answer_timeout(pending.send(session));
        self.rows.driver.wait(send)?;
        *pending = Pending::new(self.rows.lanes);
        Ok(&self.rows)
    }
}

impl GroupTx for Stage<'_> {
    fn rows_written(&self) -> u64 {
        self.write_count
    }

    fn is_unusable(&self) -> bool {
        self.rows.session.failed()
    }
}

/// Methods of [`View`] whose rows are never cached: they send the buffered rows, and then query the database.
macro_rules! query_database {
    ($($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $method(&self, $($argument: $type),*) -> Result<$result, Failure> {
            self.flush()?.$method($($argument),*)
        }
    )*};
}

impl View for Stage<'_> {
    query_database! {
        session_by_pk(pk: SessionPk) -> Option<StoredSession>;
        sessions(scope: &Scope, filter: &SessionFilter, before: Option<SessionOrder>, limit: usize)
            -> Vec<StoredSession>;
        session_of_turn(id: &TurnId) -> Option<SessionPk>;
        turn_row_count(pk: SessionPk) -> u64;
        idle_turns(before: Timestamp, limit: usize) -> Vec<(SessionPk, TurnRow)>;
        item_key_count(pk: SessionPk) -> u64;
        agents(pks: &[SessionPk]) -> AgentsOf;
        log(lane: Lane, after: u64, limit: usize) -> Vec<LogRow>;
        logs(after: &[(Lane, u64)], limit: usize) -> Vec<Vec<LogRow>>;
        for_each_session(visit: &mut dyn FnMut(SessionPk, Option<StoredSession>)) -> ();
        check_structure() -> Vec<String>;
        events(pk: SessionPk, after: u64, limit: usize) -> Vec<EventRow>;
        events_at(from: Timestamp, to: Timestamp, after: Option<EventPosition>, limit: usize)
            -> Vec<(SessionPk, EventRow)>;
        note(name: &str) -> Option<NoteRow>;
        notes() -> Vec<Option<NoteRow>>;
        drafts(pk: SessionPk) -> Vec<DraftRow>;
        draft_chunks(pk: SessionPk, place: u64, after: u64) -> Vec<DraftChunk>;
        all_drafts() -> Vec<(SessionPk, DraftRow)>;
        session_pks() -> Vec<SessionPk>;
    }

    fn lanes(&self) -> Lanes {
        self.rows.lanes
    }

    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<StoredSession>, Failure> {
        match self.cache.session(tenant, id) {
            Some(found) => Ok(found
                .filter(|stored| scope.is_none_or(|scope| scope.can_see(&stored.row)))
                .cloned()),
            None => self.flush()?.session(tenant, id, scope),
        }
    }

    fn turn(&self, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>, Failure> {
        match self.cache.turn(pk, id) {
            Some(found) => Ok(found.cloned()),
            None => self.flush()?.turn(pk, id),
        }
    }

    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>, Failure> {
        if let Some(newest) = self.cache.newest_turn(pk) {
            // No turn follows the newest one, so most queries for later turns end here, without a statement.
            if newest.is_none_or(|turn| turn.place() < from) {
                return Ok(Vec::new());
            }
            if let Some(turn) = newest.filter(|t| descending && limit == 1 && t.place() <= to) {
                return Ok(vec![turn.clone()]);
            }
        }
        self.flush()?.turns(pk, from, to, descending, limit)
    }

    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>, Failure> {
        match self.cache.records(pk, seq, limit) {
            Some(found) => Ok(found),
            None => self.flush()?.records(pk, seq, limit),
        }
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64, Failure> {
        match self.cache.newest_seq(pk) {
            Some(seq) => Ok(seq),
            None => self.flush()?.newest_seq(pk),
        }
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>, Failure> {
        match self.cache.key(pk, item_key(id)) {
            Some(seq) => Ok(seq),
            None => self.flush()?.item_seq(pk, id),
        }
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>, Failure> {
        match self.cache.key(pk, request_key(id)) {
            Some(seq) => Ok(seq),
            None => self.flush()?.request_seq(pk, id),
        }
    }

    fn newest_log(&self, lane: Lane) -> Result<Option<LogRow>, Failure> {
        // The log rows of this transaction are written last, so the fetched one is still the newest of its lane.
        match self.cache.newest_log(lane) {
            Some(found) => Ok(found.cloned()),
            None => self.flush()?.newest_log(lane),
        }
    }

    fn event(&self, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>, Failure> {
        match self.cache.side_rows().event(pk, event_key(key)) {
            Some(found) => Ok(found.cloned()),
            None => self.flush()?.event(pk, key),
        }
    }

    fn newest_event(&self, pk: SessionPk) -> Result<u64, Failure> {
        match self.cache.side_rows().newest_event(pk) {
            Some(number) => Ok(number),
            None => self.flush()?.newest_event(pk),
        }
    }

    fn checkpoint(&self, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>, Failure> {
        match self.cache.side_rows().checkpoint(pk, seq) {
            Some(found) => Ok(found.cloned()),
            None => self.flush()?.checkpoint(pk, seq),
        }
    }

    fn checkpoint_seqs(&self, pk: SessionPk) -> Result<Vec<u64>, Failure> {
        match self.cache.side_rows().checkpoint_seqs(pk) {
            Some(seqs) => Ok(seqs),
            None => self.flush()?.checkpoint_seqs(pk),
        }
    }

    fn draft(&self, pk: SessionPk, place: u64) -> Result<Option<DraftRow>, Failure> {
        match self.cache.draft(pk, place) {
            Some(found) => Ok(found.cloned()),
            None => self.flush()?.draft(pk, place),
        }
    }
}

/// Locks those of the given lanes that no other transaction has locked, until the transaction ends, and returns them.
/// Whoever has locked a lane is its only writer.
pub(crate) static LOCK_LANES: Sql = Sql::new(
    "SELECT lane FROM filrouge.lane WHERE lane = ANY($1) ORDER BY lane FOR NO KEY UPDATE SKIP LOCKED",
    &[Type::INT2_ARRAY],
);
/// Waits until no other transaction has locked a lane, and locks it. A transaction that has locked a lane must not wait
/// for another one.
pub(crate) static LOCK_LANE_WAIT: Sql = Sql::new(
    "SELECT lane FROM filrouge.lane WHERE lane = $1 FOR NO KEY UPDATE",
    &[Type::INT2],
);
/// Reads the commit of a lane with a given number.
pub(crate) static LOG_AT: Sql = Sql::new(
    "SELECT commit_no, data FROM filrouge.commit_log WHERE lane = $1 AND commit_no = $2",
    &[Type::INT2, Type::INT8],
);
/// Requests a vacuum, in the transaction that erases contents of a lane (see [`crate::vacuum`]). The number identifies
/// the request: it is that of the commit.
pub(crate) static REQUEST_VACUUM: Sql = Sql::new(
    "INSERT INTO filrouge.erasing (lane, commit_no) VALUES ($1, $2)
     ON CONFLICT (lane) DO UPDATE SET commit_no = EXCLUDED.commit_no",
    &[Type::INT2, Type::INT8],
);
/// Notifies all servers of commits; the payload is an [`announcement`](crate::follow::announcement). Sent after `COMMIT`:
/// in a transaction, a notification would take a lock that makes all commits of the database wait for each other. A
/// notification has a transaction of its own, which PostgreSQL would flush; nothing is lost without that.
pub(crate) static NOTIFY: Sql = Sql::new(
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify('filrouge', $1)",
    &[Type::TEXT],
);

/// The statements that groups of writes use, which are prepared when the connection is opened. A statement that is
/// missing here would be prepared before its first execution, and `COMMIT` would overtake it.
pub(crate) static STATEMENTS: &[&Sql] = &[
    &LOCK_LANES,
    &LOCK_LANE_WAIT,
    &LOG_AT,
    &REQUEST_VACUUM,
    &NOTIFY,
    &prefetch::NEWEST,
    &prefetch::SESSIONS,
    &prefetch::KEYS,
    &prefetch::RECORDS,
    &prefetch::EVENTS,
    &prefetch::CHECKPOINTS,
    &pending::INSERT_SESSIONS,
    &pending::UPDATE_SESSIONS,
    &pending::PUT_HEADS,
    &pending::INSERT_TURNS,
    &pending::UPDATE_TURNS,
    &pending::INSERT_RECORDS,
    &pending::INSERT_KEYS,
    &pending::INSERT_AGENTS,
    &pending::PUT_DRAFTS,
    &pending::DELETE_DRAFTS,
    &pending::INSERT_CHUNKS,
    &pending::DELETE_CHUNKS,
    &pending::INSERT_EVENTS,
    &pending::PUT_CHECKPOINTS,
    &pending::DELETE_CHECKPOINTS,
    &pending::INSERT_LOG,
];
