//! Fetches the events and checkpoints that a group of writes will need. The last column of each statement is the lane.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::{CheckpointRow, EventRow, SessionPk};
use filrouge_types::Result;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::{SessionName, name_columns};
use crate::error::failure;
use crate::rows::{column, read_checkpoint, read_event, read_u64, sql_int};
use crate::session::{Column, Session, Sql};

/// If a command will record an event whose key is not known in advance, the keys of this many newest events of the
/// session are fetched. Most sessions have fewer events; then these are all keys, and any other key is known not to
/// exist.
const NEWEST_KEYS: usize = 64;

/// Reads events of sessions: the session's number, the number of its newest event, the keys of its newest events if no
/// key is requested, and the event with the requested key.
pub(crate) static EVENTS: Sql = Sql::new(
    "SELECT s.pk, (SELECT e.number FROM filrouge.event e
             WHERE e.lane = q.lane AND e.session_pk = s.pk ORDER BY e.number DESC LIMIT 1),
         CASE WHEN q.key IS NULL THEN ARRAY(SELECT e.key FROM filrouge.event e
             WHERE e.lane = q.lane AND e.session_pk = s.pk ORDER BY e.number DESC LIMIT $5) END,
         e.number, e.data, e.at, e.key, q.lane
     FROM unnest($1, $2, $3, $4) AS q (lane, tenant_id, session_id, key)
     CROSS JOIN LATERAL (SELECT s.pk, s.session_id FROM filrouge.session s WHERE s.lane = q.lane
         AND s.tenant_id = q.tenant_id AND s.session_id >= q.session_id ORDER BY s.session_id LIMIT 1) s
     LEFT JOIN LATERAL (SELECT * FROM filrouge.event e
         WHERE e.lane = q.lane AND e.session_pk = s.pk AND e.key = q.key LIMIT 1) e ON true
     WHERE s.session_id = q.session_id",
    &[
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8,
    ],
);
/// Reads checkpoints of sessions: the session's number, the seqs of all its checkpoints, and the checkpoint at the
/// requested seq (-1: at the newest item; null: none).
pub(crate) static CHECKPOINTS: Sql = Sql::new(
    "SELECT s.pk, ARRAY(SELECT c.seq FROM filrouge.checkpoint c
             WHERE c.lane = q.lane AND c.session_pk = s.pk ORDER BY c.seq),
         c.seq, c.data, q.lane
     FROM unnest($1, $2, $3, $4) AS q (lane, tenant_id, session_id, seq)
     CROSS JOIN LATERAL (SELECT s.pk, s.session_id FROM filrouge.session s WHERE s.lane = q.lane
         AND s.tenant_id = q.tenant_id AND s.session_id >= q.session_id ORDER BY s.session_id LIMIT 1) s
     LEFT JOIN LATERAL (SELECT c.seq, c.data FROM filrouge.checkpoint c
         WHERE c.lane = q.lane AND c.session_pk = s.pk AND c.seq = CASE WHEN q.seq >= 0 THEN q.seq
             WHEN q.seq = -1 THEN coalesce((SELECT LEAST(r.first_seq, 1::bigint << 62) + LEAST(r.count, 1::bigint << 61) - 1
                 FROM filrouge.record r WHERE r.lane = q.lane AND r.session_pk = s.pk
                 ORDER BY r.first_seq DESC LIMIT 1), 0) END
         LIMIT 1) c ON true
     WHERE s.session_id = q.session_id",
    &[
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
    ],
);

/// Which checkpoint of a session is requested. In each case the seqs of all its checkpoints are fetched too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestedCheckpoint {
    /// No checkpoint.
    SeqsOnly,
    /// The checkpoint at the newest item.
    Newest,
    /// The checkpoint at this seq.
    Seq(u64),
}

impl RequestedCheckpoint {
    /// The value of the column `seq` of `q` in [`CHECKPOINTS`].
    fn seq_param(self) -> Option<i64> {
        match self {
            Self::SeqsOnly => None,
            Self::Newest => Some(-1),
            Self::Seq(seq) => Some(sql_int(seq)),
        }
    }
}

/// The keys of the events and checkpoints that a group will need.
#[derive(Default)]
pub(super) struct RequestedSideRows {
    /// The requested events, by session and key. The key is `None` for an event whose key depends on the session's
    /// state.
    pub(super) events: BTreeSet<(SessionName, Option<[u8; 16]>)>,
    pub(super) checkpoints: BTreeSet<(SessionName, RequestedCheckpoint)>,
}

/// The fetched events of a session.
#[derive(Default)]
pub(crate) struct FetchedEvents {
    /// The number of the newest event; 0 if there is none.
    pub(crate) newest: u64,
    /// The requested events. `None` is an event that does not exist.
    pub(crate) by_key: BTreeMap<[u8; 16], Option<EventRow>>,
    /// The keys of all events; `None` if they were not requested, or are too many.
    pub(crate) keys: Option<BTreeSet<[u8; 16]>>,
}

