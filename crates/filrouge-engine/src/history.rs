//! Conversation history in two scopes, under the names of its contract (DESIGN §7): what an application calls that
//! keeps history as the contract describes it, in place of what it had of its own.
//!
//! Every method of a port takes one struct, whose fields are the arguments of the contract by their names. Beyond the
//! contract the calls that read or end something also say on whose behalf: what is one identity's looks absent to
//! everybody else (P6), and a session id alone opens nothing once it is linked.

use async_trait::async_trait;
use filrouge_types::{Failure, IdentityId, RawJson, RequestId, SessionId, Timestamp, Turn, TurnId};

mod recent;
mod service;
mod session_store;
#[cfg(test)]
mod tests;
mod user_store;

pub use service::{HistoryOptions, HistoryService};
pub use session_store::EngineSessionStore;
pub use user_store::EngineUserStore;

/// The arguments of [`SessionConversationStore::start_turn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStart {
    /// The session; it is made when it is not there.
    pub session_id: SessionId,
    /// The key of the request, unique in its session.
    pub request_id: RequestId,
    /// Who asks, when that is known.
    pub identity_id: Option<IdentityId>,
    /// The question in the neutral language.
    pub question_neutral: String,
    /// The question in the user's language.
    pub question_translated: Option<String>,
    /// Whether the answer is to be translated.
    pub translate_chat: bool,
    /// The application's data, a JSON object.
    pub meta: Option<RawJson>,
}

/// The arguments of [`SessionConversationStore::finalize_turn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFinal {
    /// The session.
    pub session_id: SessionId,
    /// The key that the turn was started with.
    pub request_id: RequestId,
    /// The turn.
    pub turn_id: TurnId,
    /// On whose behalf.
    pub identity_id: Option<IdentityId>,
    /// The answer in the neutral language.
    pub answer_neutral: String,
    /// The answer in the user's language.
    pub answer_translated: Option<String>,
    /// Whether that is a copy of the neutral one; a supplied translation wins over it.
    pub answer_translated_is_fallback: Option<bool>,
    /// Merged over the turn's metadata.
    pub meta: Option<RawJson>,
}

/// The arguments of [`SessionConversationStore::list_recent_finalized_turns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentQuery {
    /// The session.
    pub session_id: SessionId,
    /// On whose behalf.
    pub identity_id: Option<IdentityId>,
    /// At most so many turns; more than 500 are not given.
    pub limit: usize,
}

/// Session-scoped history, found by the session id (the contract's `ISessionConversationStore`).
#[async_trait]
pub trait SessionConversationStore: Send + Sync {
    /// Writes the question and gives the turn's id. The same session and request give the same id, whatever else the
    /// call says: it never fails for being repeated.
    ///
    /// # Errors
    /// `session_conflict` when the session is another identity's, `session_closed`, `turn_open` where one turn at a time
    /// is the policy, `invalid`, `limit_exceeded`, and the store's.
    async fn start_turn(&self, call: TurnStart) -> Result<TurnId, Failure>;

    /// Writes the answer. Repeated with the same answer it changes nothing; the first one stands.
    ///
    /// # Errors
    /// `turn_not_found`, `turn_expired`; `turn_mismatch` when the turn is another session's or was started by another
    /// request; `idempotency_mismatch` for another answer than the first, `turn_closed` when it ended otherwise,
    /// `session_not_found`, and the store's.
    async fn finalize_turn(&self, call: TurnFinal) -> Result<(), Failure>;

    /// The newest finalized turns, oldest first; without those that were redacted or replaced. None of a session that
    /// is not there, or no longer, or somebody else's.
    ///
    /// # Errors
    /// `session_erased`, `integrity_error`, and the store's.
    async fn list_recent_finalized_turns(&self, call: RecentQuery) -> Result<Vec<Turn>, Failure>;
}

/// The arguments of [`UserConversationStore::upsert_turn_final`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserTurnFinal {
    /// Whose turn it is.
    pub identity_id: IdentityId,
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The answer in the neutral language.
    pub answer_neutral: String,
    /// The answer in the user's language.
    pub answer_translated: Option<String>,
    /// Whether that is a copy of the neutral one; a supplied translation wins over it.
    pub answer_translated_is_fallback: Option<bool>,
    /// When the caller thinks that it was. The store's own time of the commit is the one that counts and is kept: this
    /// one takes part in no decision, so that a retry may bring another one.
    pub finalized_at_utc: Option<Timestamp>,
    /// Merged over the turn's metadata.
    pub meta: Option<RawJson>,
}

