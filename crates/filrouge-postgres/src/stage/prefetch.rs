//! Fetches, in one round trip, the rows that the rules will read when they apply a group of writes.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::command::{Ending, LeaseRequest, Write};
use filrouge_store::record::{Batch, RecordRow};
use filrouge_store::rows::{
    DraftRow, LogRow, SessionPk, StoredSession, TurnRow, event_key, item_key,
};
use filrouge_store::write_queue::Request;
use filrouge_store::{Keyring, Lane, Lanes};
use filrouge_types::{ItemId, Result, SessionId, TenantId, Timestamp, TurnId};
use tokio::try_join;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::error::failure;
use crate::rows::{
    column, read_draft, read_lane, read_log, read_record, read_stored, read_turn, read_u64,
    sql_int, sql_lane,
};
use crate::session::{Column, Session};

mod side_rows;
mod statements;

pub(crate) use side_rows::{CHECKPOINTS, EVENTS, FetchedCheckpoints, FetchedEvents};
use side_rows::{RequestedCheckpoint, RequestedSideRows};
pub(crate) use statements::{KEYS, NEWEST, RECORDS, SESSIONS};

/// The lane, the tenant and the id of a session.
type SessionName = (Lane, TenantId, SessionId);

/// The keys of the rows that a group of writes will probably read.
#[derive(Default)]
pub(crate) struct Prefetch {
    /// The lanes of the store.
    lanes: Lanes,
    /// The lanes of the group's writes. The transaction may lock only some of them.
    requested_lanes: BTreeSet<Lane>,
    sessions: BTreeSet<SessionName>,
    turns: BTreeSet<(SessionName, TurnId)>,
    /// The idempotency keys of items.
    keys: BTreeSet<(SessionName, [u8; 16])>,
    /// Events and checkpoints.
    side_rows: RequestedSideRows,
    /// The turns that the group closes. Their first and final items are read, because the rules need them.
    closed_turns: BTreeSet<TurnId>,
}

/// A session that was found in the database.
pub(crate) struct FetchedSession {
    pub(crate) stored: StoredSession,
    pub(crate) newest_seq: u64,
    /// `Some(None)` if the session has no turn. `None` if the newest turn is malformed: the command that reads it gets
    /// the error.
    pub(crate) newest_turn: Option<Option<TurnRow>>,
}

/// The fetched rows.
#[derive(Default)]
pub(crate) struct Fetched {
    /// The newest commits of the lanes that the transaction has locked, in descending order, at most 16 of a lane, and
    /// none older than the newest commit that this process has verified. Empty if that commit and all later ones were
    /// removed. All other fields contain rows of these lanes only.
    pub(crate) lanes: BTreeMap<Lane, Vec<LogRow>>,
    /// Whether the store is an unfinished copy.
    pub(crate) copying: bool,
    /// The database's time, read after the lanes were locked.
    pub(crate) now: Option<Timestamp>,
    pub(crate) sessions: Vec<FetchedSession>,
    /// The requested sessions that do not exist.
    pub(crate) absent: Vec<(TenantId, SessionId)>,
    /// Here and below, `None` is a requested row that does not exist.
    pub(crate) turns: BTreeMap<(SessionPk, TurnId), Option<TurnRow>>,
    pub(crate) keys: BTreeMap<(SessionPk, [u8; 16]), Option<u64>>,
    pub(crate) drafts: BTreeMap<(SessionPk, u64), Option<DraftRow>>,
    pub(crate) records: BTreeMap<SessionPk, BTreeMap<u64, RecordRow>>,
    pub(crate) events: BTreeMap<SessionPk, FetchedEvents>,
    pub(crate) checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
}

