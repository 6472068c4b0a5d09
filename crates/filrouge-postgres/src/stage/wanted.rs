//! What a group's rules will read, fetched together before they begin.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::Keyring;
use filrouge_store::command::{Command, Ending, LeaseAsk, Write};
use filrouge_store::record::{Batch, RecordRow};
use filrouge_store::rows::{DraftRow, LogRow, SessionPk, Stored, TurnRow, event_key, item_key};
use filrouge_types::{Failure, ItemId, SessionId, TenantId, Timestamp, TurnId};
use tokio::try_join;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::error::failure;
use crate::rows::{column, int, read_draft, read_log, read_record, read_stored, read_turn, uint};
use crate::session::{Param, Session, Sql};

mod beside;

use beside::{At, Beside};
pub(crate) use beside::{CHECKPOINTS, EVENTS, FetchedCheckpoints, FetchedEvents};

type Name = (TenantId, SessionId);

/// What a group will ask for.
#[derive(Default)]
pub(crate) struct Wanted {
    sessions: BTreeSet<Name>,
    turns: BTreeSet<(Name, TurnId)>,
    /// Those that end: what they began with and what they have answered is read again.
    ending: BTreeSet<TurnId>,
    keys: BTreeSet<(Name, [u8; 16])>,
    beside: Beside,
}

