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
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::error::failure;
use crate::rows::{column, int, read_draft, read_log, read_record, read_stored, read_turn, uint};
use crate::session::{Param, Session, Sql};

mod side_rows;

pub(crate) use side_rows::{CHECKPOINTS, EVENTS, FetchedCheckpoints, FetchedEvents};
use side_rows::{RequestedCheckpoint, SessionSideRows};

type Name = (TenantId, SessionId);

/// The rows that a group of writes will probably need.
#[derive(Default)]
pub(crate) struct Wanted {
    sessions: BTreeSet<Name>,
    turns: BTreeSet<(Name, TurnId)>,
    /// The turns that the group closes. Their first and final items are read, because the rules need them.
    ending: BTreeSet<TurnId>,
    /// The idempotency keys of items.
    keys: BTreeSet<(Name, [u8; 16])>,
    /// Events and checkpoints.
    side_rows: SessionSideRows,
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
    pub(crate) absent: Vec<Name>,
    /// Here and below, `None` is a requested row that does not exist.
    pub(crate) turns: BTreeMap<(SessionPk, TurnId), Option<TurnRow>>,
    pub(crate) keys: BTreeMap<(SessionPk, [u8; 16]), Option<u64>>,
    pub(crate) drafts: BTreeMap<(SessionPk, u64), Option<DraftRow>>,
    pub(crate) records: BTreeMap<SessionPk, BTreeMap<u64, RecordRow>>,
    pub(crate) events: BTreeMap<SessionPk, FetchedEvents>,
    pub(crate) checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
}

/// Waits until this transaction is the only writer of the store.
pub(crate) static LOCK: Sql = Sql::new("SELECT pg_advisory_xact_lock($1)", &[Type::INT8]);
/// Reads four things: the greatest number that a session has or had; the newest commits from number `$1` on, in
/// descending order, at most 16; whether the store is an unfinished copy; and the database's time in microseconds.
/// Other servers have rarely added more than 16 commits since this server's last write, so usually no second query for
/// commits is needed.
pub(crate) static NEWEST: Sql = Sql::new(
    "SELECT greatest((SELECT pk FROM filrouge.session ORDER BY pk DESC LIMIT 1),
         (SELECT pk FROM filrouge.head ORDER BY pk DESC LIMIT 1),
         (SELECT session_pk FROM filrouge.turn ORDER BY session_pk DESC LIMIT 1),
         (SELECT session_pk FROM filrouge.record ORDER BY session_pk DESC LIMIT 1)), l.commit_no, l.data,
         EXISTS (SELECT FROM filrouge.store WHERE name = 'copying'),
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
     FROM (SELECT) one LEFT JOIN LATERAL (SELECT commit_no, data FROM filrouge.commit_log
         WHERE commit_no >= $1 ORDER BY commit_no DESC LIMIT 16) l ON true",
    &[Type::INT8],
);
/// Reads sessions by their ids, each with its newest seq (column 15), its newest turn (16 to 20), and the requested
/// turn (21 to 25) with its draft (26). The conditions are written so that PostgreSQL can use only one index for each
/// table: a session is the first one at or after its id, and a turn cannot be searched for among all turns of its
/// session (see [`crate::connect`]).
pub(crate) static SESSIONS: Sql = Sql::new(
    "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
     s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
     s.token, s.erased,
         (SELECT LEAST(GREATEST(r.first_seq, 0), 1::bigint << 62) + LEAST(GREATEST(r.count, 1), 1::bigint << 62) - 1
          FROM filrouge.record r WHERE r.session_pk = s.pk
          ORDER BY r.first_seq DESC LIMIT 1),
         t.place, t.turn_id, t.open, t.open_since, t.data,
         w.place, w.turn_id, w.open, w.open_since, w.data, d.data
     FROM unnest($1, $2, $3) AS q (tenant_id, session_id, turn_id)
     CROSS JOIN LATERAL (SELECT * FROM filrouge.session s
         WHERE s.tenant_id = q.tenant_id AND s.session_id >= q.session_id ORDER BY s.session_id LIMIT 1) s
     LEFT JOIN filrouge.head h ON h.pk = s.pk
     LEFT JOIN LATERAL (SELECT * FROM filrouge.turn t WHERE t.session_pk = s.pk
         ORDER BY t.place DESC LIMIT 1) t ON true
     LEFT JOIN LATERAL (SELECT * FROM filrouge.turn w
         WHERE w.turn_id = q.turn_id AND w.session_pk + 0 = s.pk LIMIT 1) w ON true
     LEFT JOIN filrouge.draft d ON d.session_pk = w.session_pk AND d.place = w.place
     WHERE s.session_id = q.session_id",
    &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::UUID_ARRAY],
);
/// Reads idempotency keys: the session's number, the key, and the seq of the item that has the key.
pub(crate) static KEYS: Sql = Sql::new(
    "SELECT s.pk, k.key, k.seq
     FROM unnest($1, $2, $3) AS q (tenant_id, session_id, key)
     CROSS JOIN LATERAL (SELECT s.pk, s.session_id FROM filrouge.session s
         WHERE s.tenant_id = q.tenant_id AND s.session_id >= q.session_id ORDER BY s.session_id LIMIT 1) s
     CROSS JOIN LATERAL (SELECT * FROM filrouge.item_key k
         WHERE k.session_pk = s.pk AND k.key = q.key LIMIT 1) k
     WHERE s.session_id = q.session_id",
    &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::UUID_ARRAY],
);

