//! The bodies of DESIGN §12, for Rust callers and for HTTP alike. Unknown fields are refused.

use filrouge_types::{
    JsonText, NewItem, ProjectId, RawJson, RequestId, SessionId, object, objects,
};
use serde::Deserialize;

/// Makes a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// Its id; made up when absent.
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// Its title.
    #[serde(default)]
    pub title: Option<Box<str>>,
    /// Its project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// The session that started it.
    #[serde(default)]
    pub parent_session_id: Option<SessionId>,
    /// The application's data, a JSON object.
    #[serde(default)]
    pub metadata: Option<RawJson>,
}

/// Starts a turn; with `items` and `answer_neutral` a whole finished turn in one call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartTurn {
    /// The caller's key of the turn.
    pub request_id: RequestId,
    /// The question in the neutral language.
    #[serde(default)]
    pub question_neutral: Option<JsonText>,
    /// The question in the user's language.
    #[serde(default)]
    pub question_translated: Option<JsonText>,
    /// Whether the chat is translated.
    #[serde(default)]
    pub translate_chat: bool,
    /// The pipeline that answers.
    #[serde(default)]
    pub pipeline_name: Option<Box<str>>,
    /// The consultant that answers.
    #[serde(default)]
    pub consultant: Option<Box<str>>,
    /// The repository it is about.
    #[serde(default)]
    pub repository: Option<Box<str>>,
    /// The application's data, a JSON object.
    #[serde(default)]
    pub metadata: Option<RawJson>,
    /// Allow-listed members become metadata of the question; all others are forgotten (DESIGN §8).
    #[serde(default)]
    pub runtime_context: Option<RawJson>,
    /// Items that stand behind the question.
    #[serde(default, deserialize_with = "objects")]
    pub items: Vec<NewItem>,
    /// The answer: closes the turn as finalized.
    #[serde(default)]
    pub answer_neutral: Option<JsonText>,
}

/// Appends items to an open turn, all or none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendItems {
    /// The items, in order.
    #[serde(deserialize_with = "objects")]
    pub items: Vec<NewItem>,
    /// The seq the session must stand at.
    #[serde(default)]
    pub expected_seq: Option<u64>,
}

/// Ends a turn with an answer; without one its final item is promoted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinalizeTurn {
    /// Must be the turn's, when given.
    #[serde(default)]
    pub request_id: Option<RequestId>,
    /// The answer in the neutral language.
    #[serde(default)]
    pub answer_neutral: Option<JsonText>,
    /// The answer in the user's language.
    #[serde(default)]
    pub answer_translated: Option<JsonText>,
    /// Whether the translated answer is a copy; a supplied translation wins over it.
    #[serde(default)]
    pub answer_translated_is_fallback: Option<bool>,
    /// Merged over the turn's metadata.
    #[serde(default)]
    pub metadata: Option<RawJson>,
}

/// What went wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// A word for it.
    pub code: Box<str>,
    /// A sentence about it.
    #[serde(default)]
    pub message: Option<JsonText>,
    /// Whether trying again can help.
    #[serde(default)]
    pub retryable: bool,
}

/// Ends a turn with an error.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailTurn {
    /// The error.
    #[serde(deserialize_with = "object")]
    pub error: ErrorBody,
    /// What was shown so far.
    #[serde(default)]
    pub partial_text: Option<JsonText>,
}

/// Ends a turn by the user's wish.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelTurn {
    /// What was shown so far.
    #[serde(default)]
    pub partial_text: Option<JsonText>,
}

/// Erases the contents of a turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactTurn {
    /// Why, 1 to 4096 bytes; stays in the journal.
    pub reason: Box<str>,
}

/// Replaces a closed turn by a corrected one: as a start, with an answer.
pub type ReplaceTurn = StartTurn;
