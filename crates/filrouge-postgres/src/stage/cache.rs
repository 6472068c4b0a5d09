//! The cache of a group of writes: the rows that were fetched for the group, and those that it has written since.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::record::RecordRow;
use filrouge_store::rows::{DraftRow, LogRow, SessionPk, SessionRow, StoredSession, TurnRow};
use filrouge_store::{Lane, Lanes};
use filrouge_types::{ErrorCode, Failure, SessionId, TenantId, TurnId};

use super::prefetch::Fetched;

mod side_rows;

use side_rows::SessionSideRows;

/// The maximum number of records per session in the cache. If a session has as many, the next one replaces all of them.
const RECORDS_MAX: usize = 64;

type SessionName = (TenantId, SessionId);

/// The cached rows. If a method returns `None`, the row is not cached: the caller must query the database. `Some(None)`
/// means that the row does not exist. In the maps, too, the value `None` is a row that does not exist.
pub(super) struct Cache {
    lanes: Lanes,
    /// The newest commits of the lanes that the transaction has locked.
    locked: BTreeMap<Lane, Vec<LogRow>>,
    /// The greatest number that a session of each locked lane has or had, including those that the group has created.
    /// Empty until the group creates a session.
    newest_pks: BTreeMap<Lane, Option<SessionPk>>,
    sessions: BTreeMap<SessionName, Option<StoredSession>>,
    names: BTreeMap<SessionPk, SessionName>,
    /// The sessions that the group has created. Rows of these sessions that are not cached do not exist.
    new_sessions: BTreeSet<SessionPk>,
    newest_turns: BTreeMap<SessionPk, Option<TurnRow>>,
    newest_seqs: BTreeMap<SessionPk, u64>,
    turns: BTreeMap<(SessionPk, TurnId), Option<TurnRow>>,
    keys: BTreeMap<(SessionPk, [u8; 16]), Option<u64>>,
    drafts: BTreeMap<(SessionPk, u64), Option<DraftRow>>,
    /// The cached records of each session, by their first seqs. There may be gaps between them.
    records: BTreeMap<SessionPk, BTreeMap<u64, RecordRow>>,
    side_rows: SessionSideRows,
}

impl Cache {
    pub(super) fn new(lanes: Lanes, fetched: Fetched) -> Self {
        let mut cache = Self {
            lanes,
            locked: fetched.lanes,
            newest_pks: BTreeMap::new(),
            sessions: fetched
                .absent
                .into_iter()
                .map(|name| (name, None))
                .collect(),
            names: BTreeMap::new(),
            new_sessions: BTreeSet::new(),
            newest_turns: BTreeMap::new(),
            newest_seqs: BTreeMap::new(),
            turns: fetched.turns,
            keys: fetched.keys,
            drafts: fetched.drafts,
            records: fetched.records,
            side_rows: SessionSideRows::new(fetched.events, fetched.checkpoints),
        };
        for session in fetched.sessions {
            let pk = session.stored.pk;
            cache.newest_seqs.insert(pk, session.newest_seq);
            if let Some(turn) = session.newest_turn {
                cache.newest_turns.insert(pk, turn);
            }
            cache.insert_session(session.stored);
        }
        cache
    }

    fn insert_session(&mut self, stored: StoredSession) {
        let name = (stored.row.tenant_id.clone(), stored.row.session_id.clone());
        self.names.insert(stored.pk, name.clone());
        self.sessions.insert(name, Some(stored));
    }

    /// The newest commit of a lane before this transaction.
    pub(super) fn newest_log(&self, lane: Lane) -> Option<Option<&LogRow>> {
        Some(self.locked.get(&lane)?.first())
    }

