//! Fetches, in one round trip, the rows that the rules will read when they apply a group of writes.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::Keyring;
use filrouge_store::command::{Command, Ending, LeaseRequest, Write};
use filrouge_store::record::{Batch, RecordRow};
use filrouge_store::rows::{
    DraftRow, LogRow, SessionPk, StoredSession, TurnRow, event_key, item_key,
};
use filrouge_types::{Failure, ItemId, SessionId, TenantId, Timestamp, TurnId};
use tokio::try_join;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::error::failure;
use crate::rows::{
    column, read_draft, read_log, read_record, read_stored, read_turn, read_u64, sql_int,
};
use crate::session::{Param, Session};

mod side_rows;
mod statements;

pub(crate) use side_rows::{CHECKPOINTS, EVENTS, FetchedCheckpoints, FetchedEvents};
use side_rows::{RequestedCheckpoint, RequestedSideRows};
pub(crate) use statements::{KEYS, LOCK, NEWEST, RECORDS, SESSIONS};

type SessionName = (TenantId, SessionId);

/// The keys of the rows that a group of writes will probably read.
#[derive(Default)]
pub(crate) struct Prefetch {
    sessions: BTreeSet<SessionName>,
    turns: BTreeSet<(SessionName, TurnId)>,
    /// The turns that the group closes. Their first and final items are read, because the rules need them.
    closed_turns: BTreeSet<TurnId>,
    /// The idempotency keys of items.
    keys: BTreeSet<(SessionName, [u8; 16])>,
    /// Events and checkpoints.
    side_rows: RequestedSideRows,
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
    /// The newest commits, in descending order, at most 16, and none older than the newest commit that this process has
    /// verified. Empty if that commit and all later ones were removed.
    pub(crate) commits: Vec<LogRow>,
    /// The greatest number that a session has or had; new sessions get the numbers after it.
    pub(crate) newest_pk: SessionPk,
    /// Whether the store is an unfinished copy.
    pub(crate) copying: bool,
    /// The database's time, read under the writers' lock.
    pub(crate) now: Option<Timestamp>,
    pub(crate) sessions: Vec<FetchedSession>,
    /// The requested sessions that do not exist.
    pub(crate) absent: Vec<SessionName>,
    /// Here and below, `None` is a requested row that does not exist.
    pub(crate) turns: BTreeMap<(SessionPk, TurnId), Option<TurnRow>>,
    pub(crate) keys: BTreeMap<(SessionPk, [u8; 16]), Option<u64>>,
    pub(crate) drafts: BTreeMap<(SessionPk, u64), Option<DraftRow>>,
    pub(crate) records: BTreeMap<SessionPk, BTreeMap<u64, RecordRow>>,
    pub(crate) events: BTreeMap<SessionPk, FetchedEvents>,
    pub(crate) checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
}

/// The rows that the queries of [`Prefetch::fetch`] return.
struct QueryResults {
    newest: Vec<Row>,
    sessions: Vec<Row>,
    keys: Vec<Row>,
    events: Vec<Row>,
    checkpoints: Vec<Row>,
}