impl Prefetch {
    /// Determines the rows that `requests` will need in a store with these lanes.
    pub(crate) fn for_requests<'a>(
        lanes: Lanes,
        requests: impl Iterator<Item = &'a Request>,
        keyring: &Keyring,
    ) -> Self {
        let mut prefetch = Self {
            lanes,
            ..Self::default()
        };
        for Request { command, lane, .. } in requests {
            let lane = *lane;
            prefetch.requested_lanes.insert(lane);
            if let Some(id) = command.write.session_id() {
                let name = (lane, command.scope.tenant.clone(), id.clone());
                prefetch.add_reads(&name, &command.write, keyring);
                prefetch.sessions.insert(name);
            }
            if let Write::Close(close) = &command.write {
                prefetch.closed_turns.insert(close.turn_id);
            }
        }
        prefetch
    }

    /// Runs `lock`, which locks lanes and returns their rows of the table `lane`, and fetches the rows of the locked
    /// lanes, all in one round trip. The first poll of `lock` must send all of its statements, so that those that fetch
    /// rows run after them, and see all earlier commits of the locked lanes. Of each lane, fetches only the commits from
    /// the number on that `first_commit` returns.
    ///
    /// The outer error comes from a statement, the inner one from a row that cannot be decoded.
    pub(crate) async fn fetch(
        &self,
        session: &Session,
        lock: impl Future<Output = Result<Vec<Row>, Error>>,
        first_commit: impl Fn(Lane) -> u64,
    ) -> Result<Result<Fetched>, Error> {
        let lanes = self.requested_lanes.iter().copied();
        let first_commits = lanes.clone().map(|lane| sql_int(first_commit(lane)));
        let first_commits: Vec<i64> = first_commits.collect();
        let lanes: Vec<i16> = lanes.map(sql_lane).collect();
        let first_commits: [&dyn Column; 1] = [&first_commits];
        let (locked, newest, sessions, keys, events, checkpoints) = try_join!(
            biased;
            lock,
            session.query_columns(&NEWEST, &lanes, &first_commits, &[]),
            self.fetch_sessions(session),
            self.fetch_keys(session),
            self.side_rows.fetch_events(session),
            self.side_rows.fetch_checkpoints(session),
        )?;
        let locked = locked.iter().map(|row| read_lane(row, 0));
        let locked: Result<BTreeSet<Lane>> = locked.collect();
        let results = [newest, sessions, keys, events, checkpoints];
        Ok(locked.and_then(|locked| self.decode(&locked, results)))
    }

    /// Fetches the records with the first and final items of the turns that the group closes. This needs a second round
    /// trip, because the seqs of these items are in the rows of the turns.
    pub(crate) async fn fetch_records(
        &self,
        session: &Session,
        fetched: &mut Fetched,
    ) -> Result<(), Error> {
        let (mut lanes, mut pks, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
        for ((pk, id), turn) in &fetched.turns {
            let Some(turn) = turn.as_ref().filter(|_| self.closed_turns.contains(id)) else {
                continue;
            };
            // The second item of a turn may be the translation of its question. A final seq of 0 means none.
            let [first_final, second_final] = turn.finals;
            let turn_seqs = [
                turn.first_seq,
                turn.first_seq + 1,
                first_final,
                second_final,
            ];
            for seq in turn_seqs.into_iter().filter(|seq| *seq != 0) {
                lanes.push(sql_lane(self.lanes.of_pk(*pk)));
                pks.push(sql_int(*pk));
                seqs.push(sql_int(seq));
            }
        }
        let columns: [&dyn Column; 2] = [&pks, &seqs];
        let rows = session
            .query_columns(&RECORDS, &lanes, &columns, &[])
            .await?;
        read_records(&rows, &mut fetched.records);
        Ok(())
    }

    fn add_reads(&mut self, name: &SessionName, write: &Write, keyring: &Keyring) {
        match write {
            Write::Start(start) => {
                let id = keyring.turn_id(&name.1, &name.2, &start.event.request_id);
                self.add_turn(name, id);
                if let Some(replaced) = start.event.replaces {
                    self.add_turn(name, replaced);
                }
                self.add_batch(name, &start.batch);
            }
            Write::Append(append) => {
                self.add_turn(name, append.turn_id);
                self.add_batch(name, &append.batch);
            }
            Write::Close(close) => {
                self.add_turn(name, close.turn_id);
                let (Ending::Recorded(entries) | Ending::Fail(entries) | Ending::Cancel(entries)) =
                    &close.ending
                else {
                    return;
                };
                for id in entries.iter().filter_map(|e| e.item.item_id.as_ref()) {
                    self.add_key(name, id);
                }
            }
            Write::PutDraft(draft) => self.add_turn(name, draft.turn_id),
            Write::Interrupt(interrupt) => self.add_turn(name, interrupt.turn_id),
            Write::RecordEvent(event) => self.add_event(name, Some(event_key(&event.key))),
            Write::Lease(lease) => {
                // If a caller resumes the session without the newest seq that it knows, the rules record an event. With
                // this seq, they usually record none.
                if matches!(&lease.request, LeaseRequest::Acquire(acquire) if acquire.resumes == Some(None))
                {
                    self.add_event(name, None);
                }
            }
            Write::PutCheckpoint(checkpoint) => {
                self.add_checkpoint(
                    name,
                    checkpoint
                        .seq
                        .map_or(RequestedCheckpoint::Newest, RequestedCheckpoint::Seq),
                );
            }
            Write::Redact(_) => self.add_checkpoint(name, RequestedCheckpoint::SeqsOnly),
            _ => {}
        }
    }

    fn add_turn(&mut self, name: &SessionName, id: TurnId) {
        self.turns.insert((name.clone(), id));
    }

    fn add_batch(&mut self, name: &SessionName, batch: &Batch) {
        for id in batch.items().filter_map(|i| i.item_id.as_ref()) {
            self.add_key(name, id);
        }
    }

    fn add_key(&mut self, name: &SessionName, id: &ItemId) {
        self.keys.insert((name.clone(), item_key(id)));
    }

    fn add_event(&mut self, name: &SessionName, key: Option<[u8; 16]>) {
        self.side_rows.events.insert((name.clone(), key));
    }

    fn add_checkpoint(&mut self, name: &SessionName, requested: RequestedCheckpoint) {
        self.side_rows.checkpoints.insert((name.clone(), requested));
    }

    async fn fetch_sessions(&self, session: &Session) -> Result<Vec<Row>, Error> {
        // One row for each requested turn, and one for each session of which no turn is requested.
        let with_turns: BTreeSet<&SessionName> = self.turns.iter().map(|(name, _)| name).collect();
        let without_turns = self
            .sessions
            .iter()
            .filter(|name| !with_turns.contains(name));
        let turns = self.turns.iter().map(|(name, id)| (name, Some(*id)));
        let requested = without_turns.map(|name| (name, None)).chain(turns);
        let (names, turns): (Vec<&SessionName>, Vec<Option<TurnId>>) = requested.unzip();
        let (lanes, tenants, ids) = name_columns(names.into_iter());
        let turns = turns
            .iter()
            .map(|id| id.map(|id| Uuid::from_bytes(*id.as_bytes())));
        let turns: Vec<Option<Uuid>> = turns.collect();
        let columns: [&dyn Column; 3] = [&tenants, &ids, &turns];
        session
            .query_columns(&SESSIONS, &lanes, &columns, &[])
            .await
    }

    async fn fetch_keys(&self, session: &Session) -> Result<Vec<Row>, Error> {
        let (lanes, tenants, ids) = name_columns(self.keys.iter().map(|(name, _)| name));
        let keys = self.keys.iter().map(|(_, key)| Uuid::from_bytes(*key));
        let keys: Vec<Uuid> = keys.collect();
        let columns: [&dyn Column; 3] = [&tenants, &ids, &keys];
        session.query_columns(&KEYS, &lanes, &columns, &[]).await
    }

    /// Decodes the results of [`NEWEST`], [`SESSIONS`], [`KEYS`], [`EVENTS`] and [`CHECKPOINTS`]. Leaves out the rows of
    /// lanes that are not locked, because other servers may be changing them.
    fn decode(&self, locked: &BTreeSet<Lane>, mut results: [Vec<Row>; 5]) -> Result<Fetched> {
        for rows in &mut results {
            // The last column of each of these statements is the lane.
            rows.retain(|row| read_lane(row, row.len() - 1).is_ok_and(|l| locked.contains(&l)));
        }
        let [newest, sessions, keys, events, checkpoints] = &results;
        let mut fetched = Fetched::default();
        read_newest(newest, &mut fetched)?;
        let pks = read_sessions(sessions, &mut fetched)?;
        let pk_of = |(_, tenant, id): &SessionName| {
            let name = (tenant.as_str(), id.as_str());
            pks.get(&name).copied()
        };
        let in_locked = self.sessions.iter().filter(|(l, ..)| locked.contains(l));
        let absent = in_locked.filter(|name| pk_of(name).is_none());
        let absent = absent.map(|(_, tenant, id)| (tenant.clone(), id.clone()));
        fetched.absent = absent.collect();
        for (name, id) in &self.turns {
            if let Some(Some(pk)) = pk_of(name) {
                fetched.turns.insert((pk, *id), None);
            }
        }
        for (name, key) in &self.keys {
            if let Some(Some(pk)) = pk_of(name) {
                fetched.keys.insert((pk, *key), None);
            }
        }
        for row in sessions {
            add_requested_turn(row, &mut fetched)?;
        }
        fetched.events = self
            .side_rows
            .requested_events(|name| pk_of(name).flatten());
        side_rows::read_events(events, &mut fetched.events)?;
        fetched.checkpoints = side_rows::read_checkpoints(checkpoints)?;
        read_keys(keys, &mut fetched)?;
        Ok(fetched)
    }
}