/// A session that was found.
pub(crate) struct FetchedSession {
    pub(crate) stored: Stored,
    pub(crate) newest_seq: u64,
    /// `None` when it is malformed: then whoever asks is told.
    pub(crate) newest_turn: Option<Option<TurnRow>>,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Fetched {
    /// The newest commits from the one on that was known, falling; none when that one is gone.
    pub(crate) commits: Vec<LogRow>,
    pub(crate) newest_pk: SessionPk,
    pub(crate) copying: bool,
    /// The database's time, once nobody else writes.
    pub(crate) now: Option<Timestamp>,
    pub(crate) sessions: Vec<FetchedSession>,
    pub(crate) absent: Vec<Name>,
    pub(crate) turns: BTreeMap<(SessionPk, TurnId), Option<TurnRow>>,
    pub(crate) keys: BTreeMap<(SessionPk, [u8; 16]), Option<u64>>,
    pub(crate) drafts: BTreeMap<(SessionPk, u64), Option<DraftRow>>,
    pub(crate) records: BTreeMap<SessionPk, BTreeMap<u64, RecordRow>>,
    pub(crate) events: BTreeMap<SessionPk, FetchedEvents>,
    pub(crate) checkpoints: BTreeMap<SessionPk, FetchedCheckpoints>,
}

/// Makes this transaction the only one that writes.
pub(crate) static LOCK: Sql = Sql::new("SELECT pg_advisory_xact_lock($1)", &[Type::INT8]);
/// The highest number that a session has or had, which the next one follows, and the newest commits from a number on,
/// falling: with those of other servers, of which there are seldom more than a few, they need not be asked for again.
/// Whether a copy is being made into the store, and the database's time, in microseconds.
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
/// Sessions by name, each with its newest seq (15), its newest turn (16 to 20), and the turn that is asked for (21 to 25)
/// with its draft (26). The conditions leave one index each: a session is the first one from its name on, and a turn is
/// not looked for among all of its session (see [`crate::connect`]).
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
/// Keys of sessions: its number, the key, the seq.
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

/// The records that hold given seqs: the session's number, then the record.
pub(crate) static RECORDS: Sql = Sql::new(
    "SELECT q.pk, r.first_seq, r.count, r.head, r.body
     FROM unnest($1, $2) AS q (pk, seq)
     CROSS JOIN LATERAL (SELECT * FROM filrouge.record r
         WHERE r.session_pk = q.pk AND r.first_seq <= q.seq ORDER BY r.first_seq DESC LIMIT 1) r",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY],
);

/// The answers to what was asked.
struct Found {
    newest: Vec<Row>,
    sessions: Vec<Row>,
    keys: Vec<Row>,
    events: Vec<Row>,
    checkpoints: Vec<Row>,
}

impl Wanted {
    /// What `commands` will ask for.
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
                // Who knows how far the session is mostly knows it right, and then there is no event of it.
                if matches!(&take.ask, LeaseAsk::Acquire(acquire) if acquire.resumes == Some(None))
                {
                    self.event(name, None);
                }
            }
            Write::PutCheckpoint(put) => {
                self.checkpoint(name, put.seq.map_or(At::Newest, At::Seq));
            }
            Write::Redact(_) => self.checkpoint(name, At::Nowhere),
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
        self.beside.events.insert((name.clone(), key));
    }

    fn checkpoint(&mut self, name: &Name, at: At) {
        self.beside.checkpoints.insert((name.clone(), at));
    }

    /// Begins a transaction as the only one that writes, and fetches what is wanted, in one round trip; of commits
    /// those from number `known` on.
    pub(crate) async fn fetch(
        &self,
        session: &Session,
        begin: impl Future<Output = Result<(), Error>>,
        lock: i64,
        known: u64,
    ) -> Result<Result<Fetched, Failure>, Error> {
        let known = int(known);
        let (lock, known): ([Param<'_>; 1], [Param<'_>; 1]) = ([&lock], [&known]);
        let ((), _, newest, sessions, keys, events, checkpoints) = try_join!(
            biased;
            begin,
            session.query(&LOCK, &lock),
            session.query(&NEWEST, &known),
            self.fetch_sessions(session),
            self.fetch_keys(session),
            self.beside.fetch_events(session),
            self.beside.fetch_checkpoints(session),
        )?;
        let found = Found {
            newest,
            sessions,
            keys,
            events,
            checkpoints,
        };
        Ok(self.read(&found))
    }

    /// Fetches the records that turns of `fetched` are told from when they end; whether there are any to be fetched is
    /// known only now.
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
            // A translated question stands behind the first.
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
        // A session once for each of its turns that is asked for; one without any, once.
        let with_turns: BTreeSet<&Name> = self.turns.iter().map(|(name, _)| name).collect();
        let alone = self
            .sessions
            .iter()
            .filter(|name| !with_turns.contains(name));
        let turns = self.turns.iter().map(|(name, id)| (name, Some(*id)));
        let (mut tenants, mut ids, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for ((tenant, id), turn) in alone.map(|name| (name, None)).chain(turns) {
            tenants.push(tenant.as_str());
            ids.push(id.as_str());
            asked.push(turn.map(|id| Uuid::from_bytes(*id.as_bytes())));
        }
        session.query(&SESSIONS, &[&tenants, &ids, &asked]).await
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

    fn read(&self, found: &Found) -> Result<Fetched, Failure> {
        let mut fetched = Fetched::default();
        for row in &found.newest {
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
        for row in &found.sessions {
            // One that cannot be read is asked for again by who needs it, and told of then.
            let name: (&str, &str) = (text(row, 1)?, text(row, 2)?);
            let pk = uint(row, 0).ok();
            let seen = pks.insert((name.0.to_owned(), name.1.to_owned()), pk);
            if seen.is_some() {
                continue;
            }
            let found = read_stored(row).and_then(|stored| read_session(row, stored));
            if let Ok(found) = found {
                fetched.sessions.push(found);
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
        for row in &found.sessions {
            read_found_turn(row, &mut fetched)?;
        }
        fetched.events = self.beside.asked(|name| pk_of(name).flatten());
        beside::read_events(&found.events, &mut fetched.events)?;
        fetched.checkpoints = beside::read_checkpoints(&found.checkpoints)?;
        for row in &found.keys {
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

fn read_session(row: &Row, stored: Stored) -> Result<FetchedSession, Failure> {
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
            let of = records.entry(pk).or_default();
            of.insert(record.first_seq, record);
        }
    }
}

fn read_found_turn(row: &Row, fetched: &mut Fetched) -> Result<(), Failure> {
    let Ok(pk) = uint(row, 0) else { return Ok(()) };
    let Some(id) = column::<Option<Uuid>>(row, 22)? else {
        return Ok(());
    };
    let id = TurnId::from_bytes(id.into_bytes());
    let Ok(turn) = read_turn(row, 21) else {
        // It cannot be read: who needs it asks again, and is told.
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
