//! Buffers the rows of a group of writes, and sends them with one or two statements for each table.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, LogRow, SessionPk, SessionRow, TurnRow,
};
use tokio::try_join;
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::rows::{open_since, sql_int};
use crate::session::{Param, Session, Sql};

mod sessions;
mod side_rows;

pub(crate) use sessions::{INSERT_SESSIONS, UPDATE_SESSIONS};
pub(crate) use side_rows::{DELETE_CHECKPOINTS, INSERT_EVENTS, PUT_CHECKPOINTS};

/// The rows that are written but not yet sent. A turn or draft is identified by its session and its place, a chunk also
/// by its number.
#[derive(Default)]
pub(crate) struct Pending {
    /// New sessions.
    new_sessions: Vec<(SessionPk, SessionRow)>,
    changed_sessions: BTreeMap<SessionPk, SessionRow>,
    heads: BTreeMap<SessionPk, Vec<u8>>,
    new_turns: BTreeMap<(SessionPk, u64), TurnRow>,
    /// Changed turns.
    changed_turns: BTreeMap<(SessionPk, u64), TurnRow>,
    records: Vec<(SessionPk, RecordRow)>,
    record_bytes: usize,
    keys: Vec<(SessionPk, [u8; 16], u64)>,
    agents: BTreeSet<(SessionPk, Box<str>)>,
    drafts: BTreeMap<(SessionPk, u64), Vec<u8>>,
    deleted_drafts: BTreeSet<(SessionPk, u64)>,
    chunks: BTreeMap<(SessionPk, u64, u64), Vec<u8>>,
    /// The drafts of which all stored chunks are deleted.
    cleared_chunks: BTreeSet<(SessionPk, u64)>,
    events: Vec<(SessionPk, EventRow)>,
    checkpoints: BTreeMap<(SessionPk, u64), Vec<u8>>,
    deleted_checkpoints: BTreeSet<(SessionPk, u64)>,
    log: Option<LogRow>,
}