/// The columns lane, tenant_id and session_id of sessions.
fn name_columns<'n>(
    names: impl Iterator<Item = &'n SessionName>,
) -> (Vec<i16>, Vec<&'n str>, Vec<&'n str>) {
    let columns = names.map(|(lane, tenant, id)| (sql_lane(*lane), tenant.as_str(), id.as_str()));
    columns.collect()
}

/// Decodes the rows of [`NEWEST`], and adds them to `fetched`.
fn read_newest(rows: &[Row], fetched: &mut Fetched) -> Result<()> {
    for row in rows {
        let lane = read_lane(row, 4)?;
        let commits = fetched.lanes.entry(lane).or_default();
        if column::<Option<i64>>(row, 0)?.is_some() {
            commits.push(read_log(lane, row, 0)?);
        }
        fetched.copying = column(row, 2)?;
        fetched.now = Some(Timestamp::from_micros(column(row, 3)?));
    }
    Ok(())
}

/// Decodes the sessions in the rows of [`SESSIONS`], and adds them to `fetched`. Returns the numbers of all sessions
/// that exist, by tenant and id. A session that cannot be decoded is left out: the command that needs it reads it again,
/// and gets the error.
fn read_sessions<'r>(
    rows: &'r [Row],
    fetched: &mut Fetched,
) -> Result<BTreeMap<(&'r str, &'r str), Option<SessionPk>>> {
    let mut pks = BTreeMap::new();
    for row in rows {
        let name = (text_column(row, 1)?, text_column(row, 2)?);
        if pks.insert(name, read_u64(row, 0).ok()).is_none() {
            let session = read_stored(row).and_then(|stored| read_session(row, stored));
            fetched.sessions.extend(session);
        }
    }
    Ok(pks)
}

