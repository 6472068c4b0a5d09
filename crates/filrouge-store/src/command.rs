//! The commands that write to a ledger (DESIGN §4).

use std::sync::Arc;

use filrouge_types::{Checkpoint, SessionId, Timestamp, Turn, TurnId, TurnStatus};
use serde::{Deserialize, Serialize};

use crate::draft::{Delta, StreamId};
use crate::record::{Batch, ChainedItem, Entry, Seqs, StartEvent};
use crate::rows::{HeadLease, SessionRow};

mod close;
mod codec;
mod filter;
mod lease;
mod outcome;
mod scope;
mod session;
mod shared;

pub use close::{Close, Ending};
pub use filter::{SessionFilter, SessionSort, matches_pattern};
pub use lease::{Acquire, FencingToken, LeaseCommand, LeaseRequest, PutCheckpoint};
pub use outcome::{Outcome, WrittenRange};
pub use scope::{Scope, SlotCaller, Viewer};
pub use session::{
    CloseSession, Erase, Erased, Link, NewEvent, NewSession, Patch, PutNote, SessionPatch,
    SessionToken,
};

filrouge_types::words!(
    /// Whether a session may have several open turns (DESIGN §4.6).
    #[derive(Default, Serialize, Deserialize)]
    pub enum ConcurrentTurns: "policy of open turns" {
        /// Several turns may be open.
        #[default]
        Allow => "allow",
        /// A start is refused while a turn is open.
        Reject => "reject",
    }
);

/// Starts a turn, or writes a complete one in one commit when the batch closes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// The session to create if it does not exist.
    pub session: NewSession,
    /// The turn's header; its fingerprint identifies retries.
    pub event: StartEvent,
    /// The turn's first items. The first one carries the start event; the last one may carry a close event.
    pub batch: Batch,
    /// The turn's status after the batch: open, or the status in the close event of its last item.
    pub status: TurnStatus,
    /// Whether this write reopens an interrupted turn that the same request id has started. `false` when a history is
    /// imported.
    pub reopen: bool,
    /// The policy for open turns.
    pub concurrent_turns: ConcurrentTurns,
    /// The values of the application's label ([`filrouge_types::Session::state`]) with which a session gets no new turn.
    pub terminal: Vec<Box<str>>,
    /// The session's newest seq that the caller expects, 0 for a new session; `None` allows any.
    pub expected_seq: Option<u64>,
}

/// Appends items to an open turn, or late items to an interrupted or closed one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Append {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The items.
    pub batch: Batch,
    /// The session's newest seq that the caller expects; `None` allows any.
    pub expected_seq: Option<u64>,
    /// The part of the draft that the items do not replace; `None` if the items do not come from a recording.
    #[serde(skip)]
    pub progress: Option<DraftProgress>,
}

/// The remainder of a draft after some of it has become items.
#[derive(Debug, Clone)]
pub struct DraftProgress {
    /// The recording.
    pub stream: StreamId,
    /// The number of the chunk that stores the remainder.
    pub number: u64,
    /// The deltas of the remainder.
    pub remainder: Vec<Delta>,
    /// Whether the recording has ended; if so, the draft is deleted.
    pub has_ended: bool,
}

/// Adds text to the draft of an open turn. It is also the heartbeat of the recording (DESIGN §4).
#[derive(Debug, Clone)]
pub struct PutDraft {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: StreamId,
    /// Whether this chunk starts the recording; refused while another recording of the turn is in progress.
    pub starts_recording: bool,
    /// The name of the process that records ([`crate::Ledger::writer`]).
    pub writer: Box<str>,
    /// The number of the chunk; a chunk with a stored number is not added again.
    pub number: u64,
    /// The new deltas; empty for a heartbeat without text.
    pub deltas: Vec<Delta>,
}

/// A time after every heartbeat: a value of [`Interrupt::before`] for a caller that knows that the turn is abandoned,
/// even if the newest heartbeat is recent.
pub const AFTER_ANY_HEARTBEAT: Timestamp = Timestamp::from_micros(i64::MAX);

/// Interrupts an abandoned turn: one without a write or a heartbeat since `before` (DESIGN §4.5). The text of its draft
/// becomes items. A turn that is not abandoned stays open, which is not a failure.
#[derive(Debug, Clone)]
pub struct Interrupt {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The turn and its recorder must have had no write and no heartbeat since this time. With [`AFTER_ANY_HEARTBEAT`]
    /// the session's holder declares that the turn is abandoned.
    pub before: Timestamp,
    /// A recording that has certainly ended. If given, the turn's draft must be of this recording, and the time of the
    /// turn's last write is ignored.
    pub stream: Option<StreamId>,
}