    pub(super) fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
    ) -> Option<Option<&StoredSession>> {
        let found = self.sessions.get(&(tenant.clone(), id.clone()))?;
        Some(found.as_ref())
    }

    /// The result for a row that is not cached: in a session created by the group, the row does not exist.
    fn absent_if_new<T>(&self, pk: SessionPk) -> Option<Option<T>> {
        self.new_sessions.contains(&pk).then_some(None)
    }

    pub(super) fn turn(&self, pk: SessionPk, id: &TurnId) -> Option<Option<&TurnRow>> {
        match self.turns.get(&(pk, *id)) {
            Some(found) => Some(found.as_ref()),
            None => self.absent_if_new(pk),
        }
    }

    pub(super) fn newest_turn(&self, pk: SessionPk) -> Option<Option<&TurnRow>> {
        self.newest_turns.get(&pk).map(Option::as_ref)
    }

    pub(super) fn newest_seq(&self, pk: SessionPk) -> Option<u64> {
        self.newest_seqs.get(&pk).copied()
    }

    pub(super) fn key(&self, pk: SessionPk, key: [u8; 16]) -> Option<Option<u64>> {
        match self.keys.get(&(pk, key)) {
            Some(found) => Some(*found),
            None => self.absent_if_new(pk),
        }
    }

    pub(super) fn draft(&self, pk: SessionPk, place: u64) -> Option<Option<&DraftRow>> {
        match self.drafts.get(&(pk, place)) {
            Some(found) => Some(found.as_ref()),
            None => self.absent_if_new(pk),
        }
    }

    /// Up to `limit` records, from the one that contains `seq` on; `None` unless all of them are cached.
    pub(super) fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Option<Vec<RecordRow>> {
        let records = self.records.get(&pk)?;
        let newest = self.newest_seq(pk)?;
        let (start, _) = records.range(..=seq).next_back()?;
        let (mut matching, mut next_seq) = (Vec::new(), *start);
        for record in records.range(start..).map(|(_, r)| r) {
            if matching.len() == limit || record.first_seq != next_seq {
                break;
            }
            next_seq = record.last_seq() + 1;
            matching.push(record.clone());
        }
        // If the first record found ends before `seq`, a record that is not cached may contain `seq`.
        let covers_seq = matching.first().is_some_and(|r| r.last_seq() >= seq);
        (covers_seq && (matching.len() == limit || next_seq > newest)).then_some(matching)
    }

    /// Adds a new session, and returns the number that it gets. `newest_pks` reads the greatest numbers of lanes.
    ///
    /// # Errors
    /// `internal` if the transaction has not locked the session's lane; fails when the database cannot be read.
    pub(super) fn add_session(
        &mut self,
        row: &SessionRow,
        newest_pks: impl FnOnce(Vec<Lane>) -> Result<BTreeMap<Lane, Option<SessionPk>>, Failure>,
    ) -> Result<SessionPk, Failure> {
        let lane = self.lanes.of_session(&row.tenant_id, &row.session_id);
        if self.newest_pks.is_empty() {
            self.newest_pks = newest_pks(self.locked.keys().copied().collect())?;
        }
        let not_locked = || Failure::new(ErrorCode::Internal, "a new session's lane is not locked");
        let newest = self.newest_pks.get_mut(&lane).ok_or_else(not_locked)?;
        let pk = self.lanes.next_pk(lane, *newest);
        *newest = Some(pk);
        self.new_sessions.insert(pk);
        self.newest_turns.insert(pk, None);
        self.newest_seqs.insert(pk, 0);
        self.side_rows.add_session(pk);
        self.insert_session(StoredSession {
            pk,
            row: row.clone(),
            head: None,
            updated_at: StoredSession::UNKNOWN_TIME,
        });
        Ok(pk)
    }

    pub(super) fn session_mut(&mut self, pk: SessionPk) -> Option<&mut StoredSession> {
        let name = self.names.get(&pk)?;
        self.sessions.get_mut(name)?.as_mut()
    }

    pub(super) fn put_turn(&mut self, pk: SessionPk, row: &TurnRow) {
        self.turns.insert((pk, row.turn_id), Some(row.clone()));
        if let Some(newest) = self.newest_turns.get_mut(&pk)
            && newest.as_ref().is_none_or(|t| t.place() <= row.place())
        {
            *newest = Some(row.clone());
        }
    }

    pub(super) fn put_record(&mut self, pk: SessionPk, row: &RecordRow) {
        if let Some(newest) = self.newest_seqs.get_mut(&pk) {
            *newest = (*newest).max(row.last_seq());
        }
        let records = self.records.entry(pk).or_default();
        if records.len() >= RECORDS_MAX {
            records.clear();
        }
        records.insert(row.first_seq, row.clone());
    }

    pub(super) fn put_key(&mut self, pk: SessionPk, key: [u8; 16], seq: u64) {
        self.keys.insert((pk, key), Some(seq));
    }

    pub(super) fn put_draft(&mut self, pk: SessionPk, place: u64, row: Option<&DraftRow>) {
        self.drafts.insert((pk, place), row.cloned());
    }

    /// Drops everything that is cached for a session, because the caller changes rows without updating the cache.
    pub(super) fn drop_session(&mut self, pk: SessionPk) {
        self.new_sessions.remove(&pk);
        if let Some(name) = self.names.remove(&pk) {
            self.sessions.remove(&name);
        }
        self.newest_turns.remove(&pk);
        self.newest_seqs.remove(&pk);
        self.turns.retain(|(key_pk, _), _| *key_pk != pk);
        self.keys.retain(|(key_pk, _), _| *key_pk != pk);
        self.drafts.retain(|(key_pk, _), _| *key_pk != pk);
        self.records.remove(&pk);
        self.side_rows.drop_session(pk);
    }

    pub(super) const fn side_rows(&self) -> &SessionSideRows {
        &self.side_rows
    }

    pub(super) const fn side_rows_mut(&mut self) -> &mut SessionSideRows {
        &mut self.side_rows
    }
}
