//! The report of a diagnosis.

use filrouge_store::verify::{Finding as IntegrityFinding, Verdict};
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemId, JsonText, RawJson, RequestId, Result, Role, Session,
    Timestamp, TurnId, TurnStatus, Variant,
};
use serde::Serialize;

use super::findings::{Finding, Level};
use crate::stats::TurnsByStatus;

/// The maximum number of examined turns of each of three kinds: the newest turns, the newest pending and the newest
/// failed.
pub const TURNS_MAX: usize = 20;
/// The maximum number of characters shown of an item.
pub const TEXT_MAX: usize = 200;

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// When the session was examined.
    pub at: Timestamp,
    /// The result of verifying the entire session.
    pub verification: Verification,
    /// The session; `null` when it cannot be read.
    pub session: Option<Session>,
    /// The number of the session's turns in each state, each turn in its newest version.
    pub turns: TurnsByStatus,
    /// The newest open and interrupted turns, oldest first; at most [`TURNS_MAX`].
    pub pending: Vec<PendingTurn>,
    /// The newest failed turns, oldest first; at most [`TURNS_MAX`].
    pub failed: Vec<FailedTurn>,
    /// Recorded content of open turns that is not an item yet.
    pub drafts: Vec<Draft>,
    /// The newest items, in order.
    pub items: Vec<LastItem>,
    /// Tool calls of the examined turns without a result, in order.
    pub unanswered: Vec<UnansweredCall>,
    /// Errors of the examined turns, in order.
    pub errors: Vec<TurnError>,
    /// The unreadable parts: the session, turns, drafts or items.
    pub unreadable: Vec<Unreadable>,
    /// The findings, problems first.
    pub findings: Vec<Finding>,
}

/// The result of verifying an entire session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The outcome.
    pub status: Verdict,
    /// The number of examined turns.
    pub turns: u64,
    /// The number of examined items.
    pub items: u64,
    /// The differences from the written data.
    pub findings: Vec<IntegrityFinding>,
}

/// An open or interrupted turn.
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
    /// When the turn's newest item was committed.
    pub since: Timestamp,
    /// The time since then, in milliseconds.
    pub silent_ms: u64,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item.
    pub last_seq: u64,
    /// The number of its items.
    pub items: u64,
    /// Whether the turn's newest question to a human is unanswered: then silence does not interrupt the turn.
    pub waits_for_human: bool,
    /// The recorder of the turn's stream, if one is being recorded.
    pub recorder: Option<Recorder>,
    /// The time in milliseconds after which a server may interrupt the turn if nothing is written; `null` when no
    /// server will.
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
    /// The id of the recording, with which the keys of its items begin.
    pub stream: String,
    /// The name of the process; empty for a store that only one process uses.
    pub writer: Box<str>,
    /// When the recording began.
    pub begun_at: Timestamp,
    /// When the process last sent a heartbeat.
    pub beat_at: Timestamp,
    /// The time since that heartbeat, in milliseconds.
    pub beat_age_ms: u64,
    /// Whether the process is known to have ended; `false` if that is unknown.
    pub gone: bool,
}

/// Recorded content of an open turn that is not an item yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Draft {
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: String,
    /// When the recorder last sent a heartbeat.
    pub beat_at: Timestamp,
    /// The number of the draft's newest chunk.
    pub chunk: u64,
    /// The number of characters of the draft, including the arguments of calls.
    pub chars: u64,
    /// The draft's pieces, in order.
    pub pieces: Vec<DraftPiece>,
}

/// One piece of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftPiece {
    /// The number of the item that the piece will be part of.
    pub number: u64,
    /// The number of the piece's part in that item.
    pub part: u64,
    /// The piece's type: `text`, `refusal`, `reasoning`, `tool_call`, `whole`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The role of its creator.
    pub role: Role,
    /// The channel; may change while the item is incomplete.
    pub channel: Channel,
    /// The agent.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
    /// Whether the piece is complete.
    pub done: bool,
    /// The number of characters of the piece's text; 0 for a piece that arrived complete.
    pub chars: u64,
    /// The text so far; none for a call.
    pub text: Option<JsonText>,
    /// The call's id, for a call.
    pub call_id: Option<JsonText>,
    /// The tool's name, for a call.
    pub name: Option<JsonText>,
    /// The arguments so far as text, for a call.
    pub args: Option<JsonText>,
    /// The JSON of a piece that arrived complete.
    pub value: Option<RawJson>,
}

/// One of the newest items, shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastItem {
    /// The item's position in the session.
    pub seq: u64,
    /// The caller's key of the item.
    pub item_id: Option<ItemId>,
    /// The item's turn.
    pub turn_id: Option<TurnId>,
    /// The role of the item's creator.
    pub role: Role,
    /// The channel.
    pub channel: Channel,
    /// The language of the item.
    pub variant: Variant,
    /// The agent.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
    /// When the item was committed.
    pub created_at: Timestamp,
    /// Whether the item's content was redacted.
    pub redacted: bool,
    /// The item's display text, at most [`TEXT_MAX`] characters.
    pub text: String,
    /// Whether the text was truncated.
    pub cut: bool,
}

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnansweredCall {
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: Option<String>,
    /// The call's arguments as recorded.
    pub args: Option<RawJson>,
    /// The seq of the item that contains the call.
    pub seq: u64,
    /// The turn.
    pub turn_id: TurnId,
    /// The turn's state: in an open turn the result may still arrive.
    pub turn_status: TurnStatus,
    /// When the call was committed.
    pub at: Timestamp,
    /// The time since then, in milliseconds.
    pub age_ms: u64,
}

/// An error of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnError {
    /// The turn.
    pub turn_id: TurnId,
    /// The seq of the item that contains the error.
    pub seq: u64,
    /// When the error was committed.
    pub at: Timestamp,
    /// The error's code.
    pub code: Option<String>,
    /// The error's message.
    pub message: Option<String>,
    /// The component that reported the error: `provider`, `stream`, `client`, `caller`.
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

impl Diagnosis {
    /// Whether no finding is a problem.
    pub fn has_no_problem(&self) -> bool {
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

    /// What was read of the session's part `what`. If its data is unreadable, reports that and returns `None`.
    pub(super) fn readable<T>(&mut self, what: &'static str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Err(failure) if concerns_data(&failure) => {
                self.unreadable.push(Unreadable {
                    what,
                    first_seq: None,
                    last_seq: None,
                    code: failure.code.as_str(),
                    detail: failure.detail,
                });
                Ok(None)
            }
            read => read.map(Some),
        }
    }
}

/// The milliseconds from `then` to `now`; 0 when `then` is later, because the clocks of two machines may differ.
pub(super) fn age_ms(now: Timestamp, then: Timestamp) -> u64 {
    let micros = now.as_micros().saturating_sub(then.as_micros());
    u64::try_from(micros / 1000).unwrap_or(0)
}

/// Whether a failure concerns the stored data. Such a failure becomes a part of the diagnosis. Any other
/// failure ends the diagnosis, for example that the store does not answer.
pub(super) fn concerns_data(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing | ErrorCode::LimitExceeded
    )
}
