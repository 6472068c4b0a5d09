//! What a diagnosis says.

use filrouge_store::verify::{Finding as Broken, Verdict};
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemId, JsonText, RawJson, RequestId, Role, Session, Timestamp,
    TurnId, TurnStatus, Variant,
};
use serde::Serialize;

use super::findings::{Finding, Level};
use crate::stats::TurnsByStatus;

/// Most turns that are looked into: the newest ones, and of those that are open or have failed the newest ones.
pub const TURNS_MAX: usize = 20;
/// Most characters that are shown of an item.
pub const TEXT_MAX: usize = 200;

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// When it was examined.
    pub at: Timestamp,
    /// Whether all of it is as it was written.
    pub verification: Verification,
    /// The session; `null` when it cannot be read.
    pub session: Option<Session>,
    /// Its turns by where they stand, each in its newest version.
    pub turns: TurnsByStatus,
    /// The newest open and interrupted turns, oldest first; at most [`TURNS_MAX`].
    pub pending: Vec<PendingTurn>,
    /// The newest failed turns, oldest first; at most [`TURNS_MAX`].
    pub failed: Vec<FailedTurn>,
    /// What open turns show that is not an item yet.
    pub drafts: Vec<Draft>,
    /// The newest items, in order.
    pub items: Vec<LastItem>,
    /// Calls of the newest turns that have no answer, in order.
    pub unanswered: Vec<UnansweredCall>,
    /// Errors of the newest turns and of the newest ones that have failed, in order.
    pub errors: Vec<TurnError>,
    /// What cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// What is to be known, the most important first.
    pub findings: Vec<Finding>,
}

/// What a verification of the whole session has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Its outcome.
    pub status: Verdict,
    /// How many turns were examined.
    pub turns: u64,
    /// How many items were examined.
    pub items: u64,
    /// What is not as it was written.
    pub findings: Vec<Broken>,
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// Its key; `null` when its first item cannot be read.
    pub request_id: Option<RequestId>,
    /// Its place among the turns.
    pub ordinal: u64,
    /// `open` or `interrupted`.
    pub status: TurnStatus,
    /// When an item was last put into it.
    pub since: Timestamp,
    /// How long ago that is, in milliseconds.
    pub silent_ms: u64,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item.
    pub last_seq: u64,
    /// How many items it has.
    pub items: u64,
    /// Whether its newest question to a human has no answer: then it is not interrupted for its silence.
    pub waits_for_human: bool,
    /// Who records a stream into it.
    pub recorder: Option<Recorder>,
    /// In how many milliseconds a server may mark it as interrupted, if nothing more comes; `null` when none will.
    pub interrupted_in_ms: Option<u64>,
}

/// A turn that was ended by an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// Its key; `null` when its first item cannot be read.
    pub request_id: Option<RequestId>,
    /// Its place among the turns.
    pub ordinal: u64,
    /// When it failed.
    pub since: Timestamp,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item.
    pub last_seq: u64,
}

/// Who records a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recorder {
    /// The recording: the keys of its items begin with it.
    pub stream: String,
    /// The process; empty for a store of one process alone.
    pub writer: Box<str>,
    /// When the recording began.
    pub begun_at: Timestamp,
    /// When it last gave a sign of life.
    pub beat_at: Timestamp,
    /// How long ago that is, in milliseconds.
    pub beat_age_ms: u64,
    /// Whether the process is certain not to be there any more.
    pub gone: bool,
}

/// What an open turn shows that is not an item yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Draft {
    /// The turn.
    pub turn_id: TurnId,
    /// The recording.
    pub stream: String,
    /// When its writer last gave a sign of life.
    pub beat_at: Timestamp,
    /// The number of its newest chunk.
    pub chunk: u64,
    /// How many characters it shows, arguments of calls among them.
    pub chars: u64,
    /// Its pieces, in order.
    pub pieces: Vec<DraftPiece>,
}

/// One piece of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftPiece {
    /// The number of the item that it becomes part of.
    pub number: u64,
    /// Which part of it.
    pub part: u64,
    /// What it is: `text`, `refusal`, `reasoning`, `tool_call`, `whole`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Who speaks.
    pub role: Role,
    /// Where it stands as far as that is known.
    pub channel: Channel,
    /// The agent.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
    /// Whether it is complete.
    pub done: bool,
    /// How many characters its text has.
    pub chars: u64,
    /// Its text so far; of a call, none.
    pub text: Option<JsonText>,
    /// Of a call: its id.
    pub call_id: Option<JsonText>,
    /// Of a call: the tool.
    pub name: Option<JsonText>,
    /// Of a call: its arguments so far, as text.
    pub args: Option<JsonText>,
    /// Of something that came whole: its JSON.
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
    /// Who it comes from.
    pub role: Role,
    /// What it is.
    pub channel: Channel,
    /// The language it is in.
    pub variant: Variant,
    /// The agent.
    pub agent: Option<Box<str>>,
    /// The model.
    pub model: Option<Box<str>>,
    /// When it was put.
    pub created_at: Timestamp,
    /// Whether its content was redacted.
    pub redacted: bool,
    /// What it says, at most [`TEXT_MAX`] characters.
    pub text: String,
    /// Whether it says more.
    pub cut: bool,
}

/// A call of a tool without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnansweredCall {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: Option<String>,
    /// Its arguments as they were recorded.
    pub args: Option<RawJson>,
    /// The item that holds it.
    pub seq: u64,
    /// The turn.
    pub turn_id: TurnId,
    /// Where the turn stands: of an open one the answer may still come.
    pub turn_status: TurnStatus,
    /// When it was put.
    pub at: Timestamp,
    /// How long ago that is, in milliseconds.
    pub age_ms: u64,
}

/// An error of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnError {
    /// The turn.
    pub turn_id: TurnId,
    /// The item that holds it.
    pub seq: u64,
    /// When it was put.
    pub at: Timestamp,
    /// A word for it.
    pub code: Option<String>,
    /// A sentence about it.
    pub message: Option<String>,
    /// Who met it: `provider`, `stream`, `client`, `caller`.
    pub source: Option<String>,
    /// Whether asking again can help.
    pub retryable: Option<bool>,
    /// The error as the provider reported it.
    pub detail: Option<RawJson>,
    /// The whole part as it was recorded.
    pub part: RawJson,
}

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// What: `session`, `turns`, `turn`, `drafts`, `items`.
    pub what: &'static str,
    /// Of items: the first seq.
    pub first_seq: Option<u64>,
    /// Of items: the last seq.
    pub last_seq: Option<u64>,
    /// The failure's code.
    pub code: &'static str,
    /// What is wrong.
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
    /// Whether nothing is found that somebody should do something about.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|f| f.level == Level::Note)
    }

    pub(super) fn begun(at: Timestamp, verification: Verification) -> Self {
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

/// Milliseconds from `then` to `now`; none when it lies ahead, as clocks of two machines may differ.
pub(super) fn age_ms(now: Timestamp, then: Timestamp) -> u64 {
    let micros = now.as_micros().saturating_sub(then.as_micros());
    u64::try_from(micros / 1000).unwrap_or(0)
}

/// Whether a failure is one of the stored data, which a diagnosis reports, rather than of the store.
pub(super) fn is_of_data(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing | ErrorCode::LimitExceeded
    )
}