impl Prefetch {
    /// Determines the rows that `commands` will need.
    pub(crate) fn for_commands<'a>(
        commands: impl Iterator<Item = &'a Command>,
        keyring: &Keyring,
    ) -> Self {
        let mut prefetch = Self::default();
        for command in commands {
            if let Some(id) = command.write.session_id() {
                let name = (command.scope.tenant.clone(), id.clone());
                prefetch.add_reads(&name, &command.write, keyring);
                prefetch.sessions.insert(name);
            }
        }
        prefetch
    }

    fn add_reads(&mut self, name: &SessionName, write: &Write, keyring: &Keyring) {
        match write {
            Write::Start(start) => {
                let id = keyring.turn_id(&name.0, &name.1, &start.event.request_id);
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
                self.closed_turns.insert(close.turn_id);
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

    /// Begins a transaction, waits until it is the only writer, and fetches the rows, all in one round trip. Fetches
    /// only commits from number `first_commit` on.
    ///
    /// The outer error comes from a statement, the inner one from a row that cannot be decoded.
    pub(crate) async fn fetch(
        &self,
        session: &Session,
        begin: impl Future<Output = Result<(), Error>>,
        lock: i64,
        first_commit: u64,
    ) -> Result<Result<Fetched, Failure>, Error> {
        let first_commit = sql_int(first_commit);
        let (lock, first_commit): ([Param<'_>; 1], [Param<'_>; 1]) = ([&lock], [&first_commit]);
        let ((), _, newest, sessions, keys, events, checkpoints) = try_join!(
            biased;
            begin,
            session.query(&LOCK, &lock),
            session.query(&NEWEST, &first_commit),
            self.fetch_sessions(session),
            self.fetch_keys(session),
            self.side_rows.fetch_events(session),
            self.side_rows.fetch_checkpoints(session),
        )?;
        let results = QueryResults {
            newest,
            sessions,
            keys,
            events,
            checkpoints,
        };
        Ok(self.decode(&results))
    }

    /// Fetches the records with the first and final items of the turns that the group closes. This needs a second round
    /// trip, because the seqs of these items are in the rows of the turns.
    pub(crate) async fn fetch_records(
        &self,
        session: &Session,
        fetched: &mut Fetched,
    ) -> Result<Result<(), Failure>, Error> {
        let turns = fetched
            .turns
            .iter()
            .filter(|((_, id), _)| self.closed_turns.contains(id));
        let positions = turns.flat_map(|((pk, _), turn)| {
            // The second item of a turn may be the translation of its question. A final seq of 0 means none.
            let seqs = turn
                .iter()
                .flat_map(|t| [t.first_seq, t.first_seq + 1, t.finals[0], t.finals[1]]);
            seqs.filter(|seq| *seq != 0)
                .map(|seq| (sql_int(*pk), sql_int(seq)))
        });
        let (pks, seqs): (Vec<i64>, Vec<i64>) = positions.collect();
        if pks.is_empty() {
            return Ok(Ok(()));
        }
        let rows = session.query(&RECORDS, &[&pks, &seqs]).await?;
        read_records(&rows, &mut fetched.records);
        Ok(Ok(()))
    }

    async fn fetch_sessions(&self, session: &Session) -> Result<Vec<Row>, Error> {
        if self.sessions.is_empty() {
            return Ok(Vec::new());
        }
        // One row for each requested turn, and one for each session of which no turn is requested.
        let with_turns: BTreeSet<&SessionName> = self.turns.iter().map(|(name, _)| name).collect();
        let without_turns = self
            .sessions
            .iter()
            .filter(|name| !with_turns.contains(name));
        let turns = self.turns.iter().map(|(name, id)| (name, Some(*id)));
        let (mut tenants, mut ids, mut turn_ids) = (Vec::new(), Vec::new(), Vec::new());
        for ((tenant, id), turn) in without_turns.map(|name| (name, None)).chain(turns) {
            tenants.push(tenant.as_str());
            ids.push(id.as_str());
            turn_ids.push(turn.map(|id| Uuid::from_bytes(*id.as_bytes())));
        }
        session.query(&SESSIONS, &[&tenants, &ids, &turn_ids]).await
    }

    async fn fetch_keys(&self, session: &Session) -> Result<Vec<Row>, Error> {
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        let tenants: Vec<&str> = self.keys.iter().map(|((t, _), _)| t.as_str()).collect();
        let ids: Vec<&str> = self.keys.iter().map(|((_, s), _)| s.as_str()).collect();
        let keys: Vec<Uuid> = self
            .keys
            .iter()
            .map(|(_, k)| Uuid::from_bytes(*k))
            .collect();
        session.query(&KEYS, &[&tenants, &ids, &keys]).await
    }

    fn decode(&self, results: &QueryResults) -> Result<Fetched, Failure> {
        let mut fetched = Fetched::default();
        for row in &results.newest {
            if column::<Option<i64>>(row, 0)?.is_some() {
                fetched.newest_pk = read_u64(row, 0)?;
            }
            if column::<Option<i64>>(row, 1)?.is_some() {
                fetched.commits.push(read_log(row, 1)?);
            }
            fetched.copying = column(row, 3)?;
            fetched.now = Some(Timestamp::from_micros(column(row, 4)?));
        }
        let mut pks = BTreeMap::new();
        for row in &results.sessions {
            // A session that cannot be decoded is left out: the command that needs it reads it again, and gets the
            // error.
            let name: (&str, &str) = (text_column(row, 1)?, text_column(row, 2)?);
            let pk = read_u64(row, 0).ok();
            let previous = pks.insert((name.0.to_owned(), name.1.to_owned()), pk);
            if previous.is_some() {
                continue;
            }
            let session = read_stored(row).and_then(|stored| read_session(row, stored));
            if let Ok(session) = session {
                fetched.sessions.push(session);
            }
        }
        let pk_of = |name: &SessionName| {
            let name = (name.0.as_str().to_owned(), name.1.as_str().to_owned());
            pks.get(&name).copied()
        };
        let absent = self.sessions.iter().filter(|name| pk_of(name).is_none());
        fetched.absent = absent.cloned().collect();
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
        for row in &results.sessions {
            add_requested_turn(row, &mut fetched)?;
        }
        fetched.events = self
            .side_rows
            .requested_events(|name| pk_of(name).flatten());
        side_rows::read_events(&results.events, &mut fetched.events)?;
        fetched.checkpoints = side_rows::read_checkpoints(&results.checkpoints)?;
        for row in &results.keys {
            let key: Uuid = column(row, 1)?;
            let Ok(pk) = read_u64(row, 0) else { continue };
            let key = (pk, key.into_bytes());
            match read_u64(row, 2) {
                Ok(seq) => fetched.keys.insert(key, Some(seq)),
                Err(_) => fetched.keys.remove(&key),
            };
        }
        Ok(fetched)
    }
}

fn text_column(row: &Row, index: usize) -> Result<&str, Failure> {
    row.try_get(index).map_err(|e| failure(&e))
}

/// Decodes the newest seq and the newest turn of a row of [`SESSIONS`].
fn read_session(row: &Row, stored: StoredSession) -> Result<FetchedSession, Failure> {
    let seq: Option<i64> = column(row, 15)?;
    let newest_seq = seq.map_or(Ok(0), |_| read_u64(row, 15))?;
    let newest_turn = match column::<Option<i64>>(row, 16)? {
        None => Some(None),
        Some(_) => read_turn(row, 16).ok().map(Some),
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
fn add_requested_turn(row: &Row, fetched: &mut Fetched) -> Result<(), Failure> {
    let Ok(pk) = read_u64(row, 0) else {
        return Ok(());
    };
    let Some(id) = column::<Option<Uuid>>(row, 22)? else {
        return Ok(());
    };
    let id = TurnId::from_bytes(id.into_bytes());
    let Ok(turn) = read_turn(row, 21) else {
        // A turn that cannot be decoded is left out: the command that needs it reads it again, and gets the error.
        fetched.turns.remove(&(pk, id));
        return Ok(());
    };
    let draft: Option<&[u8]> = row.try_get(26).map_err(|e| failure(&e))?;
    let draft = draft.map(|data| read_draft(turn.place(), data));
    if let Ok(draft) = draft.transpose() {
        fetched.drafts.insert((pk, turn.place()), draft);
    }
    fetched.turns.insert((pk, id), Some(turn));
    Ok(())
}
