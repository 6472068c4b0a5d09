//! The rows a ledger keeps, and the two traits a backend implements over them (docs/format.md).

use filrouge_types::{
    EventKey, Failure, IdentityId, ItemId, ProjectId, RawJson, RequestId, Session, SessionId,
    SessionStatus, TenantId, Timestamp, TurnId,
};

use crate::chain::fingerprint;
use crate::codec::{Malformed, Reader, Write};
use crate::command::{Erased, Scope, SessionFilter, SessionToken};
use crate::record::RecordRow;

mod checkpoint;
mod draft;
mod event;
mod head;
mod key;
mod log;
mod note;
mod piece;
#[cfg(test)]
mod tests;
mod turn;

pub use checkpoint::CheckpointRow;
pub use draft::{DraftChunk, DraftRow};
pub use event::EventRow;
pub use head::{HeadCheckpoints, HeadLease, HeadRow};
pub use key::{KeyRow, event_key, item_key, request_key};
pub use log::{Change, LogEntry, LogRow};
pub use note::{NOTE_MAX, NoteRow};
pub(crate) use piece::Piece;
pub use turn::TurnRow;

/// A session's number in one store; never leaves the store.
pub type SessionPk = u64;

/// Highest session number, item seq, ordinal and version that the packed keys can hold.
pub const PK_MAX: u64 = (1 << 31) - 1;
/// Highest seq in a session.
pub const SEQ_MAX: u64 = (1 << 32) - 1;
/// Highest ordinal in a session.
pub const ORDINAL_MAX: u64 = (1 << 24) - 1;
/// Highest record version of a turn.
pub const VERSION_MAX: u64 = 1 << 8;

/// What is listed and seldom changes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its id.
    pub session_id: SessionId,
    /// Its owner.
    pub identity_id: Option<IdentityId>,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team.
    pub team_id: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// Whether it goes on.
    pub status: SessionStatus,
    /// The application's label.
    pub state: Option<Box<str>>,
    /// The application's data.
    pub metadata: RawJson,
    /// When it was made.
    pub created_at: Timestamp,
    /// The secret of an anonymous session, hashed.
    pub token: Option<SessionToken>,
    /// What stays of it once it was erased.
    pub erased: Option<Erased>,
}

impl SessionRow {
    /// What the head row vouches for: a hash of all columns.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 16] {
        let optional = |text: Option<&str>| match text {
            Some(text) => [b"1", text.as_bytes()].concat(),
            None => b"0".to_vec(),
        };
        let identity = optional(self.identity_id.as_ref().map(IdentityId::as_str));
        let parent = optional(self.parent_session_id.as_ref().map(SessionId::as_str));
        let project = optional(self.project_id.as_ref().map(ProjectId::as_str));
        let team = optional(self.team_id.as_deref());
        let title = optional(self.title.as_deref());
        let state = optional(self.state.as_deref());
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

    /// The bytes of what callers wrote in it: its labels and metadata.
    #[must_use]
    pub fn content_len(&self) -> usize {
        let labels = [&self.team_id, &self.title, &self.state];
        let labels = labels.into_iter().flatten().map(|l| l.len());
        labels.sum::<usize>() + self.metadata.as_str().len()
    }

    /// The row that stays of an erased session: its name and nothing that was said about it.
    #[must_use]
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

    /// The public record, with what the head adds.
    #[must_use]
    pub fn with_head(self, head: &HeadRow) -> Session {
        Session {
            session_id: self.session_id,
            tenant_id: self.tenant_id,
            identity_id: self.identity_id,
            parent_session_id: self.parent_session_id,
            project_id: self.project_id,
            team_id: self.team_id,
            title: self.title,
            status: self.status,
            state: self.state,
            last_seq: head.last_seq,
            turn_count: head.turn_count,
            metadata: self.metadata,
            created_at: self.created_at,
            updated_at: head.updated_at,
            version: fingerprint(&[b"session version", &head.session]),
        }
    }
}

impl Erased {
    /// The stored bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![crate::record::FORMAT];
        out.time(self.at);
        out.extend_from_slice(&self.owner);
        out.number(self.items);
        out.number(self.turns);
        out
    }

    /// Reads stored bytes; `None` when they are malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        let mut read = || {
            if r.byte()? != crate::record::FORMAT {
                return Err(Malformed);
            }
            let erased = Self {
                at: r.time()?,
                owner: r.array()?,
                items: r.number()?,
                turns: r.number()?,
            };
            if r.is_empty() {
                Ok(erased)
            } else {
                Err(Malformed)
            }
        };
        read().ok()
    }
}

