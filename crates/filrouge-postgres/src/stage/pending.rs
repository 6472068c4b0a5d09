//! Buffers the rows of a group of writes, and sends them, in most cases with one or two statements for each table. A
//! statement covers all lanes: each of its parameters is a column of the rows that it writes or deletes.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    AgentRow, CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, LogRow, SessionPk,
    SessionRow, TurnRow,
};
use filrouge_store::{Keyring, Lanes};
use tokio::try_join;
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::rows::{open_since, sql_int, sql_lane};
use crate::session::{Column, Session, Sql};

mod sessions;
mod side_rows;

pub(super) use sessions::{INSERT_SESSIONS, UPDATE_SESSIONS};
pub(super) use side_rows::{DELETE_CHECKPOINTS, INSERT_EVENTS, PUT_CHECKPOINTS};

/// The rows that are written but not yet sent. A turn or draft is identified by its session and its place, a chunk also
/// by its number.
#[derive(Default)]
pub(crate) struct Pending {
    /// The lanes of the store.
    lanes: Lanes,
    /// New sessions.
    new_sessions: BTreeMap<SessionPk, SessionRow>,
    changed_sessions: BTreeMap<SessionPk, SessionRow>,
    /// The encoded heads, each with the time of the last activity.
    heads: BTreeMap<SessionPk, (Vec<u8>, i64)>,
    new_turns: BTreeMap<(SessionPk, u64), TurnRow>,
    /// Changed turns.
    changed_turns: BTreeMap<(SessionPk, u64), TurnRow>,
    records: Vec<(SessionPk, RecordRow)>,
    record_bytes: usize,
    keys: Vec<(SessionPk, [u8; 16], u64)>,
    agents: BTreeMap<(SessionPk, Box<str>), Vec<u8>>,
    drafts: BTreeMap<(SessionPk, u64), Vec<u8>>,
    deleted_drafts: BTreeSet<(SessionPk, u64)>,
    chunks: BTreeMap<(SessionPk, u64, u64), Vec<u8>>,
    /// The drafts of which all stored chunks are deleted.
    cleared_chunks: BTreeSet<(SessionPk, u64)>,
    events: Vec<(SessionPk, EventRow)>,
    checkpoints: BTreeMap<(SessionPk, u64), Vec<u8>>,
    deleted_checkpoints: BTreeSet<(SessionPk, u64)>,
    /// The new commits, at most one for each lane.
    log: Vec<LogRow>,
}

