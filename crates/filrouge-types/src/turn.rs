//! Turns: one question and everything that answers it (DESIGN §3, §4).

use serde::{Deserialize, Serialize};

use crate::words::stored_words;
use crate::{Application, IdentityId, JsonText, RawJson, RequestId, SessionId, Timestamp, TurnId};

stored_words!(
    /// The state of a turn (DESIGN §4).
    pub enum TurnStatus: "turn status" {
        /// Being answered.
        Open = 0 => "open",
        /// Abandoned before it ended. A request with the same request id reopens it.
        Interrupted = 1 => "interrupted",
        /// Answered.
        Finalized = 2 => "finalized",
        /// Ended by an error.
        Failed = 3 => "failed",
        /// Ended by the user.
        Cancelled = 4 => "cancelled",
    }
);

impl TurnStatus {
    /// Whether the turn has ended and cannot be reopened.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Finalized | Self::Failed | Self::Cancelled)
    }
}

// The field order is that of the public JSON (DESIGN §12).
/// A turn as its items describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Turn {
    /// Derived from (tenant, session, request id).
    pub turn_id: TurnId,
    /// Its session.
    pub session_id: SessionId,
    /// The caller's key.
    pub request_id: RequestId,
    /// Its position among the session's turns, from 1; a replacement has the position of the turn that it replaces. Absent while
    /// the turn waits for the ledger.
    #[serde(with = "crate::unassigned")]
    #[schema(value_type = Option<u64>)]
    pub ordinal: u64,
    /// Its state.
    pub status: TurnStatus,
    /// The identity of the user who asked.
    pub identity_id: Option<IdentityId>,
    /// The question in the neutral language.
    pub question_neutral: Option<JsonText>,
    /// The question in the user's language.
    pub question_translated: Option<JsonText>,
    /// The answer in the neutral language.
    pub answer_neutral: Option<JsonText>,
    /// The answer in the user's language.
    pub answer_translated: Option<JsonText>,
    /// Whether `answer_translated` is a copy of the neutral answer.
    pub answer_translated_is_fallback: bool,
    /// The application-specific fields.
    #[serde(flatten)]
    #[schema(ignore)]
    pub application: Application,
    /// The application's data, a JSON object.
    #[schema(value_type = Object)]
    pub metadata: RawJson,
    /// The seq of its first item; absent while the turn waits for the ledger.
    #[serde(with = "crate::unassigned")]
    #[schema(value_type = Option<u64>)]
    pub first_seq: u64,
    /// The seq of its newest item, without those that were added after its end; absent while that waits for the ledger.
    #[serde(with = "crate::unassigned")]
    #[schema(value_type = Option<u64>)]
    pub last_seq: u64,
    /// 1, or one more than the version of the turn that it replaces.
    pub record_version: u64,
    /// The turn that replaces it.
    pub replaced_by_turn_id: Option<TurnId>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it was closed.
    pub finalized_at: Option<Timestamp>,
    /// When it was redacted.
    pub deleted_at: Option<Timestamp>,
    /// Whether this answer repeats an earlier one.
    pub replayed: bool,
    /// Whether this request differed from the first one with its key.
    pub differs: bool,
}
