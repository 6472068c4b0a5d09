//! [`Rows`]: reads and writes the rows of a store through a SQLite connection.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filrouge_store::command::{Scope, SessionFilter, Viewer};
use filrouge_store::read::ALL_PLACES;
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    AgentsOf, CheckpointRow, DraftChunk, DraftRow, EventPosition, EventRow, LogRow, NoteRow,
    RECORDS_BYTES, SessionOrder, SessionPk, StartedTurn, StoredSession, TurnRow, View, item_key,
    request_key,
};
use filrouge_store::{Lane, Lanes};
use filrouge_types::{
    EventKey, Failure, ItemId, RequestId, Result, SessionId, TenantId, Timestamp, TurnId,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};

use crate::error::{failure, malformed};

mod cache;
mod checkpoint;
mod draft;
mod event;
mod key;
mod note;
mod order;
mod page;
mod session;
mod turn;
mod write;

pub(crate) use cache::RowCache;
use order::check_order;
use session::{SESSION_COLUMNS, read_stored};
use turn::{all_turns, open_since, read_turn};

/// Counts this process's statements, so that tests and operators can see the number per request.
static STATEMENTS: AtomicU64 = AtomicU64::new(0);

/// The number of statements that this process has run on stores.
pub(crate) fn statements() -> u64 {
    STATEMENTS.load(Ordering::Relaxed)
}

/// The rows of a store, read and written through one connection in a transaction that the caller has begun.
pub(crate) struct Rows<'c> {
    pub(crate) conn: &'c Connection,
    /// The writer's cache.
    cache: Option<&'c RefCell<RowCache>>,
}

fn sql_int(n: u64) -> i64 {
    // All stored numbers are below 2^63 (docs/format.md); a larger one matches no row.
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn read_u64(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let n: i64 = row.get(column)?;
    u64::try_from(n).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, n))
}

/// The id of a turn's row: the session's number in the upper 32 bits, and the turn's place in the session in the lower
/// 32 bits.
fn turn_row_id(pk: SessionPk, place: u64) -> i64 {
    sql_int((pk << 32) | place.min(u64::from(u32::MAX)))
}

impl<'c> Rows<'c> {
    pub(crate) const fn new(conn: &'c Connection) -> Self {
        Self { conn, cache: None }
    }

    /// The rows for the writer, which keeps the cache up to date.
    pub(crate) const fn cached(conn: &'c Connection, cache: &'c RefCell<RowCache>) -> Self {
        Self {
            conn,
            cache: Some(cache),
        }
    }

    /// Looks a row up in the cache.
    fn in_cache<T>(&self, find: impl FnOnce(&RowCache) -> Option<T>) -> Option<T> {
        find(&self.cache?.borrow())
    }

    fn update_cache(&self, update: impl FnOnce(&mut RowCache)) {
        if let Some(cache) = self.cache {
            update(&mut cache.borrow_mut());
        }
    }

    fn prepare(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        STATEMENTS.fetch_add(1, Ordering::Relaxed);
        self.conn.prepare_cached(sql)
    }

    /// Reads at most one row.
    fn query_optional<T, P: Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.prepare(sql)
            .and_then(|mut s| s.query_row(params, read).optional())
            .map_err(failure)
    }

    /// Runs a query for a single number; returns 0 if there is no row.
    fn query_number<P: Params>(&self, sql: &str, params: P) -> Result<u64> {
        let number = self.query_optional(sql, params, |row| read_u64(row, 0))?;
        Ok(number.unwrap_or(0))
    }

    /// Reads all rows.
    fn query_all<T, P: Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.prepare(sql)
            .and_then(|mut s| s.query_map(params, read)?.collect())
            .map_err(failure)
    }

    /// Calls `visit` with each row, so that not all rows are in memory at once.
    fn for_each_row(
        &self,
        sql: &str,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let mut visit_all = || {
            let mut statement = self.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                visit(row)?;
            }
            Ok(())
        };
        visit_all().map_err(failure)
    }

    /// Executes a statement that returns no rows.
    fn execute<P: Params>(&self, sql: &str, params: P) -> Result<()> {
        self.prepare(sql)
            .and_then(|mut s| s.execute(params))
            .map_err(failure)?;
        Ok(())
    }
}

