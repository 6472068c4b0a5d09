//! The rows of a ledger, and the two traits that a backend implements over them (docs/format.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_types::{
    EventKey, IdentityId, ItemId, ProjectId, RawJson, RequestId, Result, Session, SessionId,
    SessionStatus, TenantId, Timestamp, TurnId,
};

use crate::chain::fingerprint;
use crate::codec::{ByteReader, WriteBytes};
use crate::command::{Erased, Scope, SessionFilter, SessionSort, SessionToken, Start};
use crate::keyring::Keyring;
pub use crate::lane::SessionPk;
use crate::lane::{Lane, Lanes};
use crate::record::RecordRow;

#[macro_use]
mod sealed;

mod agent;
mod checkpoint;
mod draft;
mod event;
mod head;
mod key;
mod log;
mod note;
mod row_key;
#[cfg(test)]
mod tests;
mod title;
mod turn;

pub use agent::AgentRow;
pub use checkpoint::{CheckpointRow, NamedCheckpoint};
pub use draft::{DraftChunk, DraftRow};
pub use event::EventRow;
pub use head::{HeadCheckpoints, HeadLease, HeadRow};
pub use key::{event_key, item_key, request_key};
pub use log::{Change, LogEntry, LogRow};
pub use note::{NOTE_MAX, NoteRow};
pub(crate) use row_key::RowKey;
pub use title::derived_title;
pub(crate) use title::is_title_of;
use title::read_title;
pub use turn::TurnRow;

/// The highest session number of a store: stored keys have no room for a higher one.
pub const PK_MAX: u64 = (1 << 31) - 1;
/// The highest seq in a session.
pub const SEQ_MAX: u64 = (1 << 32) - 1;
/// The highest ordinal of a turn in its session.
pub const ORDINAL_MAX: u64 = (1 << 24) - 1;
/// The highest record version of a turn.
pub const VERSION_MAX: u64 = 1 << 8;

/// The fields of a session that lists show. They rarely change; [`HeadRow`] contains the fields that change often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The session's tenant.
    pub tenant_id: TenantId,
    /// Its id.
    pub session_id: SessionId,
    /// Its owner; `None` for an anonymous session.
    pub identity_id: Option<IdentityId>,
    /// The session that started this one, if any.
    pub parent_session_id: Option<SessionId>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team.
    pub team_id: Option<Box<str>>,
    /// Its title; one that was derived ends with a mark ([`derived_title`]).
    pub title: Option<Box<str>>,
    /// Its status.
    pub status: SessionStatus,
    /// The application's label.
    pub state: Option<Box<str>>,
    /// The application's data.
    pub metadata: RawJson,
    /// The time of the session's creation.
    pub created_at: Timestamp,
    /// The hash of an anonymous session's secret, if it has one.
    pub token: Option<SessionToken>,
    /// The data of the erasure; `None` for a session that was not erased.
    pub erased: Option<Erased>,
}

impl SessionRow {
    /// The hash of all columns. The head stores it, so that the head's MAC also authenticates this row.
    pub fn fingerprint(&self) -> [u8; 16] {
        let encode_optional = |text: Option<&str>| {
            text.map_or_else(|| b"0".to_vec(), |text| [b"1", text.as_bytes()].concat())
        };
        let identity = encode_optional(self.identity_id.as_ref().map(IdentityId::as_str));
        let parent = encode_optional(self.parent_session_id.as_ref().map(SessionId::as_str));
        let project = encode_optional(self.project_id.as_ref().map(ProjectId::as_str));
        let team = encode_optional(self.team_id.as_deref());
        let title = encode_optional(self.title.as_deref());
        let state = encode_optional(self.state.as_deref());
        let created_at = self.created_at.as_micros().to_be_bytes();
        let status = [self.status.code()];
        let token = self.token.map(|t| [b"t", t.0.as_slice()].concat());
        let erased = self.erased.map(|e| [b"e", e.encode().as_slice()].concat());
        let mut pieces: Vec<&[u8]> = vec![
            b"session row",
            self.tenant_id.as_str().as_bytes(),
            self.session_id.as_str().as_bytes(),
            &identity,
            &parent,
            &project,
            &team,
            &title,
            &status,
            &state,
            self.metadata.as_str().as_bytes(),
            &created_at,
        ];
        pieces.extend(token.as_deref());
        pieces.extend(erased.as_deref());
        fingerprint(&pieces)
    }