/// The target of a redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedactionTarget {
    /// A turn that has ended, together with the versions that it replaced and those that replaced it.
    Turn(TurnId),
    /// Items of any turn, even of an open one; at most [`crate::rules::TURN_ITEMS_MAX`].
    Items(Seqs),
}

/// Redacts: erases contents and adds an item that records the redaction (DESIGN §9).
#[derive(Debug, Clone)]
pub struct Redact {
    /// The session.
    pub session_id: SessionId,
    /// The target.
    pub target: RedactionTarget,
    /// The reason; it remains in the ledger.
    pub reason: Box<str>,
    /// The person or program that redacts; it remains in the ledger.
    pub by: Box<str>,
}

/// Adopts a complete session that was recorded elsewhere, with its chain unchanged.
#[derive(Debug, Clone)]
pub struct Adopt {
    /// The session; its tenant must be the scope's.
    pub session: SessionRow,
    /// The time at which one of its turns last began or ended.
    pub updated_at: Timestamp,
    /// All its items, in order.
    pub items: Vec<ChainedItem>,
    /// The session's lease and checkpoints.
    pub side_rows: SideRows,
}

/// A session's lease and checkpoints. They are adopted with the items when an ephemeral session moves to the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideRows {
    /// The newest lease.
    pub lease: HeadLease,
    /// The checkpoints, by ascending seqs.
    pub checkpoints: Vec<Checkpoint>,
}

/// The outcome of a redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The requested seqs.
    pub seqs: Seqs,
    /// The seq of the item that records the redaction; for a replay, that of the newest such item.
    pub redaction_seq: u64,
    /// The time of that item, by the store's clock.
    pub at: Timestamp,
    /// Whether all requested items were redacted before this write.
    pub replayed: bool,
    /// The turn's current state, if a turn was the target.
    pub turn: Option<Box<Turn>>,
    /// The items that the write added; `None` for a replay.
    pub written: Option<WrittenRange>,
}

/// A write. Items and drafts are behind an [`Arc`], so that a retry needs no copy of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Write {
    /// Creates a session.
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
    /// Erases contents of items.
    #[serde(skip)]
    Redact(Redact),
    /// Adopts a session that was recorded elsewhere.
    #[serde(skip)]
    Adopt(Arc<Adopt>),
    /// Changes a session's listed fields.
    #[serde(skip)]
    Patch(Box<Patch>),
    /// Ends a session.
    #[serde(skip)]
    CloseSession(CloseSession),
    /// Makes an identity the owner of an anonymous session.
    #[serde(skip)]
    Link(Link),
    /// Erases a session.
    #[serde(skip)]
    Erase(Erase),
    /// Records an event of a session.
    RecordEvent(Box<NewEvent>),
    /// Writes a note.
    #[serde(skip)]
    PutNote(PutNote),
    /// Adds text to the draft of an open turn.
    #[serde(skip)]
    PutDraft(Arc<PutDraft>),
    /// Acquires, renews or releases the lease of a session.
    Lease(Box<LeaseCommand>),
    /// Writes a checkpoint.
    PutCheckpoint(Box<PutCheckpoint>),
}

impl Write {
    /// The session that the write changes; `None` for a note.
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
            Self::Lease(command) => &command.session_id,
            Self::PutCheckpoint(put) => &put.session_id,
            Self::PutNote(_) => return None,
        })
    }

    /// Whether the write erases contents, or hides the session from viewers who could see it before.
    pub const fn is_retraction(&self) -> bool {
        matches!(self, Self::Redact(_) | Self::Erase(_) | Self::Link(_))
    }

    /// The approximate number of bytes that the write adds to the store; 0 for writes that are always small. Callers
    /// use it to limit the size of a transaction.
    pub fn content_len(&self) -> usize {
        let parts_len =
            |entries: &[Entry]| entries.iter().map(|e| e.item.parts.as_str().len()).sum();
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
                ending => parts_len(ending.entries()),
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

/// A write with its scope.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Command {
    /// Tenant and viewer.
    pub scope: Scope,
    /// The write.
    pub write: Write,
}