/// Decodes the columns commit_no, data; `None` if the row is malformed.
fn read_log(row: &Row<'_>) -> rusqlite::Result<Option<LogRow>> {
    Ok(LogRow::decode(
        Lane::FIRST,
        read_u64(row, 0)?,
        row.get_ref(1)?.as_blob()?,
    ))
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
        event(pk: SessionPk, key: &EventKey) -> Option<EventRow> => event::by_key;
        events(pk: SessionPk, after: u64, limit: usize) -> Vec<EventRow> => event::page;
        newest_event(pk: SessionPk) -> u64 => event::newest;
        events_at(from: Timestamp, to: Timestamp, after: Option<EventPosition>, limit: usize)
            -> Vec<(SessionPk, EventRow)> => event::page_at;
        checkpoint(pk: SessionPk, seq: u64) -> Option<CheckpointRow> => checkpoint::get;
        checkpoint_seqs(pk: SessionPk) -> Vec<u64> => checkpoint::seqs;
        note(name: &str) -> Option<NoteRow> => note::get;
        notes() -> Vec<Option<NoteRow>> => note::all;
        draft(pk: SessionPk, place: u64) -> Option<DraftRow> => draft::get;
        drafts(pk: SessionPk) -> Vec<DraftRow> => draft::for_session;
        draft_chunks(pk: SessionPk, place: u64, after: u64) -> Vec<DraftChunk> => draft::chunks;
        all_drafts() -> Vec<(SessionPk, DraftRow)> => draft::all;
    }

    fn lanes(&self) -> Lanes {
        Lanes::ONE
    }

    fn started_turn(&self, pk: SessionPk, first_seq: u64) -> Option<Arc<StartedTurn>> {
        self.in_cache(|cache| cache.started_turn(pk, first_seq))
    }

    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<StoredSession>> {
        if let Some(cached) = self.in_cache(|cache| cache.session(tenant, id, scope)) {
            return Ok(Some(cached));
        }
        // The owner is part of the WHERE clause, unless the query has no scope or the viewer is the operator.
        let is_restricted = scope.is_some_and(|s| s.viewer != Viewer::Operator);
        let identity = scope.and_then(|s| s.viewer.identity()).map(|i| i.as_str());
        let token = scope.and_then(|s| s.token).map(|t| t.0);
        let sql = select_session(
            "s.tenant_id = ?1 AND s.session_id = ?2 AND (NOT ?3 OR s.identity_id = ?4
             OR s.identity_id IS NULL AND (s.token IS NULL OR s.token = ?5))",
        );
        let stored = self.query_optional(
            &sql,
            params![tenant.as_str(), id.as_str(), is_restricted, identity, token],
            read_stored,
        )?;
        let stored = stored.transpose()?;
        if let Some(stored) = &stored {
            self.update_cache(|cache| cache.add_session(stored));
        }
        Ok(stored)
    }

    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<StoredSession>> {
        self.query_optional(&select_session("s.pk = ?1"), [sql_int(pk)], read_stored)?
            .transpose()
    }

    fn turn(&self, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>> {
        let is_wanted = |turn: &&TurnRow| turn.turn_id == *id;
        let cached = |cache: &RowCache| cache.newest_turn(pk).filter(is_wanted).cloned();
        if let Some(turn) = self.in_cache(cached) {
            return Ok(Some(turn));
        }
        let found = self.query_optional(
            "SELECT id, turn_id, data, open_since FROM turn WHERE turn_id = ?1 AND id BETWEEN ?2 AND ?3",
            params![
                id.as_bytes().as_slice(),
                turn_row_id(pk, 0),
                turn_row_id(pk, u64::MAX)
            ],
            read_turn,
        )?;
        let turn = found.map(|turn| turn.ok_or_else(|| malformed("turn")));
        Ok(turn.transpose()?.map(|(_, turn)| turn))
    }

    fn session_of_turn(&self, id: &TurnId) -> Result<Option<SessionPk>> {
        let sql = "SELECT id FROM turn WHERE turn_id = ?1 ORDER BY id LIMIT 1";
        self.query_optional(sql, [id.as_bytes().as_slice()], |row| {
            Ok(read_u64(row, 0)? >> 32)
        })
    }

    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>> {
        let sql = if descending {
            "SELECT id, turn_id, data, open_since FROM turn WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3"
        } else {
            "SELECT id, turn_id, data, open_since FROM turn WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3"
        };
        if from > to {
            return Ok(Vec::new());
        }
        let is_newest_wanted = descending && limit == 1 && (from, to) == ALL_PLACES;
        if is_newest_wanted
            && let Some(turn) = self.in_cache(|cache| cache.newest_turn(pk).cloned())
        {
            return Ok(vec![turn]);
        }
        let rows = self.query_all(
            sql,
            [
                turn_row_id(pk, from),
                turn_row_id(pk, to),
                sql_int(limit as u64),
            ],
            read_turn,
        )?;
        let turns = all_turns(rows)?;
        let keys = turns.iter().map(|(pk, turn)| (pk << 32) | turn.place());
        let range = (turn_row_id(pk, from), turn_row_id(pk, to));
        let range = (range.0.unsigned_abs(), range.1.unsigned_abs());
        check_order(keys, range, descending, "turns")?;
        if is_newest_wanted && let Some((_, newest)) = turns.first() {
            self.update_cache(|cache| cache.set_newest_turn(pk, newest));
        }
        Ok(turns.into_iter().map(|(_, t)| t).collect())
    }

    fn turn_row_count(&self, pk: SessionPk) -> Result<u64> {
        let sql = "SELECT count(*) FROM turn WHERE id BETWEEN ?1 AND ?2";
        self.query_number(sql, [turn_row_id(pk, 0), turn_row_id(pk, u64::MAX)])
    }

    fn idle_turns(&self, before: Timestamp, limit: usize) -> Result<Vec<(SessionPk, TurnRow)>> {
        let sql = "SELECT id, turn_id, data, open_since FROM turn WHERE open_since < ?1 ORDER BY open_since LIMIT ?2";
        let rows = self.query_all(sql, [before.as_micros(), sql_int(limit as u64)], read_turn)?;
        let row_count = rows.len();
        let turns: Vec<_> = rows.into_iter().flatten().collect();
        if turns.len() < row_count {
            let malformed = row_count - turns.len();
            tracing::error!(
                malformed,
                "stored open turns are malformed; `verify` names them"
            );
        }
        Ok(turns)
    }

    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>> {
        let sql = "SELECT k.first_seq, k.count, r.head, r.body
             FROM record_key k JOIN record r ON r.id = k.record_id
             WHERE k.session_pk = ?1 AND k.first_seq >= coalesce(
                 (SELECT max(first_seq) FROM record_key WHERE session_pk = ?1 AND first_seq <= ?2), ?2)
             ORDER BY k.first_seq LIMIT ?3";
        let read = || -> rusqlite::Result<Vec<RecordRow>> {
            let mut statement = self.prepare(sql)?;
            let mut rows = statement.query([sql_int(pk), sql_int(seq), sql_int(limit as u64)])?;
            let (mut records, mut bytes) = (Vec::new(), 0);
            while bytes < RECORDS_BYTES
                && let Some(row) = rows.next()?
            {
                let record = RecordRow {
                    first_seq: read_u64(row, 0)?,
                    count: read_u64(row, 1)?,
                    head: row.get(2)?,
                    body: row.get(3)?,
                };
                bytes += record.body.len();
                records.push(record);
            }
            Ok(records)
        };
        let records = read().map_err(failure)?;
        let keys = records.iter().map(|r| r.first_seq);
        check_order(keys, (0, u64::MAX), false, "items")?;
        Ok(records)
    }

    fn check_structure(&self) -> Result<Vec<String>> {
        let found = self.query_all("PRAGMA integrity_check(20)", [], |row| {
            row.get::<_, String>(0)
        })?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64> {
        if let Some(newest) = self.in_cache(|cache| cache.newest_seq(pk)) {
            return Ok(newest);
        }
        let sql = "SELECT k.first_seq + k.count - 1 FROM record_key k
             WHERE k.session_pk = ?1 AND EXISTS (SELECT 1 FROM record WHERE id = k.record_id)
             ORDER BY k.first_seq DESC LIMIT 1";
        let newest = self.query_number(sql, [sql_int(pk)])?;
        self.update_cache(|cache| cache.set_newest_seq(pk, newest));
        Ok(newest)
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>> {
        self.key_seq(pk, item_key(id))
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>> {
        self.key_seq(pk, request_key(id))
    }

    fn item_key_count(&self, pk: SessionPk) -> Result<u64> {
        let sql = "SELECT count(*) FROM item_key WHERE session_pk = ?1";
        self.query_number(sql, [sql_int(pk)])
    }

    fn agents(&self, pks: &[SessionPk]) -> Result<AgentsOf> {
        session::agents(self, pks)
    }

    fn log(&self, _: Lane, after: u64, limit: usize) -> Result<Vec<LogRow>> {
        let sql = "SELECT commit_no, data FROM commit_log WHERE commit_no > ?1 ORDER BY commit_no LIMIT ?2";
        let rows = self.query_all(sql, [sql_int(after), sql_int(limit as u64)], read_log)?;
        let rows: Vec<LogRow> = rows
            .into_iter()
            .map(|r| r.ok_or_else(|| malformed("commit")))
            .collect::<Result<_>>()?;
        let keys = rows.iter().map(|r| r.commit_no);
        check_order(keys, (after.saturating_add(1), u64::MAX), false, "commits")?;
        Ok(rows)
    }

    fn newest_log(&self, _: Lane) -> Result<Option<LogRow>> {
        if let Some(newest) = self.in_cache(|cache| cache.newest_log.clone()) {
            return Ok(Some(newest));
        }
        let found = self.query_optional(
            "SELECT commit_no, data FROM commit_log ORDER BY commit_no DESC LIMIT 1",
            [],
            read_log,
        )?;
        let newest = found.map(|row| row.ok_or_else(|| malformed("commit")));
        let newest = newest.transpose()?;
        self.update_cache(|cache| cache.newest_log.clone_from(&newest));
        Ok(newest)
    }

    fn for_each_session(
        &self,
        see: &mut dyn FnMut(SessionPk, Option<StoredSession>),
    ) -> Result<()> {
        let mut visit = |pk: SessionPk, stored| see(pk, stored);
        self.for_each_row(&select_session("true"), |row| {
            let stored = read_stored(row)?.ok();
            visit(read_u64(row, 0)?, stored);
            Ok(())
        })?;
        let sql = "SELECT pk FROM head WHERE NOT EXISTS (SELECT 1 FROM session WHERE pk = head.pk)";
        self.for_each_row(sql, |row| {
            visit(read_u64(row, 0)?, None);
            Ok(())
        })
    }

    fn session_pks(&self) -> Result<Vec<SessionPk>> {
        let sql = "SELECT pk FROM session UNION SELECT pk FROM head UNION SELECT id >> 32 FROM turn
             UNION SELECT session_pk FROM record_key UNION SELECT session_pk FROM item_key
             UNION SELECT session_pk FROM session_agent UNION SELECT session_pk FROM event UNION SELECT session_pk FROM checkpoint UNION SELECT turn >> 32 FROM draft UNION SELECT turn >> 32 FROM draft_chunk";
        self.query_all(sql, [], |row| read_u64(row, 0))
    }
}

/// The query for stored sessions that meet an SQL condition.
fn select_session(condition: &str) -> String {
    format!(
        "SELECT {SESSION_COLUMNS} FROM session s LEFT JOIN head h ON h.pk = s.pk WHERE {condition}"
    )
}