/// A session as a view finds it.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its number.
    pub pk: SessionPk,
    /// Its row.
    pub row: SessionRow,
    /// Its head; `None` when the head is missing or malformed.
    pub head: Option<HeadRow>,
}

/// The place of an event among those of all sessions: when it happened, its session, its number.
pub type EventPlace = (Timestamp, SessionPk, u64);

/// How many bytes of rows are read at once, and how many a page has before it ends: bounds memory and answers.
pub const RECORDS_BYTES: usize = 8 << 20;

/// Rows up to and with the first behind those that have [`RECORDS_BYTES`]: enough for a page that ends there and
/// for knowing that there is another one.
///
/// # Errors
/// Those of the rows.
pub fn until_full<T>(
    rows: impl IntoIterator<Item = Result<T, Failure>>,
    len: impl Fn(&T) -> usize,
) -> Result<Vec<T>, Failure> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let (row, full) = (row?, bytes >= RECORDS_BYTES);
        bytes += len(&row);
        found.push(row);
        if full {
            break;
        }
    }
    Ok(found)
}

/// One consistent sight of a ledger. All answers are rows as stored, not yet verified.
///
/// Every method fails with `store_unavailable` (or another code of the backend) when the store does not answer.
pub trait View {
    /// The session `id` of `tenant`, if `scope` sees it; without a scope, whoever owns it. One that was erased
    /// is there for everybody.
    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<Stored>, Failure>;
    /// The session with number `pk`.
    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<Stored>, Failure>;
    /// The sessions that `scope` lists, newest first, below `before`, at most `limit`; none that was erased.
    /// It may stop earlier, as [`until_full`] does.
    fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        before: Option<SessionPk>,
        limit: usize,
    ) -> Result<Vec<Stored>, Failure>;
    /// The turn of a session with this id.
    fn turn(&self, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>, Failure>;
    /// The session that has a turn with this id, whichever it is; slower than looking in one.
    fn session_of_turn(&self, id: &TurnId) -> Result<Option<SessionPk>, Failure>;
    /// Turns of a session with `place` in `from..=to`, ascending or descending, at most `limit`.
    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>, Failure>;
    /// How many turn rows a session has.
    fn turn_rows(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// Open turns not touched since `before`, oldest first, at most `limit`; rows that cannot be read are told in
    /// the log and left out, so that one does not keep the others from being looked at.
    fn silent_turns(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionPk, TurnRow)>, Failure>;
    /// The records from the one that holds `seq` on, ascending, at most `limit`.
    /// It may stop earlier, though not before the first, once their bodies have [`RECORDS_BYTES`].
    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>, Failure>;
    /// The last seq of the newest record; 0 when there is none.
    fn newest_seq(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// The seq of the item with this key.
    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>, Failure>;
    /// The seq that the turn of a request begins at, in a session that was taken in from elsewhere.
    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>, Failure>;
    /// The number of item keys and request keys of a session.
    fn item_keys(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// The item keys and request keys of a session above `after`, ascending, at most `limit`.
    fn key_rows(
        &self,
        pk: SessionPk,
        after: Option<[u8; 16]>,
        limit: usize,
    ) -> Result<Vec<KeyRow>, Failure>;
    /// The agents noted in a session, in the order of their bytes.
    fn agents(&self, pk: SessionPk) -> Result<Vec<Box<str>>, Failure>;
    /// Commit log rows after `commit_no`, ascending, at most `limit`.
    fn log(&self, after: u64, limit: usize) -> Result<Vec<LogRow>, Failure>;
    /// The newest row of the commit log.
    fn newest_log(&self) -> Result<Option<LogRow>, Failure>;
    /// Shows every session number in the store, with the session where its row can be read: for a session
    /// without a row (or with a malformed one) `None`.
    fn each_session(&self, see: &mut dyn FnMut(SessionPk, Option<Stored>)) -> Result<(), Failure>;
    /// What the backend itself finds wrong with its structure, such as an index that has lost a row; looks at
    /// everything.
    fn structure(&self) -> Result<Vec<String>, Failure>;
    /// The event of a session with this key.
    fn event(&self, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>, Failure>;
    /// The events of a session numbered above `after`, ascending, at most `limit`.
    /// It may stop earlier, as [`until_full`] does.
    fn events(&self, pk: SessionPk, after: u64, limit: usize) -> Result<Vec<EventRow>, Failure>;
    /// The number of a session's newest event; 0 when there is none.
    fn newest_event(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// Events of all sessions that happened in `from..to`, by when, session and number, behind `after`, at most `limit`.
    /// It may stop earlier, as [`until_full`] does.
    fn events_at(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<EventPlace>,
        limit: usize,
    ) -> Result<Vec<(SessionPk, EventRow)>, Failure>;
    /// The checkpoint of a session at this seq.
    fn checkpoint(&self, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>, Failure>;
    /// The seqs that a session has checkpoints at, ascending.
    fn checkpoint_seqs(&self, pk: SessionPk) -> Result<Vec<u64>, Failure>;
    /// The note with this name.
    fn note(&self, name: &str) -> Result<Option<NoteRow>, Failure>;
    /// All notes; `None` for one that is malformed.
    fn notes(&self) -> Result<Vec<Option<NoteRow>>, Failure>;
    /// The draft of the turn at this place.
    fn draft(&self, pk: SessionPk, place: u64) -> Result<Option<DraftRow>, Failure>;
    /// The drafts of a session's turns, by their places.
    fn drafts(&self, pk: SessionPk) -> Result<Vec<DraftRow>, Failure>;
    /// The chunks of a turn's draft numbered above `after`, ascending.
    fn draft_chunks(
        &self,
        pk: SessionPk,
        place: u64,
        after: u64,
    ) -> Result<Vec<DraftChunk>, Failure>;
    /// All drafts of the store: as many as streams are being recorded, and those whose writers are gone. Rows that
    /// cannot be read are told in the log and left out.
    fn all_drafts(&self) -> Result<Vec<(SessionPk, DraftRow)>, Failure>;
    /// All session numbers that any row belongs to.
    fn session_pks(&self) -> Result<Vec<SessionPk>, Failure>;
    /// The seq that a session's items begin at: 1, but where the oldest turns were let go.
    fn first_seq(&self, pk: SessionPk) -> Result<u64, Failure> {
        let _ = pk;
        Ok(1)
    }
    /// The ordinal that a session's turns begin at: 1, but where the oldest turns were let go.
    fn first_ordinal(&self, pk: SessionPk) -> Result<u64, Failure> {
        let _ = pk;
        Ok(1)
    }
    /// Whether what is absent may have been here and was let go.
    fn forgets(&self) -> bool {
        false
    }
}

/// A transaction that writes.
pub trait Tx: View {
    /// Adds a session and gives it a number.
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk, Failure>;
    /// Writes a session's head.
    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<(), Failure>;
    /// Adds a turn.
    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure>;
    /// Writes a turn that is there.
    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure>;
    /// Adds a record.
    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure>;
    /// Writes a record that is there: the one exception to records never being changed, for redaction alone.
    fn update_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure>;
    /// Adds an item's key.
    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<(), Failure>;
    /// Adds a request's key, in a session that was taken in from elsewhere: its turn ids are not derived here.
    fn insert_request_key(
        &mut self,
        pk: SessionPk,
        id: &RequestId,
        seq: u64,
    ) -> Result<(), Failure>;
    /// Writes a session's row that is there.
    fn update_session(&mut self, pk: SessionPk, row: &SessionRow) -> Result<(), Failure>;
    /// Notes that an agent has spoken in a session: derived, for finding sessions.
    fn note_agent(&mut self, pk: SessionPk, agent: &str) -> Result<(), Failure>;
    /// Adds an event.
    fn insert_event(&mut self, pk: SessionPk, row: &EventRow) -> Result<(), Failure>;
    /// Writes a checkpoint, with or without one being there at its seq.
    fn put_checkpoint(&mut self, pk: SessionPk, row: &CheckpointRow) -> Result<(), Failure>;
    /// Takes the checkpoint at this seq away.
    fn delete_checkpoint(&mut self, pk: SessionPk, seq: u64) -> Result<(), Failure>;
    /// Writes a note.
    fn put_note(&mut self, row: &NoteRow) -> Result<(), Failure>;
    /// Takes away all records, keys, turns, drafts, events, checkpoints and agents of a session; its row and head stay.
    fn erase(&mut self, pk: SessionPk) -> Result<(), Failure>;
    /// Writes the draft of a turn, with or without one being there.
    fn put_draft(&mut self, pk: SessionPk, row: &DraftRow) -> Result<(), Failure>;
    /// Adds a chunk to a turn's draft.
    fn insert_draft_chunk(
        &mut self,
        pk: SessionPk,
        place: u64,
        chunk: &DraftChunk,
    ) -> Result<(), Failure>;
    /// Takes all chunks of a turn's draft away.
    fn clear_draft_chunks(&mut self, pk: SessionPk, place: u64) -> Result<(), Failure>;
    /// Takes the draft of a turn away, with its chunks.
    fn delete_draft(&mut self, pk: SessionPk, place: u64) -> Result<(), Failure>;
    /// Adds a row to the commit log.
    fn insert_log(&mut self, row: &LogRow) -> Result<(), Failure>;
}
