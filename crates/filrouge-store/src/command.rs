//! What a ledger is asked to write and how it answers (DESIGN §4).

use std::sync::Arc;

use filrouge_types::{
    Checkpoint, IdentityId, JsonText, ProjectId, RawJson, RequestId, SessionId, SessionStatus,
    TenantId, Timestamp, Turn, TurnId, TurnStatus,
};

use serde::{Deserialize, Serialize};

use crate::draft::{Delta, StreamId};
use crate::record::{Batch, ChainedItem, Entry, Seqs, StartEvent};
use crate::rows::{HeadLease, SessionRow};

mod codec;
mod filter;
mod lease;
mod outcome;
mod session;
mod shared;

pub use lease::{Acquire, Hold, LeaseAsk, PutCheckpoint, TakeLease};
pub use outcome::{Outcome, Put};
pub use session::{
    CloseSession, Erase, Erased, Link, NewEvent, Patch, PutNote, SessionPatch, SessionToken,
};

/// On whose behalf something is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Viewer {
    /// An end user: sees what is theirs and what is nobody's; `None` is an anonymous one.
    EndUser(Option<IdentityId>),
    /// Who runs the store: sees the whole tenant.
    Operator,
}

impl Viewer {
    /// The identity, if there is one.
    #[must_use]
    pub const fn identity(&self) -> Option<&IdentityId> {
        match self {
            Self::EndUser(id) => id.as_ref(),
            Self::Operator => None,
        }
    }
}

/// Tenant and viewer: part of every question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantId,
    /// The viewer.
    pub viewer: Viewer,
    /// The secret of an anonymous session that the caller has shown, hashed.
    pub token: Option<SessionToken>,
    /// The lease that the caller holds the session by.
    pub hold: Option<Hold>,
}

impl Scope {
    /// A scope without a session's secret.
    #[must_use]
    pub const fn new(tenant: TenantId, viewer: Viewer) -> Self {
        Self {
            tenant,
            viewer,
            token: None,
            hold: None,
        }
    }

    /// The same scope for writes of who holds the session.
    #[must_use]
    pub const fn with_hold(mut self, hold: Option<Hold>) -> Self {
        self.hold = hold;
        self
    }

    /// Whether a session of this tenant is theirs to see (P6): one's own, or nobody's; nobody's with a secret is
    /// for those who know it (DESIGN §7).
    #[must_use]
    pub fn sees(&self, session: &SessionRow) -> bool {
        match (&self.viewer, &session.identity_id) {
            (Viewer::Operator, _) => true,
            (Viewer::EndUser(_), None) => session.token.is_none() || session.token == self.token,
            (Viewer::EndUser(viewer), Some(owner)) => viewer.as_ref() == Some(owner),
        }
    }

    /// Whether lists show the session: a user's own ones, and to who is nobody the ones of nobody.
    #[must_use]
    pub fn lists(&self, session: &SessionRow) -> bool {
        match &self.viewer {
            Viewer::Operator => true,
            Viewer::EndUser(Some(viewer)) => session.identity_id.as_ref() == Some(viewer),
            Viewer::EndUser(None) => session.identity_id.is_none() && session.token == self.token,
        }
    }
}

/// A session to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id.
    pub session_id: SessionId,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team.
    pub team_id: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// The application's data, a JSON object.
    pub metadata: RawJson,
}

impl NewSession {
    /// A session with nothing but its id, as starting a turn makes it.
    #[must_use]
    pub fn bare(session_id: SessionId) -> Self {
        Self {
            session_id,
            parent_session_id: None,
            project_id: None,
            team_id: None,
            title: None,
            metadata: RawJson::from_checked("{}"),
        }
    }
}

/// Which sessions a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only of this project.
    pub project_id: Option<ProjectId>,
    /// Only of this team.
    pub team_id: Option<Box<str>>,
    /// Only of this owner.
    pub identity_id: Option<IdentityId>,
    /// Only with this status.
    pub status: Option<SessionStatus>,
    /// Made at or after.
    pub since: Option<Timestamp>,
    /// Made before.
    pub until: Option<Timestamp>,
    /// Only those that this session has started.
    pub parent_session_id: Option<SessionId>,
    /// Only those with an item by this agent.
    pub agent: Option<Box<str>>,
    /// Only those whose title holds this text, letters of ASCII in either case.
    pub title: Option<Box<str>>,
}

filrouge_types::words!(
    /// Whether a session may have several open turns (DESIGN §4.6).
    #[derive(Default, Serialize, Deserialize)]
    pub enum ConcurrentTurns: "policy of open turns" {
        /// It may.
        #[default]
        Allow => "allow",
        /// A start is refused while a turn is open.
        Reject => "reject",
    }
);