pub(crate) static PUT_HEADS: Sql = Sql::new(
    "INSERT INTO filrouge.head (pk, data) SELECT * FROM unnest($1, $2)
     ON CONFLICT (pk) DO UPDATE SET data = EXCLUDED.data",
    &[Type::INT8_ARRAY, Type::BYTEA_ARRAY],
);
pub(crate) static INSERT_TURNS: Sql = Sql::new(
    "INSERT INTO filrouge.turn (session_pk, place, turn_id, open, open_since, data)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6)",
    TURN_TYPES,
);
pub(crate) static UPDATE_TURNS: Sql = Sql::new(
    "INSERT INTO filrouge.turn (session_pk, place, turn_id, open, open_since, data)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
     ON CONFLICT (session_pk, place) DO UPDATE
     SET open = EXCLUDED.open, open_since = EXCLUDED.open_since, data = EXCLUDED.data",
    TURN_TYPES,
);
const TURN_TYPES: &[Type] = &[
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::UUID_ARRAY,
    Type::BOOL_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
];
pub(crate) static INSERT_RECORDS: Sql = Sql::new(
    "INSERT INTO filrouge.record (session_pk, first_seq, count, head, body)
     SELECT * FROM unnest($1, $2, $3, $4, $5)",
    &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
pub(crate) static INSERT_KEYS: Sql = Sql::new(
    "INSERT INTO filrouge.item_key (session_pk, key, seq) SELECT * FROM unnest($1, $2, $3)",
    &[Type::INT8_ARRAY, Type::UUID_ARRAY, Type::INT8_ARRAY],
);
pub(crate) static INSERT_AGENTS: Sql = Sql::new(
    "INSERT INTO filrouge.session_agent (session_pk, agent) SELECT * FROM unnest($1, $2)
     ON CONFLICT DO NOTHING",
    &[Type::INT8_ARRAY, Type::BYTEA_ARRAY],
);
pub(crate) static PUT_DRAFTS: Sql = Sql::new(
    "INSERT INTO filrouge.draft (session_pk, place, data) SELECT * FROM unnest($1, $2, $3)
     ON CONFLICT (session_pk, place) DO UPDATE SET data = EXCLUDED.data",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
);
pub(crate) static DELETE_DRAFTS: Sql = Sql::new(
    "DELETE FROM filrouge.draft d USING unnest($1, $2) AS gone (session_pk, place)
     WHERE d.session_pk = gone.session_pk AND d.place = gone.place",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY],
);
pub(crate) static INSERT_CHUNKS: Sql = Sql::new(
    "INSERT INTO filrouge.draft_chunk (session_pk, place, number, data)
     SELECT * FROM unnest($1, $2, $3, $4)",
    &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
pub(crate) static DELETE_CHUNKS: Sql = Sql::new(
    "DELETE FROM filrouge.draft_chunk c USING unnest($1, $2) AS gone (session_pk, place)
     WHERE c.session_pk = gone.session_pk AND c.place = gone.place",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY],
);
/// Writes the row of the commit log. PostgreSQL sends the notification when the transaction is committed.
pub(crate) static INSERT_LOG: Sql = Sql::new(
    "WITH put AS (INSERT INTO filrouge.commit_log (commit_no, data) VALUES ($1, $2) RETURNING commit_no)
     SELECT pg_notify('filrouge', commit_no::text) FROM put",
    &[Type::INT8, Type::BYTEA],
);

impl Pending {
    pub(crate) fn insert_session(&mut self, pk: SessionPk, row: &SessionRow) {
        self.new_sessions.push((pk, row.clone()));
    }

    pub(super) fn change_session(&mut self, pk: SessionPk, row: &SessionRow) {
        self.changed_sessions.insert(pk, row.clone());
    }

    pub(crate) fn put_head(&mut self, pk: SessionPk, head: &HeadRow) {
        self.heads.insert(pk, head.encode());
    }

    /// Buffers a turn. `new`: the turn is not in the database yet.
    pub(crate) fn put_turn(&mut self, pk: SessionPk, row: &TurnRow, new: bool) {
        let key = (pk, row.place());
        let turns = if new || self.new_turns.contains_key(&key) {
            &mut self.new_turns
        } else {
            &mut self.changed_turns
        };
        turns.insert(key, row.clone());
    }

    /// Buffers a record. Returns the total number of bytes of all buffered records.
    pub(crate) fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> usize {
        self.record_bytes += row.body.len();
        self.records.push((pk, row.clone()));
        self.record_bytes
    }

    pub(crate) fn insert_key(&mut self, pk: SessionPk, key: [u8; 16], seq: u64) {
        self.keys.push((pk, key, seq));
    }

    pub(crate) fn insert_agent(&mut self, pk: SessionPk, agent: &str) {
        self.agents.insert((pk, agent.into()));
    }

    pub(crate) fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) {
        self.drafts.insert((pk, row.place), row.encode());
    }

    pub(crate) fn insert_chunk(&mut self, pk: SessionPk, place: u64, chunk: &DraftChunk) {
        let key = (pk, place, chunk.number);
        self.chunks.insert(key, chunk.encode());
    }

    pub(super) fn clear_chunks(&mut self, pk: SessionPk, place: u64) {
        self.chunks
            .retain(|(chunk_pk, chunk_place, _), _| (*chunk_pk, *chunk_place) != (pk, place));
        self.cleared_chunks.insert((pk, place));
    }

    pub(super) fn delete_draft(&mut self, pk: SessionPk, place: u64) {
        self.clear_chunks(pk, place);
        self.drafts.remove(&(pk, place));
        self.deleted_drafts.insert((pk, place));
    }

    pub(crate) fn insert_event(&mut self, pk: SessionPk, row: &EventRow) {
        self.events.push((pk, row.clone()));
    }

    pub(crate) fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) {
        self.checkpoints
            .insert((pk, row.checkpoint.seq), row.encode());
    }

    pub(super) fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) {
        self.checkpoints.remove(&(pk, seq));
        self.deleted_checkpoints.insert((pk, seq));
    }

    pub(super) fn set_log(&mut self, row: &LogRow) {
        self.log = Some(row.clone());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.new_sessions.is_empty()
            && self.changed_sessions.is_empty()
            && self.heads.is_empty()
            && self.new_turns.is_empty()
            && self.changed_turns.is_empty()
            && self.records.is_empty()
            && self.keys.is_empty()
            && self.agents.is_empty()
            && self.drafts.is_empty()
            && self.deleted_drafts.is_empty()
            && self.chunks.is_empty()
            && self.cleared_chunks.is_empty()
            && self.events.is_empty()
            && self.checkpoints.is_empty()
            && self.deleted_checkpoints.is_empty()
            && self.log.is_none()
    }

    /// Sends all rows without waiting between statements. Deletes precede inserts, which may write the same keys again.
    pub(crate) async fn send(&self, session: &Session) -> Result<(), Error> {
        try_join!(
            biased;
            send_deletes(session, &DELETE_CHUNKS, &self.cleared_chunks),
            send_deletes(session, &DELETE_DRAFTS, &self.deleted_drafts),
            send_deletes(session, &DELETE_CHECKPOINTS, &self.deleted_checkpoints),
            sessions::insert(session, &self.new_sessions),
            sessions::update(session, &self.changed_sessions),
            self.send_records(session),
            self.send_keys(session),
            send_turns(session, &INSERT_TURNS, &self.new_turns),
            send_turns(session, &UPDATE_TURNS, &self.changed_turns),
            self.send_agents(session),
            send_encoded(session, &PUT_DRAFTS, &self.drafts),
            self.send_chunks(session),
            side_rows::insert_events(session, &self.events),
            send_encoded(session, &PUT_CHECKPOINTS, &self.checkpoints),
            self.send_heads(session),
            self.send_log(session),
        )?;
        Ok(())
    }

    async fn send_heads(&self, session: &Session) -> Result<(), Error> {
        let pks: Vec<i64> = self.heads.keys().map(|pk| sql_int(*pk)).collect();
        let data: Vec<&[u8]> = self.heads.values().map(Vec::as_slice).collect();
        send_columns(session, &PUT_HEADS, pks.len(), &[&pks, &data]).await
    }

    async fn send_records(&self, session: &Session) -> Result<(), Error> {
        let rows = || self.records.iter().map(|(_, row)| row);
        let pks: Vec<i64> = self.records.iter().map(|(pk, _)| sql_int(*pk)).collect();
        let seqs: Vec<i64> = rows().map(|r| sql_int(r.first_seq)).collect();
        let counts: Vec<i64> = rows().map(|r| sql_int(r.count)).collect();
        let heads: Vec<&[u8]> = rows().map(|r| r.head.as_slice()).collect();
        let bodies: Vec<&[u8]> = rows().map(|r| r.body.as_slice()).collect();
        let params: [Param<'_>; 5] = [&pks, &seqs, &counts, &heads, &bodies];
        send_columns(session, &INSERT_RECORDS, pks.len(), &params).await
    }

    async fn send_keys(&self, session: &Session) -> Result<(), Error> {
        let pks: Vec<i64> = self.keys.iter().map(|(pk, ..)| sql_int(*pk)).collect();
        let keys = self.keys.iter().map(|(_, key, _)| *key);
        let keys: Vec<Uuid> = keys.map(Uuid::from_bytes).collect();
        let seqs: Vec<i64> = self.keys.iter().map(|(.., seq)| sql_int(*seq)).collect();
        send_columns(session, &INSERT_KEYS, pks.len(), &[&pks, &keys, &seqs]).await
    }

    async fn send_agents(&self, session: &Session) -> Result<(), Error> {
        let pks: Vec<i64> = self.agents.iter().map(|(pk, _)| sql_int(*pk)).collect();
        let agents: Vec<&[u8]> = self.agents.iter().map(|(_, a)| a.as_bytes()).collect();
        send_columns(session, &INSERT_AGENTS, pks.len(), &[&pks, &agents]).await
    }

    async fn send_chunks(&self, session: &Session) -> Result<(), Error> {
        let keys = self.chunks.keys().map(|(pk, place, _)| (*pk, *place));
        let (pks, places) = key_columns(keys);
        let numbers: Vec<i64> = self.chunks.keys().map(|(.., n)| sql_int(*n)).collect();
        let data: Vec<&[u8]> = self.chunks.values().map(Vec::as_slice).collect();
        let params: [Param<'_>; 4] = [&pks, &places, &numbers, &data];
        send_columns(session, &INSERT_CHUNKS, pks.len(), &params).await
    }

    async fn send_log(&self, session: &Session) -> Result<(), Error> {
        let Some(row) = &self.log else { return Ok(()) };
        session
            .query(&INSERT_LOG, &[&sql_int(row.commit_no), &row.encode()])
            .await
            .map(drop)
    }
}

/// Runs a statement on `count` rows, of which each parameter contains one column; does nothing without rows.
async fn send_columns(
    session: &Session,
    sql: &'static Sql,
    count: usize,
    columns: &[Param<'_>],
) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    session.query(sql, columns).await.map(drop)
}

/// The two columns of these keys, which are a session's number and, for example, a place.
fn key_columns(keys: impl IntoIterator<Item = (SessionPk, u64)>) -> (Vec<i64>, Vec<i64>) {
    let columns = keys.into_iter().map(|(pk, n)| (sql_int(pk), sql_int(n)));
    columns.unzip()
}

async fn send_deletes(
    session: &Session,
    sql: &'static Sql,
    keys: &BTreeSet<(SessionPk, u64)>,
) -> Result<(), Error> {
    let (pks, places) = key_columns(keys.iter().copied());
    send_columns(session, sql, pks.len(), &[&pks, &places]).await
}

/// Sends drafts or checkpoints, which are encoded.
async fn send_encoded(
    session: &Session,
    sql: &'static Sql,
    rows: &BTreeMap<(SessionPk, u64), Vec<u8>>,
) -> Result<(), Error> {
    let (pks, places) = key_columns(rows.keys().copied());
    let data: Vec<&[u8]> = rows.values().map(Vec::as_slice).collect();
    send_columns(session, sql, pks.len(), &[&pks, &places, &data]).await
}

async fn send_turns(
    session: &Session,
    sql: &'static Sql,
    rows: &BTreeMap<(SessionPk, u64), TurnRow>,
) -> Result<(), Error> {
    let (pks, places) = key_columns(rows.keys().copied());
    let ids = rows.values().map(|t| *t.turn_id.as_bytes());
    let ids: Vec<Uuid> = ids.map(Uuid::from_bytes).collect();
    let since: Vec<Option<i64>> = rows.values().map(open_since).collect();
    let open: Vec<bool> = since.iter().map(Option::is_some).collect();
    let data: Vec<Vec<u8>> = rows.values().map(TurnRow::encode).collect();
    let params: [Param<'_>; 6] = [&pks, &places, &ids, &open, &since, &data];
    send_columns(session, sql, pks.len(), &params).await
}