/// The fetched checkpoints of a session.
#[derive(Default)]
pub(crate) struct FetchedCheckpoints {
    /// The seqs of all checkpoints.
    pub(crate) seqs: BTreeSet<u64>,
    /// The checkpoints that were fetched, by seq.
    pub(crate) by_seq: BTreeMap<u64, CheckpointRow>,
}

impl RequestedSideRows {
    pub(super) async fn fetch_events(&self, session: &Session) -> Result<Vec<Row>, Error> {
        let (lanes, tenants, ids) = name_columns(self.events.iter().map(|(name, _)| name));
        let keys = self.events.iter().map(|(_, key)| key.map(Uuid::from_bytes));
        let keys: Vec<Option<Uuid>> = keys.collect();
        let max_keys = sql_int(NEWEST_KEYS as u64);
        let columns: [&dyn Column; 3] = [&tenants, &ids, &keys];
        session
            .query_columns(&EVENTS, &lanes, &columns, &[&max_keys])
            .await
    }

    pub(super) async fn fetch_checkpoints(&self, session: &Session) -> Result<Vec<Row>, Error> {
        let (lanes, tenants, ids) = name_columns(self.checkpoints.iter().map(|(name, _)| name));
        let seqs = self.checkpoints.iter();
        let seqs: Vec<Option<i64>> = seqs.map(|(_, requested)| requested.seq_param()).collect();
        let columns: [&dyn Column; 3] = [&tenants, &ids, &seqs];
        session
            .query_columns(&CHECKPOINTS, &lanes, &columns, &[])
            .await
    }

    /// Returns, by the numbers of the sessions, an entry for each event requested by key. All are marked as not
    /// existing until [`read_events`] finds them.
    pub(super) fn requested_events(
        &self,
        pk_of: impl Fn(&SessionName) -> Option<SessionPk>,
    ) -> BTreeMap<SessionPk, FetchedEvents> {
        let mut requested = BTreeMap::<SessionPk, FetchedEvents>::new();
        for (name, key) in &self.events {
            if let (Some(pk), Some(key)) = (pk_of(name), key) {
                requested.entry(pk).or_default().by_key.insert(*key, None);
            }
        }
        requested
    }
}

/// Decodes the rows of [`EVENTS`], and adds them to `events`. An event that cannot be decoded is left out: the command
/// that needs it reads it again, and gets the error.
pub(super) fn read_events(
    rows: &[Row],
    events: &mut BTreeMap<SessionPk, FetchedEvents>,
) -> Result<()> {
    for row in rows {
        let Ok(pk) = read_u64(row, 0) else { continue };
        let newest = column::<Option<i64>>(row, 1)?;
        let Ok(newest) = newest.map_or(Ok(0), |_| read_u64(row, 1)) else {
            events.remove(&pk);
            continue;
        };
        let fetched = events.entry(pk).or_default();
        fetched.newest = newest;
        if let Some(keys) = column::<Option<Vec<Uuid>>>(row, 2)?
            && keys.len() < NEWEST_KEYS
        {
            fetched.keys = Some(keys.into_iter().map(Uuid::into_bytes).collect());
        }
        if column::<Option<i64>>(row, 3)?.is_some() {
            add_event(row, fetched);
        }
    }
    Ok(())
}

fn add_event(row: &Row, fetched: &mut FetchedEvents) {
    let Ok(key) = column::<Uuid>(row, 6) else {
        return;
    };
    match read_event(row, 3) {
        Ok(event) => fetched.by_key.insert(key.into_bytes(), Some(event)),
        Err(_) => fetched.by_key.remove(key.as_bytes()),
    };
}

/// Decodes the rows of [`CHECKPOINTS`]. Rows that cannot be decoded are left out, as in [`read_events`].
pub(super) fn read_checkpoints(rows: &[Row]) -> Result<BTreeMap<SessionPk, FetchedCheckpoints>> {
    let mut checkpoints = BTreeMap::<SessionPk, FetchedCheckpoints>::new();
    for row in rows {
        let Ok(pk) = read_u64(row, 0) else { continue };
        let seqs: Vec<i64> = column(row, 1)?;
        let seqs = seqs.into_iter().map(u64::try_from);
        let Ok(seqs) = seqs.collect::<Result<BTreeSet<u64>, _>>() else {
            continue;
        };
        let fetched = checkpoints.entry(pk).or_default();
        fetched.seqs = seqs;
        if column::<Option<i64>>(row, 2)?.is_some() {
            let data: &[u8] = row.try_get(3).map_err(|e| failure(&e))?;
            let checkpoint =
                read_u64(row, 2).and_then(|seq| Ok((seq, read_checkpoint(seq, data)?)));
            fetched.by_seq.extend(checkpoint);
        }
    }
    Ok(checkpoints)
}