/// Decodes the rows of [`KEYS`], and adds them to `fetched`. Rows that cannot be decoded are left out, as in
/// [`read_sessions`].
fn read_keys(rows: &[Row], fetched: &mut Fetched) -> Result<()> {
    for row in rows {
        let key: Uuid = column(row, 1)?;
        let Ok(pk) = read_u64(row, 0) else { continue };
        let key = (pk, key.into_bytes());
        match read_u64(row, 2) {
            Ok(seq) => fetched.keys.insert(key, Some(seq)),
            Err(_) => fetched.keys.remove(&key),
        };
    }
    Ok(())
}

fn text_column(row: &Row, index: usize) -> Result<&str> {
    row.try_get(index).map_err(|e| failure(&e))
}

/// Decodes the newest seq and the newest turn of a row of [`SESSIONS`].
fn read_session(row: &Row, stored: StoredSession) -> Result<FetchedSession> {
    let seq: Option<i64> = column(row, 16)?;
    let newest_seq = seq.map_or(Ok(0), |_| read_u64(row, 16))?;
    let newest_turn = match column::<Option<i64>>(row, 17)? {
        None => Some(None),
        Some(_) => read_turn(row, 17).ok().map(Some),
    };
    Ok(FetchedSession {
        stored,
        newest_seq,
        newest_turn,
    })
}

fn read_records(rows: &[Row], records: &mut BTreeMap<SessionPk, BTreeMap<u64, RecordRow>>) {
    for row in rows {
        if let (Ok(pk), Ok(record)) = (read_u64(row, 0), read_record(row, 1)) {
            let session_records = records.entry(pk).or_default();
            session_records.insert(record.first_seq, record);
        }
    }
}

/// Decodes the requested turn and its draft, if a row of [`SESSIONS`] has them, and adds them to `fetched`.
fn add_requested_turn(row: &Row, fetched: &mut Fetched) -> Result<()> {
    let Ok(pk) = read_u64(row, 0) else {
        return Ok(());
    };
    let Some(id) = column::<Option<Uuid>>(row, 23)? else {
        return Ok(());
    };
    let id = TurnId::from_bytes(id.into_bytes());
    let Ok(turn) = read_turn(row, 22) else {
        // A turn that cannot be decoded is left out: the command that needs it reads it again, and gets the error.
        fetched.turns.remove(&(pk, id));
        return Ok(());
    };
    let draft: Option<&[u8]> = row.try_get(27).map_err(|e| failure(&e))?;
    let draft = draft.map(|data| read_draft(turn.place(), data));
    if let Ok(draft) = draft.transpose() {
        fetched.drafts.insert((pk, turn.place()), draft);
    }
    fetched.turns.insert((pk, id), Some(turn));
    Ok(())
}