pub(crate) static PUT_HEADS: Sql = Sql::new(
    "INSERT INTO filrouge.head (lane, pk, data, updated_at) SELECT * FROM unnest($1, $2, $3, $4)
     ON CONFLICT (lane, pk) DO UPDATE SET data = EXCLUDED.data, updated_at = EXCLUDED.updated_at",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
    ],
);
pub(crate) static INSERT_TURNS: Sql = Sql::new(
    "INSERT INTO filrouge.turn (lane, session_pk, place, turn_id, open, open_since, data)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)",
    TURN_TYPES,
);
pub(crate) static UPDATE_TURNS: Sql = Sql::new(
    "INSERT INTO filrouge.turn (lane, session_pk, place, turn_id, open, open_since, data)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (lane, session_pk, place) DO UPDATE
     SET open = EXCLUDED.open, open_since = EXCLUDED.open_since, data = EXCLUDED.data",
    TURN_TYPES,
);
const TURN_TYPES: &[Type] = &[
    Type::INT2_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::UUID_ARRAY,
    Type::BOOL_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
];
pub(crate) static INSERT_RECORDS: Sql = Sql::new(
    "INSERT INTO filrouge.record (lane, session_pk, first_seq, count, head, body)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6)",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
pub(crate) static INSERT_KEYS: Sql = Sql::new(
    "INSERT INTO filrouge.item_key (lane, session_pk, key, seq) SELECT * FROM unnest($1, $2, $3, $4)",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
    ],
);
pub(crate) static INSERT_AGENTS: Sql = Sql::new(
    "INSERT INTO filrouge.session_agent (lane, session_pk, agent, data) SELECT * FROM unnest($1, $2, $3, $4)
     ON CONFLICT DO NOTHING",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
pub(crate) static PUT_DRAFTS: Sql = Sql::new(
    "INSERT INTO filrouge.draft (lane, session_pk, place, data) SELECT * FROM unnest($1, $2, $3, $4)
     ON CONFLICT (lane, session_pk, place) DO UPDATE SET data = EXCLUDED.data",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
/// Deletes drafts. The condition on the lane is not a plain equality, because PostgreSQL could join by that: if the
/// table was small when the statement was planned, each execution would read all of its rows.
pub(crate) static DELETE_DRAFTS: Sql = Sql::new(
    "DELETE FROM filrouge.draft d USING unnest($1, $2, $3) AS q (lane, pk, place)
     WHERE d.lane = ANY (ARRAY[q.lane]) AND d.session_pk = q.pk AND d.place = q.place",
    KEY_TYPES,
);
const KEY_TYPES: &[Type] = &[Type::INT2_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY];
pub(crate) static INSERT_CHUNKS: Sql = Sql::new(
    "INSERT INTO filrouge.draft_chunk (lane, session_pk, place, number, data)
     SELECT * FROM unnest($1, $2, $3, $4, $5)",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
/// Deletes all chunks of drafts, as [`DELETE_DRAFTS`] deletes drafts.
pub(crate) static DELETE_CHUNKS: Sql = Sql::new(
    "DELETE FROM filrouge.draft_chunk c USING unnest($1, $2, $3) AS q (lane, pk, place)
     WHERE c.lane = ANY (ARRAY[q.lane]) AND c.session_pk = q.pk AND c.place = q.place",
    KEY_TYPES,
);
/// Writes the rows of the commit logs.
pub(crate) static INSERT_LOG: Sql = Sql::new(
    "INSERT INTO filrouge.commit_log (lane, commit_no, data) SELECT * FROM unnest($1, $2, $3)",
    &[Type::INT2_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
);

impl Pending {
    /// Creates an empty buffer for a store with these lanes.
    pub(super) fn new(lanes: Lanes) -> Self {
        Self {
            lanes,
            ..Self::default()
        }
    }

    pub(super) fn insert_session(&mut self, pk: SessionPk, row: &SessionRow) {
        self.new_sessions.insert(pk, row.clone());
    }

    pub(super) fn change_session(&mut self, pk: SessionPk, row: &SessionRow) {
        self.changed_sessions.insert(pk, row.clone());
    }

    pub(super) fn put_head(&mut self, pk: SessionPk, head: &HeadRow) {
        let updated_at = head.updated_at.as_micros();
        self.heads.insert(pk, (head.encode(), updated_at));
    }

    /// Buffers a turn. `new`: the turn is not in the database yet.
    pub(super) fn put_turn(&mut self, pk: SessionPk, row: &TurnRow, new: bool) {
        let key = (pk, row.place());
        let turns = if new || self.new_turns.contains_key(&key) {
            &mut self.new_turns
        } else {
            &mut self.changed_turns
        };
        turns.insert(key, row.clone());
    }

    /// Buffers a record. Returns the total number of bytes of all buffered records.
    pub(super) fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> usize {
        self.record_bytes += row.body.len();
        self.records.push((pk, row.clone()));
        self.record_bytes
    }

    pub(super) fn insert_key(&mut self, pk: SessionPk, key: [u8; 16], seq: u64) {
        self.keys.push((pk, key, seq));
    }

    pub(super) fn insert_agent(&mut self, pk: SessionPk, agent: &str, keyring: &Keyring) {
        self.agents
            .entry((pk, agent.into()))
            .or_insert_with(|| AgentRow::sealed(agent, keyring, pk).encode());
    }

    pub(super) fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) {
        self.drafts.insert((pk, row.place), row.encode());
    }

    pub(super) fn insert_chunk(&mut self, pk: SessionPk, place: u64, chunk: &DraftChunk) {
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

    pub(super) fn insert_event(&mut self, pk: SessionPk, row: &EventRow) {
        self.events.push((pk, row.clone()));
    }

    pub(super) fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) {
        self.checkpoints
            .insert((pk, row.checkpoint.seq), row.encode());
    }

    pub(super) fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) {
        self.checkpoints.remove(&(pk, seq));
        self.deleted_checkpoints.insert((pk, seq));
    }

    pub(super) fn insert_log(&mut self, row: &LogRow) {
        self.log.push(row.clone());
    }

    /// Sends all rows without waiting between statements. Deletes precede inserts, which may write the same keys again.
    pub(crate) async fn send(&self, session: &Session) -> Result<(), Error> {
        try_join!(
            biased;
            self.send_deletes(session, &DELETE_CHUNKS, &self.cleared_chunks),
            self.send_deletes(session, &DELETE_DRAFTS, &self.deleted_drafts),
            self.send_deletes(session, &DELETE_CHECKPOINTS, &self.deleted_checkpoints),
            self.send_sessions(session, &INSERT_SESSIONS, &self.new_sessions),
            self.send_sessions(session, &UPDATE_SESSIONS, &self.changed_sessions),
            self.send_records(session),
            self.send_keys(session),
            self.send_turns(session, &INSERT_TURNS, &self.new_turns),
            self.send_turns(session, &UPDATE_TURNS, &self.changed_turns),
            self.send_agents(session),
            self.send_encoded(session, &PUT_DRAFTS, &self.drafts),
            self.send_chunks(session),
            self.send_events(session),
            self.send_encoded(session, &PUT_CHECKPOINTS, &self.checkpoints),
            self.send_heads(session),
            self.send_log(session),
        )?;
        Ok(())
    }

    /// Runs a statement that writes or deletes rows of these sessions. Its columns are lane, session_pk (or pk), and then
    /// `columns`. Sends nothing without rows.
    async fn send_columns(
        &self,
        session: &Session,
        sql: &'static Sql,
        pks: impl Iterator<Item = SessionPk>,
        columns: &[&dyn Column],
    ) -> Result<(), Error> {
        let keys = pks.map(|pk| (sql_lane(self.lanes.of_pk(pk)), sql_int(pk)));
        let (lanes, pks): (Vec<i16>, Vec<i64>) = keys.unzip();
        let pks: [&dyn Column; 1] = [&pks];
        let columns = [&pks[..], columns].concat();
        let sent = session.query_columns(sql, &lanes, &columns, &[]);
        sent.await.map(drop)
    }

    /// Runs a statement that deletes the rows with these keys.
    async fn send_deletes(
        &self,
        session: &Session,
        sql: &'static Sql,
        keys: &BTreeSet<(SessionPk, u64)>,
    ) -> Result<(), Error> {
        let numbers: Vec<i64> = keys.iter().map(|(_, number)| sql_int(*number)).collect();
        let pks = keys.iter().map(|(pk, _)| *pk);
        self.send_columns(session, sql, pks, &[&numbers]).await
    }

    async fn send_heads(&self, session: &Session) -> Result<(), Error> {
        let data: Vec<&[u8]> = self.heads.values().map(|(data, _)| &**data).collect();
        let times: Vec<i64> = self.heads.values().map(|(_, at)| *at).collect();
        let pks = self.heads.keys().copied();
        self.send_columns(session, &PUT_HEADS, pks, &[&data, &times])
            .await
    }

    async fn send_records(&self, session: &Session) -> Result<(), Error> {
        let rows = || self.records.iter().map(|(_, row)| row);
        let seqs: Vec<i64> = rows().map(|r| sql_int(r.first_seq)).collect();
        let counts: Vec<i64> = rows().map(|r| sql_int(r.count)).collect();
        let heads: Vec<&[u8]> = rows().map(|r| r.head.as_slice()).collect();
        let bodies: Vec<&[u8]> = rows().map(|r| r.body.as_slice()).collect();
        let columns: [&dyn Column; 4] = [&seqs, &counts, &heads, &bodies];
        let pks = self.records.iter().map(|(pk, _)| *pk);
        self.send_columns(session, &INSERT_RECORDS, pks, &columns)
            .await
    }

    async fn send_keys(&self, session: &Session) -> Result<(), Error> {
        let keys = self.keys.iter().map(|(_, key, _)| *key);
        let keys: Vec<Uuid> = keys.map(Uuid::from_bytes).collect();
        let seqs: Vec<i64> = self.keys.iter().map(|(.., seq)| sql_int(*seq)).collect();
        let pks = self.keys.iter().map(|(pk, ..)| *pk);
        self.send_columns(session, &INSERT_KEYS, pks, &[&keys, &seqs])
            .await
    }

    async fn send_agents(&self, session: &Session) -> Result<(), Error> {
        let agents: Vec<&[u8]> = self.agents.keys().map(|(_, a)| a.as_bytes()).collect();
        let data: Vec<&[u8]> = self.agents.values().map(Vec::as_slice).collect();
        let pks = self.agents.keys().map(|(pk, _)| *pk);
        self.send_columns(session, &INSERT_AGENTS, pks, &[&agents, &data])
            .await
    }

    async fn send_chunks(&self, session: &Session) -> Result<(), Error> {
        let places = self.chunks.keys().map(|(_, place, _)| sql_int(*place));
        let places: Vec<i64> = places.collect();
        let numbers: Vec<i64> = self.chunks.keys().map(|(.., n)| sql_int(*n)).collect();
        let data: Vec<&[u8]> = self.chunks.values().map(Vec::as_slice).collect();
        let pks = self.chunks.keys().map(|(pk, ..)| *pk);
        self.send_columns(session, &INSERT_CHUNKS, pks, &[&places, &numbers, &data])
            .await
    }

    /// Sends drafts or checkpoints, which are encoded.
    async fn send_encoded(
        &self,
        session: &Session,
        sql: &'static Sql,
        rows: &BTreeMap<(SessionPk, u64), Vec<u8>>,
    ) -> Result<(), Error> {
        let places: Vec<i64> = rows.keys().map(|(_, place)| sql_int(*place)).collect();
        let data: Vec<&[u8]> = rows.values().map(Vec::as_slice).collect();
        let pks = rows.keys().map(|(pk, _)| *pk);
        self.send_columns(session, sql, pks, &[&places, &data])
            .await
    }

    async fn send_turns(
        &self,
        session: &Session,
        sql: &'static Sql,
        rows: &BTreeMap<(SessionPk, u64), TurnRow>,
    ) -> Result<(), Error> {
        let places: Vec<i64> = rows.keys().map(|(_, place)| sql_int(*place)).collect();
        let ids = rows.values().map(|t| *t.turn_id.as_bytes());
        let ids: Vec<Uuid> = ids.map(Uuid::from_bytes).collect();
        let since: Vec<Option<i64>> = rows.values().map(open_since).collect();
        let open: Vec<bool> = since.iter().map(Option::is_some).collect();
        let data: Vec<Vec<u8>> = rows.values().map(TurnRow::encode).collect();
        let columns: [&dyn Column; 5] = [&places, &ids, &open, &since, &data];
        let pks = rows.keys().map(|(pk, _)| *pk);
        self.send_columns(session, sql, pks, &columns).await
    }

    async fn send_log(&self, session: &Session) -> Result<(), Error> {
        let lanes: Vec<i16> = self.log.iter().map(|row| sql_lane(row.lane)).collect();
        let numbers = self.log.iter().map(|row| sql_int(row.commit_no));
        let numbers: Vec<i64> = numbers.collect();
        let data: Vec<Vec<u8>> = self.log.iter().map(LogRow::encode).collect();
        let columns: [&dyn Column; 2] = [&numbers, &data];
        let sent = session.query_columns(&INSERT_LOG, &lanes, &columns, &[]);
        sent.await.map(drop)
    }
}