/// Starts a turn, or a whole one in one commit when the batch closes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// The session to make when there is none.
    pub session: NewSession,
    /// The turn's header; its fingerprint tells retries apart.
    pub event: StartEvent,
    /// The turn's first items; the first carries the start, the last may carry a close.
    pub batch: Batch,
    /// Where the batch leaves the turn: open, or as the event on its last item says.
    pub status: TurnStatus,
    /// Whether an interrupted turn with this key is opened again; not when a history is brought in.
    pub reopen: bool,
    /// The policy for open turns.
    pub concurrent_turns: ConcurrentTurns,
}

/// Appends items to an open turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Append {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The items.
    pub batch: Batch,
    /// The seq the session must stand at.
    pub expected_seq: Option<u64>,
    /// What becomes of the draft that the items come from.
    #[serde(skip)]
    pub progress: Option<Progress>,
}

/// What is left of a draft once some of it has become items.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The recording.
    pub stream: StreamId,
    /// The number of the chunk that holds what is left.
    pub number: u64,
    /// What is left, whole.
    pub rest: Vec<Delta>,
    /// Whether the recording is over: the draft goes.
    pub over: bool,
}

/// Adds to the draft of an open turn; the sign of life of who records it (DESIGN §4).
#[derive(Debug, Clone)]
pub struct PutDraft {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: StreamId,
    /// Whether the recording begins with it: no other may be under way.
    pub begins: bool,
    /// The process that records.
    pub writer: Box<str>,
    /// The number of the chunk; one that is there already is not added again.
    pub number: u64,
    /// What has come; with nothing it is a sign of life alone.
    pub deltas: Vec<Delta>,
}

/// How a turn is to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Ending {
    /// With an answer; without one, the final item it has is promoted.
    Finalize {
        /// The neutral answer.
        neutral: Option<JsonText>,
        /// The translated answer.
        translated: Option<JsonText>,
        /// What the caller says of `translated`.
        fallback: Option<bool>,
    },
    /// With an error: the entries are what was shown, then the error.
    Fail(Vec<Entry>),
    /// By the user: the entries are what was shown, then the cancellation.
    Cancel(Vec<Entry>),
    /// With the answer that a stream has brought: the entries are its last items, among them the final one.
    Recorded(Vec<Entry>),
}

impl Ending {
    /// What the caller gives as items.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match self {
            Self::Finalize { .. } => &[],
            Self::Fail(entries) | Self::Cancel(entries) | Self::Recorded(entries) => entries,
        }
    }
}

/// Ends a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Close {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// Must be the turn's, when given.
    pub request_id: Option<RequestId>,
    /// How.
    pub ending: Ending,
    /// Merged over the turn's metadata.
    pub metadata: Option<RawJson>,
    /// Of the request's body.
    #[serde(with = "crate::hex")]
    pub fingerprint: [u8; 16],
    /// The recording that ends the turn and has given what was shown; without one, what the draft shows is kept.
    #[serde(skip)]
    pub stream: Option<StreamId>,
}

/// Later than any sign of life: whoever interrupts knows that nobody works at the turn, however long it was silent.
pub const SINCE_EVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// Marks a turn whose owner is gone, if it was not touched since `before` (DESIGN §4.5); what its draft shows is kept.
#[derive(Debug, Clone)]
pub struct Interrupt {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// Silence since this moment: of the turn, and of who records it. With [`SINCE_EVER`] whoever holds the session says
    /// that nobody works at the turn.
    pub before: Timestamp,
    /// The recording that is known to be over: how long the turn was silent does not matter then.
    pub stream: Option<StreamId>,
}

/// What is to be redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A turn that has ended, with all it replaced and all that replaces it.
    Turn(TurnId),
    /// Items, also of an open turn; at most [`crate::rules::TURN_ITEMS_MAX`].
    Items(Seqs),
}

/// Erases contents and leaves an item that tells of it (DESIGN §9).
#[derive(Debug, Clone)]
pub struct Redact {
    /// The session.
    pub session_id: SessionId,
    /// What.
    pub target: Target,
    /// Why; stays in the journal.
    pub reason: Box<str>,
    /// By whom; stays in the journal.
    pub by: Box<str>,
}

/// Takes in a session that was recorded elsewhere, whole, with its chain as it is.
#[derive(Debug, Clone)]
pub struct Adopt {
    /// The session; its tenant must be the scope's.
    pub session: SessionRow,
    /// When a turn of it last began or ended.
    pub updated_at: Timestamp,
    /// All its items, in order.
    pub items: Vec<ChainedItem>,
    /// What lies beside them.
    pub beside: Beside,
}

