//! Stores the rows of a ledger in maps, and implements [`View`] over them.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{
    EventKey, ItemId, RequestId, Result, SessionId, TenantId, Timestamp, TurnId, TurnStatus,
};

use crate::command::{Scope, SessionFilter, SessionSort, matches_pattern};
use crate::lane::{Lane, Lanes};
use crate::record::RecordRow;
use crate::rows::{
    AgentRow, AgentsOf, CheckpointRow, DraftChunk, DraftRow, EventPosition, EventRow, HeadRow,
    LogRow, NoteRow, RECORDS_BYTES, RowKey, SessionOrder, SessionPk, SessionRow, StoredSession,
    TurnRow, View, collect_until_full,
};

mod tx;

/// The rows of a ledger, or those of one ephemeral session. The keys begin with the session's number. Then follows, for
/// a turn or a draft, the turn's place ([`TurnRow::place`]: ordinal and version); for a record, its first seq; for a
/// chunk, the turn's place and the chunk's number; for an event, its number; for a checkpoint, its seq.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) lanes: Lanes,
    pub(crate) sessions: BTreeMap<SessionPk, SessionRow>,
    pub(crate) names: BTreeMap<(TenantId, SessionId), SessionPk>,
    pub(crate) heads: BTreeMap<SessionPk, HeadRow>,
    pub(crate) turns: BTreeMap<(SessionPk, u64), TurnRow>,
    pub(crate) turn_ids: BTreeMap<TurnId, (SessionPk, u64)>,
    pub(crate) records: BTreeMap<(SessionPk, u64), RecordRow>,
    pub(crate) keys: BTreeMap<(SessionPk, ItemId), u64>,
    pub(crate) requests: BTreeMap<(SessionPk, RequestId), u64>,
    pub(crate) log: BTreeMap<(Lane, u64), LogRow>,
    pub(crate) events: BTreeMap<(SessionPk, u64), EventRow>,
    pub(crate) event_keys: BTreeMap<(SessionPk, EventKey), u64>,
    pub(crate) agents: BTreeMap<(SessionPk, Box<str>), AgentRow>,
    pub(crate) notes: BTreeMap<Box<str>, NoteRow>,
    pub(crate) drafts: BTreeMap<(SessionPk, u64), DraftRow>,
    pub(crate) draft_chunks: BTreeMap<(SessionPk, u64, u64), DraftChunk>,
    pub(crate) checkpoints: BTreeMap<(SessionPk, u64), CheckpointRow>,
    /// The first seq of the items, for sessions that were created as a part of a session in another ledger.
    pub(crate) first_seqs: BTreeMap<SessionPk, u64>,
    /// The changes since the rows were loaded, if they are those of one ephemeral session, whose oldest turns can be
    /// trimmed; `None` for a ledger.
    pub(crate) changes: Option<RowChanges>,
}

/// The changes of one session's rows since they were loaded.
#[derive(Default)]
pub(crate) struct RowChanges {
    /// The keys of the rows that were written or deleted.
    pub(crate) changed_rows: BTreeSet<RowKey>,
    /// Whether all rows but the session's row and head were deleted.
    pub(crate) erased: bool,
    /// The keys of all items by seq, so that trimming finds the keys of the oldest items.
    pub(crate) item_keys: BTreeMap<u64, Vec<ItemId>>,
}

impl Rows {
    fn stored_session(&self, pk: SessionPk) -> Option<StoredSession> {
        let row = self.sessions.get(&pk)?.clone();
        let head = self.heads.get(&pk).cloned();
        let updated_at = head.as_ref().map(|head| head.updated_at);
        Some(StoredSession {
            pk,
            row,
            updated_at: updated_at.unwrap_or(StoredSession::UNKNOWN_TIME),
            head,
        })
    }

    /// The agents of a session.
    fn agents_of(&self, pk: SessionPk) -> impl Iterator<Item = &AgentRow> {
        let first: (SessionPk, Box<str>) = (pk, Box::default());
        let rows = self.agents.range(first..);
        rows.take_while(move |((p, _), _)| *p == pk)
            .map(|(_, row)| row)
    }

    /// The oldest turn. For the rows of a single session only.
    pub(crate) fn oldest_turn(&self) -> Option<&TurnRow> {
        self.turns.values().next()
    }

    /// Records that a row was written or deleted; does nothing for a ledger.
    pub(crate) fn record_change(&mut self, key: RowKey) {
        if let Some(changes) = &mut self.changes {
            changes.changed_rows.insert(key);
        }
    }
}

impl View for Rows {
    fn lanes(&self) -> Lanes {
        self.lanes
    }

    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<StoredSession>> {
        let pk = self.names.get(&(tenant.clone(), id.clone()));
        let stored = pk.and_then(|pk| self.stored_session(*pk));
        Ok(stored.filter(|s| scope.is_none_or(|scope| scope.can_see(&s.row))))
    }

    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<StoredSession>> {
        Ok(self.stored_session(pk))
    }

    fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        before: Option<SessionOrder>,
        limit: usize,
    ) -> Result<Vec<StoredSession>> {
        let at = |pk: &SessionPk, row: &SessionRow| match filter.order {
            SessionSort::Created => row.created_at,
            SessionSort::Updated => {
                let head = self.heads.get(pk);
                head.map_or(StoredSession::UNKNOWN_TIME, |head| head.updated_at)
            }
        };
        let rows = self.sessions.iter();
        let rows = rows.map(|(pk, row)| ((at(pk, row), *pk), row));
        let rows = rows.filter(|(order, _)| before.is_none_or(|before| *order < before));
        let rows: BTreeMap<SessionOrder, &SessionRow> = rows.collect();
        let rows = rows.into_iter().rev().map(|((_, pk), row)| (pk, row));
        let has_agent = |pk: &SessionPk, pattern: &str| {
            let mut agents = self.agents_of(*pk);
            agents.any(|row| matches_pattern(&row.agent, pattern))
        };
        let visible = rows.filter(|(pk, row)| {
            row.tenant_id == scope.tenant
                && row.erased.is_none()
                && scope.can_list(row)
                && filter.matches(row)
                && filter
                    .agent
                    .as_ref()
                    .is_none_or(|agent| has_agent(pk, agent))
        });
        let stored = visible
            .take(limit)
            .filter_map(|(pk, _)| self.stored_session(pk).map(Ok));
        collect_until_full(stored, |s| s.row.content_len())
    }

    fn turn(&self, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>> {
        let key = self.turn_ids.get(id).filter(|key| key.0 == pk);
        Ok(key.and_then(|key| self.turns.get(key)).cloned())
    }

    fn session_of_turn(&self, id: &TurnId) -> Result<Option<SessionPk>> {
        Ok(self.turn_ids.get(id).map(|key| key.0))
    }

    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>> {
        if from > to {
            return Ok(Vec::new());
        }
        let range = self
            .turns
            .range((pk, from)..=(pk, to))
            .map(|(_, row)| row.clone());
        Ok(if descending {
            range.rev().take(limit).collect()
        } else {
            range.take(limit).collect()
        })
    }

    fn turn_row_count(&self, pk: SessionPk) -> Result<u64> {
        Ok(self.turns.range((pk, 0)..=(pk, u64::MAX)).count() as u64)
    }

    fn idle_turns(&self, before: Timestamp, limit: usize) -> Result<Vec<(SessionPk, TurnRow)>> {
        let is_idle = |row: &TurnRow| row.status == TurnStatus::Open && row.last_write_at < before;
        let mut rows: Vec<_> = self
            .turns
            .iter()
            .filter(|(_, row)| is_idle(row))
            .map(|((pk, _), row)| (*pk, row.clone()))
            .collect();
        rows.sort_by_key(|(_, row)| row.last_write_at);
        rows.truncate(limit);
        Ok(rows)
    }

    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>> {
        let first = self
            .records
            .range((pk, 0)..=(pk, seq))
            .next_back()
            .map_or(seq, |((_, first), _)| *first);
        let rows = self.records.range((pk, first)..=(pk, u64::MAX));
        let mut bytes = 0;
        let fits = |row: &&RecordRow| {
            let is_below_limit = bytes < RECORDS_BYTES;
            bytes += row.body.len();
            is_below_limit
        };
        let rows = rows.map(|(_, row)| row).take(limit).take_while(fits);
        Ok(rows.cloned().collect())
    }

    fn check_structure(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64> {
        Ok(self
            .records
            .range((pk, 0)..=(pk, u64::MAX))
            .next_back()
            .map_or(self.first_seq(pk)? - 1, |(_, row)| row.last_seq()))
    }

    /// The first seq of the oldest turn if older turns were trimmed; otherwise the session's entry in `first_seqs`, or
    /// 1.
    fn first_seq(&self, pk: SessionPk) -> Result<u64> {
        let is_trimmed = self.first_ordinal(pk)? > 1;
        let oldest = self.oldest_turn().filter(|_| is_trimmed);
        let first_seq = self.first_seqs.get(&pk).copied();
        Ok(oldest.map(|turn| turn.first_seq).or(first_seq).unwrap_or(1))
    }

    fn first_ordinal(&self, _: SessionPk) -> Result<u64> {
        let oldest = self.oldest_turn().filter(|_| self.can_expire());
        Ok(oldest.map_or(1, |turn| turn.ordinal))
    }

    fn can_expire(&self) -> bool {
        self.changes.is_some()
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>> {
        Ok(self.keys.get(&(pk, id.clone())).copied())
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>> {
        Ok(self.requests.get(&(pk, id.clone())).copied())
    }

    fn item_key_count(&self, pk: SessionPk) -> Result<u64> {
        let items = self.keys.keys().filter(|(p, _)| *p == pk).count();
        let requests = self.requests.keys().filter(|(p, _)| *p == pk).count();
        Ok((items + requests) as u64)
    }

    fn agents(&self, pks: &[SessionPk]) -> Result<AgentsOf> {
        let agents = pks.iter().map(|pk| {
            let rows = self.agents_of(*pk).cloned();
            (*pk, rows.map(Some).collect())
        });
        Ok(agents.collect())
    }

    fn log(&self, lane: Lane, after: u64, limit: usize) -> Result<Vec<LogRow>> {
        let rows = self.log.range((lane, after + 1)..=(lane, u64::MAX));
        Ok(rows.map(|(_, row)| row.clone()).take(limit).collect())
    }

    fn newest_log(&self, lane: Lane) -> Result<Option<LogRow>> {
        let rows = self.log.range((lane, 0)..=(lane, u64::MAX));
        Ok(rows.map(|(_, row)| row.clone()).next_back())
    }

    fn for_each_session(
        &self,
        visit: &mut dyn FnMut(SessionPk, Option<StoredSession>),
    ) -> Result<()> {
        for pk in self.sessions.keys() {
            visit(*pk, self.stored_session(*pk));
        }
        Ok(())
    }

    fn event(&self, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>> {
        let number = self.event_keys.get(&(pk, key.clone()));
        Ok(number.and_then(|n| self.events.get(&(pk, *n)).cloned()))
    }

    fn events(&self, pk: SessionPk, after: u64, limit: usize) -> Result<Vec<EventRow>> {
        let from = after.saturating_add(1);
        let rows = self.events.range((pk, from)..=(pk, u64::MAX));
        let rows = rows.map(|(_, row)| Ok(row.clone())).take(limit);
        collect_until_full(rows, EventRow::content_len)
    }

    fn newest_event(&self, pk: SessionPk) -> Result<u64> {
        let newest = self.events.range((pk, 0)..=(pk, u64::MAX)).next_back();
        Ok(newest.map_or(0, |((_, number), _)| *number))
    }

    fn events_at(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Vec<(SessionPk, EventRow)>> {
        let events = self.events.iter().map(|((pk, number), row)| {
            let position = (row.event.at, *pk, *number);
            (position, row)
        });
        let events: BTreeMap<EventPosition, &EventRow> = events
            .filter(|((at, ..), _)| (from..to).contains(at))
            .filter(|(position, _)| after.is_none_or(|after| *position > after))
            .collect();
        let rows = events.into_iter().take(limit);
        let rows = rows.map(|((_, pk, _), row)| Ok((pk, row.clone())));
        collect_until_full(rows, |(_, row)| row.content_len())
    }

    fn checkpoint(&self, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>> {
        Ok(self.checkpoints.get(&(pk, seq)).cloned())
    }

    fn checkpoint_seqs(&self, pk: SessionPk) -> Result<Vec<u64>> {
        let rows = self.checkpoints.range((pk, 0)..=(pk, u64::MAX));
        Ok(rows.map(|((_, seq), _)| *seq).collect())
    }

    fn note(&self, name: &str) -> Result<Option<NoteRow>> {
        Ok(self.notes.get(name).cloned())
    }

    fn notes(&self) -> Result<Vec<Option<NoteRow>>> {
        Ok(self.notes.values().cloned().map(Some).collect())
    }

    fn draft(&self, pk: SessionPk, place: u64) -> Result<Option<DraftRow>> {
        Ok(self.drafts.get(&(pk, place)).cloned())
    }

    fn drafts(&self, pk: SessionPk) -> Result<Vec<DraftRow>> {
        let rows = self.drafts.range((pk, 0)..=(pk, u64::MAX));
        Ok(rows.map(|(_, row)| row.clone()).collect())
    }

    fn draft_chunks(&self, pk: SessionPk, place: u64, after: u64) -> Result<Vec<DraftChunk>> {
        let from = (pk, place, after.saturating_add(1));
        let chunks = self.draft_chunks.range(from..=(pk, place, u64::MAX));
        Ok(chunks.map(|(_, chunk)| chunk.clone()).collect())
    }

    fn all_drafts(&self) -> Result<Vec<(SessionPk, DraftRow)>> {
        let rows = self.drafts.iter();
        Ok(rows.map(|((pk, _), row)| (*pk, row.clone())).collect())
    }

    fn session_pks(&self) -> Result<Vec<SessionPk>> {
        Ok(self.sessions.keys().copied().collect())
    }
}