    /// The length in bytes of the labels and metadata that callers wrote.
    pub fn content_len(&self) -> usize {
        let labels = [&self.team_id, &self.title, &self.state];
        let labels = labels.into_iter().flatten().map(|l| l.len());
        labels.sum::<usize>() + self.metadata.as_str().len()
    }

    /// The row of this session after its erasure: the ids, without any content.
    pub fn tombstone(&self, erased: Erased) -> Self {
        Self {
            tenant_id: self.tenant_id.clone(),
            session_id: self.session_id.clone(),
            identity_id: None,
            parent_session_id: None,
            project_id: None,
            team_id: None,
            title: None,
            status: SessionStatus::Closed,
            state: None,
            metadata: RawJson::from_checked("{}"),
            created_at: self.created_at,
            token: None,
            erased: Some(erased),
        }
    }

    /// The session as callers see it: this row and fields of the head.
    #[must_use]
    pub fn with_head(self, head: &HeadRow) -> Session {
        let (title, title_is_derived) = read_title(self.title);
        Session {
            session_id: self.session_id,
            tenant_id: self.tenant_id,
            identity_id: self.identity_id,
            parent_session_id: self.parent_session_id,
            project_id: self.project_id,
            team_id: self.team_id,
            title,
            status: self.status,
            state: self.state,
            last_seq: head.last_seq,
            turn_count: head.turn_count,
            metadata: self.metadata,
            created_at: self.created_at,
            updated_at: head.updated_at,
            agents: Vec::new(),
            version: fingerprint(&[b"session version", &head.session]),
            title_is_derived,
        }
    }
}

impl Erased {
    /// Encodes the stored bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![crate::codec::FORMAT];
        out.time(self.at);
        out.extend_from_slice(&self.owner);
        out.number(self.items);
        out.number(self.turns);
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            Ok(Self {
                at: r.time()?,
                owner: r.array()?,
                items: r.number()?,
                turns: r.number()?,
            })
        })
    }
}

/// A session as stored, not yet verified.
#[derive(Debug, Clone)]
pub struct StoredSession {
    /// The session's number in the store.
    pub pk: SessionPk,
    /// The session's row.
    pub row: SessionRow,
    /// The session's head; `None` when it is missing or malformed.
    pub head: Option<HeadRow>,
    /// The time of the last activity by which lists find the session; equal to that of the head.
    pub updated_at: Timestamp,
}

/// The position of a session in lists: the time of its creation or of its last activity, and its number.
pub type SessionOrder = (Timestamp, SessionPk);

impl StoredSession {
    /// The time in [`Self::updated_at`] of a session without a valid one.
    pub const UNKNOWN_TIME: Timestamp = Timestamp::from_micros(-1);

    /// The session's position in lists of this order.
    pub const fn order(&self, sort: SessionSort) -> SessionOrder {
        let at = match sort {
            SessionSort::Created => self.row.created_at,
            SessionSort::Updated => self.updated_at,
        };
        (at, self.pk)
    }
}

/// The agents of sessions, by the sessions' numbers; `None` for a malformed row. A session without agents may be
/// absent.
pub type AgentsOf = BTreeMap<SessionPk, Vec<Option<AgentRow>>>;

/// The position of an event among the events of all sessions: the event's time, its session's number, and the event's
/// number in the session.
pub type EventPosition = (Timestamp, SessionPk, u64);

/// The total size of rows, in bytes, at which one read or one page ends. It limits the memory of a read and the size of
/// a response.
pub const RECORDS_BYTES: usize = 8 << 20;

/// Collects rows until their sizes reach [`RECORDS_BYTES`], plus one row. The additional row shows that another page
/// exists.
///
/// # Errors
/// Those of the rows.
pub fn collect_until_full<T>(
    rows: impl IntoIterator<Item = Result<T>>,
    len: impl Fn(&T) -> usize,
) -> Result<Vec<T>> {
    let (mut collected, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let (row, is_full) = (row?, bytes >= RECORDS_BYTES);
        bytes += len(&row);
        collected.push(row);
        if is_full {
            break;
        }
    }
    Ok(collected)
}