/// What lies beside a session's journal and comes with it from the hot store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// The newest lease.
    pub lease: HeadLease,
    /// The checkpoints, by ascending seqs.
    pub checkpoints: Vec<Checkpoint>,
}

/// What a redaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The seqs that were asked for.
    pub seqs: Seqs,
    /// The seq of the item that tells of it; when it repeats an earlier answer, of the newest one that does.
    pub redaction_seq: u64,
    /// The store's time of that item.
    pub at: Timestamp,
    /// Whether everything was redacted before.
    pub replayed: bool,
    /// The turn as it stands now, when one was asked for.
    pub turn: Option<Box<Turn>>,
    /// What the write has put; nothing when it repeats an earlier one.
    pub put: Option<Put>,
}

/// A write. What carries items or drafts is shared, so that whoever may have to repeat a write keeps it without a copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Write {
    /// Makes a session.
    #[serde(skip)]
    CreateSession(NewSession),
    /// Starts a turn.
    Start(#[serde(with = "shared")] Arc<Start>),
    /// Appends items.
    Append(#[serde(with = "shared")] Arc<Append>),
    /// Ends a turn.
    Close(#[serde(with = "shared")] Arc<Close>),
    /// Marks a turn as interrupted.
    #[serde(skip)]
    Interrupt(Interrupt),
    /// Erases contents.
    #[serde(skip)]
    Redact(Redact),
    /// Takes in a session from elsewhere.
    #[serde(skip)]
    Adopt(Arc<Adopt>),
    /// Changes what is listed of a session.
    #[serde(skip)]
    Patch(Box<Patch>),
    /// Ends a session.
    #[serde(skip)]
    CloseSession(CloseSession),
    /// Gives an anonymous session its owner.
    #[serde(skip)]
    Link(Link),
    /// Erases a session.
    #[serde(skip)]
    Erase(Erase),
    /// Records an event of a session.
    RecordEvent(Box<NewEvent>),
    /// Puts a note.
    #[serde(skip)]
    PutNote(PutNote),
    /// Adds to a draft.
    #[serde(skip)]
    PutDraft(Arc<PutDraft>),
    /// Takes, renews or releases the lease of a session.
    Lease(Box<TakeLease>),
    /// Puts a checkpoint.
    PutCheckpoint(Box<PutCheckpoint>),
}

impl Write {
    /// The session it is about; a note is about none.
    #[must_use]
    pub fn session_id(&self) -> Option<&SessionId> {
        Some(match self {
            Self::CreateSession(new) => &new.session_id,
            Self::Start(start) => &start.session.session_id,
            Self::Append(append) => &append.session_id,
            Self::Close(close) => &close.session_id,
            Self::Interrupt(interrupt) => &interrupt.session_id,
            Self::Redact(redact) => &redact.session_id,
            Self::Adopt(adopt) => &adopt.session.session_id,
            Self::Patch(patch) => &patch.session_id,
            Self::CloseSession(close) => &close.session_id,
            Self::Link(link) => &link.session_id,
            Self::Erase(erase) => &erase.session_id,
            Self::RecordEvent(event) => &event.session_id,
            Self::PutDraft(draft) => &draft.session_id,
            Self::Lease(lease) => &lease.session_id,
            Self::PutCheckpoint(put) => &put.session_id,
            Self::PutNote(_) => return None,
        })
    }
}

impl Write {
    /// Whether it takes contents away, or the session from who saw it.
    #[must_use]
    pub const fn takes_away(&self) -> bool {
        matches!(self, Self::Redact(_) | Self::Erase(_) | Self::Link(_))
    }

    /// About how many bytes it adds to the store: for bounding what is written in one transaction.
    #[must_use]
    pub fn content_len(&self) -> usize {
        let entries = |entries: &[Entry]| entries.iter().map(|e| e.item.parts.as_str().len()).sum();
        match self {
            Self::Start(start) => start.batch.stored_len(),
            Self::Append(append) => append.batch.stored_len(),
            Self::Close(close) => match &close.ending {
                Ending::Finalize {
                    neutral,
                    translated,
                    ..
                } => [neutral, translated]
                    .into_iter()
                    .flatten()
                    .map(|t| t.as_token().len())
                    .sum(),
                ending => entries(ending.entries()),
            },
            Self::Adopt(adopt) => {
                let items = adopt.items.iter();
                items.map(|i| i.item.body.parts.as_str().len()).sum()
            }
            Self::PutCheckpoint(put) => put.state.as_str().len(),
            _ => 0,
        }
    }
}

/// A write with the scope it is asked in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Command {
    /// Tenant and viewer.
    pub scope: Scope,
    /// The write.
    pub write: Write,
}
