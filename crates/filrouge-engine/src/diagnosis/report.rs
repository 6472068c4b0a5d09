//! The report of a diagnosis.

use filrouge_store::verify::{Finding as IntegrityFinding, Verdict};
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemId, JsonText, RawJson, RequestId, Role, Session, Timestamp,
    TurnId, TurnStatus, Variant,
};
use serde::Serialize;

use super::findings::{Finding, Level};
use crate::stats::TurnsByStatus;

/// The maximum number of examined turns of each kind: the newest ones, the newest pending ones, the newest failed ones.
pub const TURNS_MAX: usize = 20;
/// The maximum number of characters shown of an item.
pub const TEXT_MAX: usize = 200;

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// When it was examined.
    pub at: Timestamp,
    /// The result of verifying the entire session.
    pub verification: Verification,
    /// The session; `null` when it cannot be read.
    pub session: Option<Session>,
    /// The number of its turns in each state, each turn in its newest version.
    pub turns: TurnsByStatus,
    /// The newest open and interrupted turns, oldest first; at most [`TURNS_MAX`].
    pub pending: Vec<PendingTurn>,
    /// The newest failed turns, oldest first; at most [`TURNS_MAX`].
    pub failed: Vec<FailedTurn>,
    /// Recorded content of open turns that is not an item yet.
    pub drafts: Vec<Draft>,
    /// The newest items, in order.
    pub items: Vec<LastItem>,
    /// Tool calls of the examined turns without an answer, in order.
    pub unanswered: Vec<UnansweredCall>,
    /// Errors of the examined turns, in order.
    pub errors: Vec<TurnError>,
    /// What cannot be read: the session, turns, drafts or items.
    pub unreadable: Vec<Unreadable>,
    /// The findings, the most important first.
    pub findings: Vec<Finding>,
}

/// The result of verifying an entire session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Its outcome.
    pub status: Verdict,
    /// The number of examined turns.
    pub turns: u64,
    /// The number of examined items.
    pub items: u64,
    /// The differences from what was written.
    pub findings: Vec<IntegrityFinding>,
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// Its key; `null` when its first item cannot be read.
    pub request_id: Option<RequestId>,
    /// Its position among the session's turns.
    pub ordinal: u64,
    /// `open` or `interrupted`.
    pub status: TurnStatus,
    /// When its newest item was committed.
    pub since: Timestamp,
    /// How long ago that is, in milliseconds.
    pub silent_ms: u64,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item.
    pub last_seq: u64,
    /// The number of its items.
    pub items: u64,
    /// Whether its newest question to a human is unanswered: then silence does not interrupt it.
    pub waits_for_human: bool,
    /// The recorder of its stream, if one is being recorded.
    pub recorder: Option<Recorder>,
    /// The time in milliseconds after which a server may interrupt it if nothing is written; `null` when no server will.
    pub interrupted_in_ms: Option<u64>,
}

/// A turn that was ended by an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// Its key; `null` when its first item cannot be read.
    pub request_id: Option<RequestId>,
    /// Its position among the session's turns.
    pub ordinal: u64,
    /// When it failed.
    pub since: Timestamp,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item.
    pub last_seq: u64,
}

/// The process that records a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recorder {
    /// The id of the recording: the prefix of its items' keys.
    pub stream: String,
    /// The process; empty for a store that only one process uses.
    pub writer: Box<str>,
    /// When the recording began.
    pub begun_at: Timestamp,
    /// When it last sent a heartbeat.
    pub beat_at: Timestamp,
    /// How long ago that is, in milliseconds.
    pub beat_age_ms: u64,
    /// Whether the process has certainly ended.
    pub gone: bool,
}

/// Recorded content of an open turn that is not an item yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Draft {
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: String,
    /// When its recorder last sent a heartbeat.
    pub beat_at: Timestamp,
    /// The number of its newest chunk.
    pub chunk: u64,
    /// The number of its characters, including the arguments of calls.
    pub chars: u64,
    /// Its pieces, in order.
    pub pieces: Vec<DraftPiece>,
}