/// Reads the records that contain given seqs: the session's number, and the columns of the record.
pub(crate) static RECORDS: Sql = Sql::new(
    "SELECT q.pk, r.first_seq, r.count, r.head, r.body
     FROM unnest($1, $2) AS q (pk, seq)
     CROSS JOIN LATERAL (SELECT * FROM filrouge.record r
         WHERE r.session_pk = q.pk AND r.first_seq <= q.seq ORDER BY r.first_seq DESC LIMIT 1) r",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY],
);

/// The rows that the queries of [`Wanted::fetch`] return.
struct Answers {
    newest: Vec<Row>,
    sessions: Vec<Row>,
    keys: Vec<Row>,
    events: Vec<Row>,
    checkpoints: Vec<Row>,
}

impl Wanted {
    /// Determines the rows that `commands` will need.
    pub(crate) fn by<'a>(commands: impl Iterator<Item = &'a Command>, keyring: &Keyring) -> Self {
        let mut wanted = Self::default();
        for command in commands {
            if let Some(id) = command.write.session_id() {
                let name = (command.scope.tenant.clone(), id.clone());
                wanted.add(&name, &command.write, keyring);
                wanted.sessions.insert(name);
            }
        }
        wanted
    }

    fn add(&mut self, name: &Name, write: &Write, keyring: &Keyring) {
        match write {
            Write::Start(start) => {
                let id = keyring.turn_id(&name.0, &name.1, &start.event.request_id);
                self.turn(name, id);
                if let Some(old) = start.event.replaces {
                    self.turn(name, old);
                }
                self.batch(name, &start.batch);
            }
            Write::Append(append) => {
                self.turn(name, append.turn_id);
                self.batch(name, &append.batch);
            }
            Write::Close(close) => {
                self.turn(name, close.turn_id);
                self.ending.insert(close.turn_id);
                let (Ending::Recorded(entries) | Ending::Fail(entries) | Ending::Cancel(entries)) =
                    &close.ending
                else {
                    return;
                };
                for id in entries.iter().filter_map(|e| e.item.item_id.as_ref()) {
                    self.key(name, id);
                }
            }
            Write::PutDraft(draft) => self.turn(name, draft.turn_id),
            Write::Interrupt(interrupt) => self.turn(name, interrupt.turn_id),
            Write::RecordEvent(new) => self.event(name, Some(event_key(&new.key))),
            Write::Lease(take) => {
                // A caller that resumes the session and does not state the newest seq that it knows: the rules will
                // record an event. A caller that states it usually knows everything, and then no event is recorded.
                if matches!(&take.ask, LeaseRequest::Acquire(acquire) if acquire.resumes == Some(None))
                {
                    self.event(name, None);
                }
            }
            Write::PutCheckpoint(put) => {
                self.checkpoint(
                    name,
                    put.seq
                        .map_or(RequestedCheckpoint::Newest, RequestedCheckpoint::Seq),
                );
            }
            Write::Redact(_) => self.checkpoint(name, RequestedCheckpoint::SeqsOnly),
            _ => {}
        }
    }

    fn turn(&mut self, name: &Name, id: TurnId) {
        self.turns.insert((name.clone(), id));
    }

    fn batch(&mut self, name: &Name, batch: &Batch) {
        for id in batch.items().filter_map(|i| i.item_id.as_ref()) {
            self.key(name, id);
        }
    }

    fn key(&mut self, name: &Name, id: &ItemId) {
        self.keys.insert((name.clone(), item_key(id)));
    }

    fn event(&mut self, name: &Name, key: Option<[u8; 16]>) {
        self.side_rows.events.insert((name.clone(), key));
    }

    fn checkpoint(&mut self, name: &Name, requested: RequestedCheckpoint) {
        self.side_rows.checkpoints.insert((name.clone(), requested));
    }

    /// Begins a transaction, waits until it is the only writer, and fetches the wanted rows, all in one round trip. No
    /// fetched commit has a number below `first_commit`.
    ///
    /// The outer error is that of a statement, the inner one that of a row that cannot be decoded.
    pub(crate) async fn fetch(
        &self,
        session: &Session,
        begin: impl Future<Output = Result<(), Error>>,
        lock: i64,
        first_commit: u64,
    ) -> Result<Result<Fetched, Failure>, Error> {
        let first_commit = int(first_commit);
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
        let answers = Answers {
            newest,
            sessions,
            keys,
            events,
            checkpoints,
        };
        Ok(self.read(&answers))
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
            .filter(|((_, id), _)| self.ending.contains(id));
        let at = turns.flat_map(|((pk, _), turn)| {
            // The second item of a turn may be the translation of its question. A final seq of 0 means none.
            let seqs = turn
                .iter()
                .flat_map(|t| [t.first_seq, t.first_seq + 1, t.finals[0], t.finals[1]]);
            seqs.filter(|seq| *seq != 0).map(|seq| (int(*pk), int(seq)))
        });
        let (pks, seqs): (Vec<i64>, Vec<i64>) = at.collect();
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
        let with_turns: BTreeSet<&Name> = self.turns.iter().map(|(name, _)| name).collect();
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

    fn read(&self, answers: &Answers) -> Result<Fetched, Failure> {
        let mut fetched = Fetched::default();
        for row in &answers.newest {
            if column::<Option<i64>>(row, 0)?.is_some() {
                fetched.newest_pk = uint(row, 0)?;
            }
            if column::<Option<i64>>(row, 1)?.is_some() {
                fetched.commits.push(read_log(row, 1)?);
            }
            fetched.copying = column(row, 3)?;
            fetched.now = Some(Timestamp::from_micros(column(row, 4)?));
        }
        let mut pks = BTreeMap::new();
        for row in &answers.sessions {
            // A session that cannot be decoded is left out: the command that needs it reads it again, and gets the
            // error.
            let name: (&str, &str) = (text(row, 1)?, text(row, 2)?);
            let pk = uint(row, 0).ok();
            let seen = pks.insert((name.0.to_owned(), name.1.to_owned()), pk);
            if seen.is_some() {
                continue;
            }
            let session = read_stored(row).and_then(|stored| read_session(row, stored));
            if let Ok(session) = session {
                fetched.sessions.push(session);
            }
        }
        let pk_of = |name: &Name| {
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
        for row in &answers.sessions {
            read_found_turn(row, &mut fetched)?;
        }
        fetched.events = self.side_rows.requested(|name| pk_of(name).flatten());
        side_rows::read_events(&answers.events, &mut fetched.events)?;
        fetched.checkpoints = side_rows::read_checkpoints(&answers.checkpoints)?;
        for row in &answers.keys {
            let key: Uuid = column(row, 1)?;
            let Ok(pk) = uint(row, 0) else { continue };
            let key = (pk, key.into_bytes());
            match uint(row, 2) {
                Ok(seq) => fetched.keys.insert(key, Some(seq)),
                Err(_) => fetched.keys.remove(&key),
            };
        }
        Ok(fetched)
    }
}

fn text(row: &Row, index: usize) -> Result<&str, Failure> {
    row.try_get(index).map_err(|e| failure(&e))
}

/// Decodes the newest seq and the newest turn of a row of [`SESSIONS`].
fn read_session(row: &Row, stored: StoredSession) -> Result<FetchedSession, Failure> {
    let seq: Option<i64> = column(row, 15)?;
    let newest_seq = seq.map_or(Ok(0), |_| uint(row, 15))?;
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
        if let (Ok(pk), Ok(record)) = (uint(row, 0), read_record(row, 1)) {
            let session_records = records.entry(pk).or_default();
            session_records.insert(record.first_seq, record);
        }
    }
}

/// Decodes the requested turn and its draft, if a row of [`SESSIONS`] has them, and adds them to `fetched`.
fn read_found_turn(row: &Row, fetched: &mut Fetched) -> Result<(), Failure> {
    let Ok(pk) = uint(row, 0) else { return Ok(()) };
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
