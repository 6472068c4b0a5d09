//! Caches the rows that the writer reads for each write of a session: those that it wrote last.

use std::collections::HashMap;
use std::sync::Arc;

use filrouge_store::command::Scope;
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    HeadRow, LogRow, SessionPk, SessionRow, StartedTurn, StoredSession, TurnRow,
};
use filrouge_types::{SessionId, TenantId};

/// The maximum number of cached sessions. Beyond it, the cache begins again.
const SESSIONS_MAX: usize = 512;
/// The maximum size of a cached session's own row, in bytes.
const SESSION_BYTES_MAX: usize = 16 << 10;
/// The maximum size of the packed items of a kept write, in bytes.
const TURN_BYTES_MAX: usize = 16 << 10;
/// The maximum number of known agents of a session.
const AGENTS_MAX: usize = 4;

/// The rows of the sessions that were written last. They are those of the file as long as only the writer's connection
/// changes the file: the writer clears the cache when another connection has changed it, and after a rollback.
#[derive(Default)]
pub(crate) struct RowCache {
    pub(super) newest_log: Option<LogRow>,
    sessions: HashMap<SessionPk, CachedSession>,
    by_id: HashMap<SessionId, SessionPk>,
}

struct CachedSession {
    stored: StoredSession,
    newest_turn: Option<TurnRow>,
    newest_seq: Option<u64>,
    /// The place of a turn that has no draft.
    without_draft: Option<u64>,
    started_turn: Option<Arc<StartedTurn>>,
    /// Agents that the store has recorded for the session; not all.
    agents: Vec<Box<str>>,
}

impl RowCache {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The session, if it is cached and the caller may see it. Other sessions are looked up in the store, so that they
    /// cost the caller as many statements as absent ones.
    pub(super) fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Option<StoredSession> {
        let stored = &self.sessions.get(self.by_id.get(id)?)?.stored;
        // Another tenant may have a session with this id.
        if stored.row.tenant_id != *tenant {
            return None;
        }
        scope?.can_see(&stored.row).then(|| stored.clone())
    }

    pub(super) fn add_session(&mut self, stored: &StoredSession) {
        // A tombstone costs callers as many statements as an absent session.
        if stored.row.erased.is_some() || stored.row.content_len() > SESSION_BYTES_MAX {
            self.remove_session(stored.pk);
            return;
        }
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.clear();
            self.by_id.clear();
        }
        self.by_id.insert(stored.row.session_id.clone(), stored.pk);
        let session = CachedSession {
            stored: stored.clone(),
            newest_turn: None,
            newest_seq: None,
            without_draft: None,
            started_turn: None,
            agents: Vec::new(),
        };
        self.sessions.insert(stored.pk, session);
    }

    pub(super) fn remove_session(&mut self, pk: SessionPk) {
        self.sessions.remove(&pk);
    }

    pub(super) fn update_session(&mut self, pk: SessionPk, row: &SessionRow) {
        if let Some(session) = self.sessions.get_mut(&pk) {
            session.stored.row = row.clone();
        }
    }

    pub(super) fn head(&self, pk: SessionPk) -> Option<&HeadRow> {
        self.sessions.get(&pk)?.stored.head.as_ref()
    }

    pub(super) fn put_head(&mut self, pk: SessionPk, head: &HeadRow) {
        if let Some(session) = self.sessions.get_mut(&pk) {
            session.stored.updated_at = head.updated_at;
            session.stored.head = Some(head.clone());
        }
    }

    pub(super) fn newest_turn(&self, pk: SessionPk) -> Option<&TurnRow> {
        self.sessions.get(&pk)?.newest_turn.as_ref()
    }

    pub(super) fn set_newest_turn(&mut self, pk: SessionPk, row: &TurnRow) {
        if let Some(session) = self.sessions.get_mut(&pk) {
            session.newest_turn = Some(row.clone());
        }
    }

    /// Records a turn that was inserted or updated.
    pub(super) fn put_turn(&mut self, pk: SessionPk, row: &TurnRow) {
        if let Some(session) = self.sessions.get_mut(&pk) {
            let is_newest = match &session.newest_turn {
                Some(newest) => newest.place() <= row.place(),
                // A session without a head is being created with its first turn.
                None => session.stored.head.is_none(),
            };
            if is_newest {
                session.newest_turn = Some(row.clone());
            }
        }
    }

    pub(super) fn newest_seq(&self, pk: SessionPk) -> Option<u64> {
        self.sessions.get(&pk)?.newest_seq
    }

    pub(super) fn set_newest_seq(&mut self, pk: SessionPk, seq: u64) {
        if let Some(session) = self.sessions.get_mut(&pk) {
            session.newest_seq = Some(seq);
        }
    }

    /// Records that a record was inserted: its last item is the session's newest.
    pub(super) fn put_record(&mut self, pk: SessionPk, row: &RecordRow) {
        self.set_newest_seq(pk, row.first_seq + row.count - 1);
    }

    pub(super) fn started_turn(&self, pk: SessionPk, first_seq: u64) -> Option<Arc<StartedTurn>> {
        let turn = self.sessions.get(&pk)?.started_turn.as_ref();
        turn.filter(|turn| turn.first_seq == first_seq).cloned()
    }

    pub(super) fn keep_started_turn(&mut self, pk: SessionPk, turn: StartedTurn) {
        let bytes = turn.start.batch.stored_len();
        if let Some(session) = self.sessions.get_mut(&pk) {
            let kept = (bytes <= TURN_BYTES_MAX).then(|| Arc::new(turn));
            session.started_turn = kept;
        }
    }

    /// Adds an agent of the session. Returns whether it is known that the store has recorded it.
    pub(super) fn add_agent(&mut self, pk: SessionPk, agent: &str) -> bool {
        let Some(session) = self.sessions.get_mut(&pk) else {
            return false;
        };
        let is_known = session.agents.iter().any(|known| **known == *agent);
        if !is_known && session.agents.len() < AGENTS_MAX {
            session.agents.push(agent.into());
        }
        is_known
    }

    pub(super) fn has_no_draft(&self, pk: SessionPk, place: u64) -> bool {
        let session = self.sessions.get(&pk);
        session.is_some_and(|session| session.without_draft == Some(place))
    }

    /// Records that a turn has no draft; `None` if any turn of the session may have one.
    pub(super) fn set_without_draft(&mut self, pk: SessionPk, place: Option<u64>) {
        if let Some(session) = self.sessions.get_mut(&pk) {
            session.without_draft = place;
        }
    }
}