/// One piece of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftPiece {
    /// The number of the item that it will be part of.
    pub number: u64,
    /// The part's number in that item.
    pub part: u64,
    /// Its type: `text`, `refusal`, `reasoning`, `tool_call`, `whole`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The role of its creator.
    pub role: Role,
    /// The kind of entry, as far as it can be known yet.
    pub channel: Channel,
    /// The agent.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
    /// Whether it is complete.
    pub done: bool,
    /// The number of characters of its text.
    pub chars: u64,
    /// Its text so far; none for a call.
    pub text: Option<JsonText>,
    /// The call's id, for a call.
    pub call_id: Option<JsonText>,
    /// The tool's name, for a call.
    pub name: Option<JsonText>,
    /// The arguments so far as text, for a call.
    pub args: Option<JsonText>,
    /// Its JSON, for a piece that arrived complete.
    pub value: Option<RawJson>,
}

/// One of the newest items, shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastItem {
    /// Its position.
    pub seq: u64,
    /// Its key.
    pub item_id: Option<ItemId>,
    /// Its turn.
    pub turn_id: Option<TurnId>,
    /// The role of its creator.
    pub role: Role,
    /// The kind of entry.
    pub channel: Channel,
    /// The language it is in.
    pub variant: Variant,
    /// The agent.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
    /// When it was committed.
    pub created_at: Timestamp,
    /// Whether its content was redacted.
    pub redacted: bool,
    /// Its text, at most [`TEXT_MAX`] characters.
    pub text: String,
    /// Whether the text was truncated.
    pub cut: bool,
}

/// A tool call without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnansweredCall {
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: Option<String>,
    /// Its arguments as recorded.
    pub args: Option<RawJson>,
    /// The seq of the item that contains it.
    pub seq: u64,
    /// The turn.
    pub turn_id: TurnId,
    /// The turn's state: in an open turn the answer may still arrive.
    pub turn_status: TurnStatus,
    /// When it was committed.
    pub at: Timestamp,
    /// How long ago that is, in milliseconds.
    pub age_ms: u64,
}

/// An error of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnError {
    /// The turn.
    pub turn_id: TurnId,
    /// The seq of the item that contains it.
    pub seq: u64,
    /// When it was committed.
    pub at: Timestamp,
    /// Its code.
    pub code: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// The component that reported it: `provider`, `stream`, `client`, `caller`.
    pub source: Option<String>,
    /// Whether a retry can succeed.
    pub retryable: Option<bool>,
    /// The error as the provider reported it.
    pub detail: Option<RawJson>,
    /// The entire part as it was recorded.
    pub part: RawJson,
}

/// A part of the session that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The unreadable part: `session`, `turns`, `turn`, `drafts`, `items`.
    pub what: &'static str,
    /// The first unreadable seq, for items.
    pub first_seq: Option<u64>,
    /// The last unreadable seq, for items.
    pub last_seq: Option<u64>,
    /// The failure's code.
    pub code: &'static str,
    /// The failure as a sentence.
    pub detail: String,
}

impl Unreadable {
    pub(super) fn new(what: &'static str, failure: &Failure) -> Self {
        Self {
            what,
            first_seq: None,
            last_seq: None,
            code: failure.code.as_str(),
            detail: failure.detail.clone(),
        }
    }
}

impl Diagnosis {
    /// Whether no finding is a problem.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|f| f.level == Level::Note)
    }

    pub(super) fn empty(at: Timestamp, verification: Verification) -> Self {
        Self {
            at,
            verification,
            session: None,
            turns: TurnsByStatus::default(),
            pending: Vec::new(),
            failed: Vec::new(),
            drafts: Vec::new(),
            items: Vec::new(),
            unanswered: Vec::new(),
            errors: Vec::new(),
            unreadable: Vec::new(),
            findings: Vec::new(),
        }
    }

    pub(super) fn unreadable(&mut self, what: &'static str, failure: &Failure) {
        self.unreadable.push(Unreadable::new(what, failure));
    }
}

/// Milliseconds from `then` to `now`; 0 when `then` is ahead, as the clocks of two machines may differ.
pub(super) fn age_ms(now: Timestamp, then: Timestamp) -> u64 {
    let micros = now.as_micros().saturating_sub(then.as_micros());
    u64::try_from(micros / 1000).unwrap_or(0)
}

/// Whether a failure concerns the stored data, which a diagnosis reports, rather than the store.
pub(super) fn concerns_data(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing | ErrorCode::LimitExceeded
    )
}