/// User-scoped, durable history (the contract's `IUserConversationStore`).
#[async_trait]
pub trait UserConversationStore: Send + Sync {
    /// Links the session to the identity, and makes it when it is not there. Repeated it changes nothing.
    ///
    /// # Errors
    /// `session_linked` when the session is another identity's (logged as `[SESSIONS][LINK_REFUSED]`),
    /// `session_erased`, and the store's.
    async fn upsert_session_link(
        &self,
        identity_id: IdentityId,
        session_id: SessionId,
    ) -> Result<(), Failure>;

    /// Records a turn as it is told, open or finalized, with its times as what the caller says. A turn that is there is
    /// not changed by being inserted again, but one that is open there and finalized here gets its answer.
    ///
    /// # Errors
    /// `invalid` without an identity or a question, or for a turn that ended without an answer; `turn_redacted` for one
    /// whose contents were taken out; `turn_mismatch` when the id is not the one that session and request give, or the
    /// turn there is another identity's; `session_conflict` when the session is; and the store's.
    async fn insert_turn(&self, turn: Turn) -> Result<(), Failure>;

    /// Writes the final fields of a turn that is there; makes none. Repeated with the same answer it changes nothing.
    ///
    /// # Errors
    /// As [`SessionConversationStore::finalize_turn`]; what is not this identity's looks absent.
    async fn upsert_turn_final(&self, call: UserTurnFinal) -> Result<(), Failure>;
}

/// The arguments of [`ConversationHistoryService::on_request_started`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestStarted {
    /// The session.
    pub session_id: SessionId,
    /// The key of the request, unique in its session.
    pub request_id: RequestId,
    /// Who asks, once that is known.
    pub identity_id: Option<IdentityId>,
    /// The question in the neutral language; without one the other is copied, and the copy is flagged in the metadata as
    /// `question_neutral_is_fallback`.
    pub question_neutral: Option<String>,
    /// The question as it was asked.
    pub question_translated: Option<String>,
    /// Whether the answer is to be translated.
    pub translate_chat: bool,
    /// The pipeline that answers.
    pub pipeline_name: Option<String>,
    /// The consultant that answers.
    pub consultant: Option<String>,
    /// The repository it is about.
    pub repository: Option<String>,
    /// The application's data, a JSON object.
    pub meta: Option<RawJson>,
}

/// The arguments of [`ConversationHistoryService::on_request_finalized`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFinalized {
    /// The session.
    pub session_id: SessionId,
    /// The key of the request.
    pub request_id: RequestId,
    /// What [`ConversationHistoryService::on_request_started`] gave. Without it the call fails.
    pub turn_id: Option<TurnId>,
    /// On whose behalf.
    pub identity_id: Option<IdentityId>,
    /// The answer in the neutral language.
    pub answer_neutral: String,
    /// The answer in the user's language.
    pub answer_translated: Option<String>,
    /// Whether that is a copy of the neutral one; a supplied translation wins over it.
    pub answer_translated_is_fallback: Option<bool>,
    /// Merged over the turn's metadata.
    pub meta: Option<RawJson>,
    /// What the turn is started with when there is no `turn_id`; only where [`HistoryOptions::best_effort_finalize`] is
    /// on.
    pub start: Option<Box<RequestStarted>>,
}

/// What a server calls for every request (the contract's `IConversationHistoryService`).
#[async_trait]
pub trait ConversationHistoryService: Send + Sync {
    /// To be called once for a request, before the work on it begins: links the session to the identity, if there is one,
    /// and writes the question. Gives the id that finalizes the turn.
    ///
    /// # Errors
    /// `session_linked` when the session is another identity's, before anything is written; `invalid` without any
    /// question; and as [`SessionConversationStore::start_turn`].
    async fn on_request_started(&self, call: RequestStarted) -> Result<TurnId, Failure>;

    /// To be called once the answer is there: writes it. Where the chat is translated and no translation is given, a
    /// copy of the neutral answer is written and flagged.
    ///
    /// # Errors
    /// `invalid` without a `turn_id`, and as [`SessionConversationStore::finalize_turn`].
    async fn on_request_finalized(&self, call: RequestFinalized) -> Result<(), Failure>;
}

/// A question and its answer, in the neutral language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionAnswer {
    /// The question.
    pub question_neutral: String,
    /// The answer.
    pub answer_neutral: String,
}