/// One consistent snapshot of a ledger. All methods return rows as stored, not yet verified.
///
/// Every method fails with `store_unavailable` (or another code of the backend) when the store does not answer.
pub trait View {
    /// The lanes of the store. A session's number determines its lane ([`Lanes::of_pk`]).
    fn lanes(&self) -> Lanes;
    /// The session `id` of `tenant` if `scope` may see it; without a scope, regardless of its owner. An erased session
    /// is returned for every scope.
    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<StoredSession>>;
    /// The session with number `pk`.
    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<StoredSession>>;
    /// The sessions that `scope` can list, newest first ([`StoredSession::order`]), that precede `before` in this order,
    /// at most `limit`; erased ones are left out. May return fewer, like [`collect_until_full`].
    fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        before: Option<SessionOrder>,
        limit: usize,
    ) -> Result<Vec<StoredSession>>;
    /// The turn of a session with this id.
    fn turn(&self, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>>;
    /// The session that has a turn with this id; slower than a query in one session.
    fn session_of_turn(&self, id: &TurnId) -> Result<Option<SessionPk>>;
    /// Turns of a session with `place` in `from..=to`, ascending or descending, at most `limit`.
    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>>;
    /// The number of a session's turn rows.
    fn turn_row_count(&self, pk: SessionPk) -> Result<u64>;
    /// Open turns whose last write was before `before`, oldest first, at most `limit`. Unreadable rows are logged and
    /// left out, so that the readable ones are still returned.
    fn idle_turns(&self, before: Timestamp, limit: usize) -> Result<Vec<(SessionPk, TurnRow)>>;
    /// The records from the one that contains `seq` on, ascending, at most `limit`. May return fewer, but at least one,
    /// once their bodies reach [`RECORDS_BYTES`].
    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>>;
    /// The last seq of the newest record; 0 when there is none.
    fn newest_seq(&self, pk: SessionPk) -> Result<u64>;
    /// The seq of the item with this id.
    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>>;
    /// The first seq of the turn that a request started. Only sessions with [`HeadRow::adopted`] store this; `None` in
    /// all others.
    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>>;
    /// The number of item keys and request keys of a session.
    fn item_key_count(&self, pk: SessionPk) -> Result<u64>;
    /// The agents by which each of these sessions is found, with at most one query per lane.
    fn agents(&self, pks: &[SessionPk]) -> Result<AgentsOf>;
    /// Rows of a lane's commit log numbered above `after`, ascending, at most `limit`.
    fn log(&self, lane: Lane, after: u64, limit: usize) -> Result<Vec<LogRow>>;
    /// As [`Self::log`], for several lanes at once, each with its own `after`.
    fn logs(&self, after: &[(Lane, u64)], limit: usize) -> Result<Vec<Vec<LogRow>>> {
        let rows = after
            .iter()
            .map(|(lane, after)| self.log(*lane, *after, limit));
        rows.collect()
    }
    /// The newest row of a lane's commit log.
    fn newest_log(&self, lane: Lane) -> Result<Option<LogRow>>;
    /// Calls `visit` with every session number in the store and its session, which is `None` when the session's row is
    /// missing or malformed.
    fn for_each_session(
        &self,
        visit: &mut dyn FnMut(SessionPk, Option<StoredSession>),
    ) -> Result<()>;
    /// Checks the structure of the store, such as whether an index lacks a row, and returns the errors. Scans the
    /// entire store.
    fn check_structure(&self) -> Result<Vec<String>>;
    /// The event of a session with this key.
    fn event(&self, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>>;
    /// The events of a session numbered above `after`, ascending, at most `limit`. May return fewer, like
    /// [`collect_until_full`].
    fn events(&self, pk: SessionPk, after: u64, limit: usize) -> Result<Vec<EventRow>>;
    /// The number of a session's newest event; 0 when there is none.
    fn newest_event(&self, pk: SessionPk) -> Result<u64>;
    /// Events of all sessions with a time in `from..to`, ordered by time, session and number, after `after`, at most
    /// `limit`. May return fewer, but at least one if there is one.
    fn events_at(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Vec<(SessionPk, EventRow)>>;
    /// The checkpoint of a session at this seq.
    fn checkpoint(&self, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>>;
    /// The seqs of a session's checkpoints, ascending.
    fn checkpoint_seqs(&self, pk: SessionPk) -> Result<Vec<u64>>;
    /// The note with this name.
    fn note(&self, name: &str) -> Result<Option<NoteRow>>;
    /// All notes; `None` for a malformed one.
    fn notes(&self) -> Result<Vec<Option<NoteRow>>>;
    /// The draft of the turn at this place.
    fn draft(&self, pk: SessionPk, place: u64) -> Result<Option<DraftRow>>;
    /// The drafts of a session's turns, ordered by place.
    fn drafts(&self, pk: SessionPk) -> Result<Vec<DraftRow>>;
    /// The chunks of a turn's draft numbered above `after`, ascending.
    fn draft_chunks(&self, pk: SessionPk, place: u64, after: u64) -> Result<Vec<DraftChunk>>;
    /// All drafts of the store: drafts of streams in progress, and drafts of recording processes that have exited.
    /// Unreadable rows are logged and left out.
    fn all_drafts(&self) -> Result<Vec<(SessionPk, DraftRow)>>;
    /// All session numbers that occur in any row.
    fn session_pks(&self) -> Result<Vec<SessionPk>>;
    /// The first seq of a session's stored items: 1 unless the oldest turns were trimmed.
    fn first_seq(&self, pk: SessionPk) -> Result<u64> {
        let _ = pk;
        Ok(1)
    }
    /// The first ordinal of a session's stored turns: 1 unless the oldest turns were trimmed.
    fn first_ordinal(&self, pk: SessionPk) -> Result<u64> {
        let _ = pk;
        Ok(1)
    }
    /// The write that started the turn of a session whose first item has this seq, if the backend has kept it.
    fn started_turn(&self, pk: SessionPk, first_seq: u64) -> Option<Arc<StartedTurn>> {
        let _ = (pk, first_seq);
        None
    }
    /// Whether rows can expire or be trimmed, so that an absent row may have existed before. `true` only for a hot
    /// store.
    fn can_expire(&self) -> bool {
        false
    }
}

/// A write that started a turn.
#[derive(Debug, Clone)]
pub struct StartedTurn {
    /// The write.
    pub start: Arc<Start>,
    /// The turn.
    pub turn_id: TurnId,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The time of the commit.
    pub created_at: Timestamp,
}

/// A write transaction.
pub trait Tx: View {
    /// Offers a write that has started a turn to the backend. A backend that keeps it for [`View::started_turn`] spares
    /// the turn's later writes from reading its first items; it must forget it when another process may have changed
    /// the session, and when the session is redacted or erased.
    fn keep_started_turn(&mut self, pk: SessionPk, turn: StartedTurn) {
        let _ = (pk, turn);
    }
    /// Inserts a session; returns its number, the next one of the session's lane.
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk>;
    /// Writes a session's head.
    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<()>;
    /// Inserts a turn.
    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()>;
    /// Updates an existing turn.
    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<()>;
    /// Inserts a record.
    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()>;
    /// Updates an existing record. Only a redaction does this; records are otherwise immutable.
    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<()>;
    /// Inserts an item's key, by which the item's seq is found.
    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<()>;
    /// Inserts a request's key, by which its turn is found in an adopted session whose turn ids this installation did
    /// not derive.
    fn insert_request_key(&mut self, pk: SessionPk, id: &RequestId, seq: u64) -> Result<()>;
    /// Updates a session's existing row.
    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<()>;
    /// Records that an agent has spoken in a session, if this is not recorded yet. Queries find sessions by their
    /// agents. The backend signs the row ([`AgentRow::sealed`]), so that it can spare this for an agent that it knows
    /// to be recorded.
    fn insert_agent(&mut self, pk: SessionPk, agent: &str, keyring: &Keyring) -> Result<()>;
    /// Inserts an event.
    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<()>;
    /// Inserts or replaces the checkpoint at its seq.
    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<()>;
    /// Deletes the checkpoint at this seq.
    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<()>;
    /// Writes a note.
    fn put_note(&mut self, row: &NoteRow) -> Result<()>;
    /// Deletes all records, keys, turns, drafts, events, checkpoints and agents of a session; keeps its row and head.
    fn erase(&mut self, pk: SessionPk) -> Result<()>;
    /// Inserts or replaces the draft of a turn.
    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<()>;
    /// Inserts a chunk of a turn's draft.
    fn insert_draft_chunk(&mut self, pk: SessionPk, place: u64, chunk: &DraftChunk) -> Result<()>;
    /// Deletes all chunks of a turn's draft.
    fn clear_draft_chunks(&mut self, pk: SessionPk, place: u64) -> Result<()>;
    /// Deletes the draft of a turn and its chunks.
    fn delete_draft(&mut self, pk: SessionPk, place: u64) -> Result<()>;
    /// Inserts a row of the commit log.
    fn insert_log(&mut self, row: &LogRow) -> Result<()>;
}
