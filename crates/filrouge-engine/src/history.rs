//! Conversation history by session and by end user. The method names are those of *the contract*, a specification older
//! than filrouge (DESIGN §7, docs/history-contract.md), for applications that follow it.
//!
//! This module adds no rules: it calls the services for sessions, turns and links. Unlike in the contract, each call
//! names the identity on whose behalf it runs. To all others, an identity's history looks absent (P6), and the id of a
//! linked session alone gives no access.

use std::sync::Arc;

use filrouge_types::{
    Channel, ErrorCode, Failure, IdentityId, ItemBody, Result, Role, SessionId, TenantId, Turn,
    TurnId, TurnStatus, Variant,
};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::requests::{CreateSession, FinalizeTurn, StartTurn};
use crate::turns::{ListTurns, PastTurn};

#[cfg(test)]
mod tests;

/// The maximum number of turns per call, as in lists (DESIGN §12).
const TURNS_MAX: usize = 500;

/// A question and its answer, in the neutral language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionAnswer {
    /// The question.
    pub question_neutral: String,
    /// The answer.
    pub answer_neutral: String,
}

/// The history of one tenant. Its durability depends on the engine's ledger. On
/// [`filrouge_store::hot::EphemeralSessions`], all turns are ephemeral. On [`crate::scopes::TieredLedger`], turns
/// without an identity are ephemeral and those of an identity durable; a login moves the earlier anonymous turns to the
/// ledger.
#[derive(Clone)]
pub struct History {
    engine: Arc<Engine>,
    tenant: TenantId,
    best_effort_finalize: bool,
}

impl History {
    /// The history of `tenant`.
    pub const fn new(engine: Arc<Engine>, tenant: TenantId) -> Self {
        Self {
            engine,
            tenant,
            best_effort_finalize: false,
        }
    }

    /// For development and tests only: [`Self::on_request_finalized`] without a `turn_id` starts the turn first. By
    /// default, as in production, a missing `turn_id` is an error.
    #[must_use]
    pub const fn with_best_effort_finalize(mut self) -> Self {
        self.best_effort_finalize = true;
        self
    }

    fn caller(&self, identity: Option<IdentityId>) -> Caller {
        Caller::local(self.tenant.clone(), identity)
    }

    /// Writes the question and returns the turn's id; creates the session when it does not exist. The same session and
    /// request return the same id, whatever else the call contains: a call never fails because it is a repetition.
    ///
    /// # Errors
    /// As [`crate::Turns::start`].
    pub async fn start_turn(
        &self,
        identity_id: Option<IdentityId>,
        session_id: SessionId,
        request: StartTurn,
    ) -> Result<TurnId> {
        let caller = self.caller(identity_id);
        let turn = self.engine.turns.start(&caller, session_id, request);
        Ok(turn.await?.turn_id)
    }

    /// Writes the answer. Repeating it with the same answer changes nothing; the first answer and its commit time
    /// remain.
    ///
    /// # Errors
    /// As [`crate::Turns::finalize`].
    pub async fn finalize_turn(
        &self,
        identity_id: Option<IdentityId>,
        session_id: SessionId,
        turn_id: TurnId,
        request: FinalizeTurn,
    ) -> Result<()> {
        let caller = self.caller(identity_id);
        let turns = &self.engine.turns;
        let turn = turns.finalize(&caller, session_id, turn_id, request);
        turn.await.map(drop)
    }

    /// The newest finalized turns, oldest first, at most `limit` and at most 500; without those that were redacted or
    /// replaced. Returns none for a session that does not exist, has expired, or belongs to another identity.
    ///
    /// # Errors
    /// `session_erased`, `integrity_error`, and the store's errors.
    pub async fn list_recent_finalized_turns(
        &self,
        identity_id: Option<IdentityId>,
        session_id: &SessionId,
        limit: usize,
    ) -> Result<Vec<Turn>> {
        let limit = limit.min(TURNS_MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        match self
            .newest_turns(&self.caller(identity_id), session_id, limit)
            .await
        {
            Err(failure) if failure.code == ErrorCode::SessionNotFound => Ok(Vec::new()),
            turns => turns,
        }
    }

    /// Pairs of question and answer for prompts: those of the newest finalized turns in the neutral language, oldest
    /// first. A question that was asked twice occurs twice. A turn whose question or answer has no text is left out.
    ///
    /// # Errors
    /// As [`Self::list_recent_finalized_turns`].
    pub async fn load_conversation_history(
        &self,
        identity_id: Option<IdentityId>,
        session_id: &SessionId,
        limit: usize,
    ) -> Result<Vec<QuestionAnswer>> {
        let turns = self.list_recent_finalized_turns(identity_id, session_id, limit);
        let pair = |turn: &Turn| {
            Some(QuestionAnswer {
                question_neutral: turn.question_neutral.as_ref()?.to_plain(),
                answer_neutral: turn.answer_neutral.as_ref()?.to_plain(),
            })
        };
        Ok(turns.await?.iter().filter_map(pair).collect())
    }

    /// The newest turns, from the hot store's copy when one is available and valid.
    async fn newest_turns(
        &self,
        caller: &Caller,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<Turn>> {
        let turns = &self.engine.turns;
        let query = finalized_turns(limit, None);
        let (mut collected, mut cursor) = match turns.recent(caller, session, &query).await? {
            None => turns.list(caller, session, query).await?,
            Some(copy) => {
                if let Some(as_of_seq) = copy.as_of_seq {
                    tracing::warn!(session_id = %session, as_of_seq, "[SESSIONS][HISTORY] the ledger does not answer: returning turns from the hot store's copy");
                }
                let parsed = copy.turns.iter().map(|turn| serde_json::from_slice(turn));
                let parsed: Result<Vec<Turn>, _> = parsed.collect();
                let parsed = parsed.map_err(|e| {
                    ErrorCode::Internal.failure(format!("a copied turn cannot be read: {e}"))
                })?;
                (parsed, copy.next_cursor)
            }
        };
        // A page of large turns ends before it reaches its limit.
        while collected.len() < limit && cursor.is_some() {
            let query = finalized_turns(limit - collected.len(), cursor);
            let (mut older, next) = turns.list(caller, session, query).await?;
            older.append(&mut collected);
            (collected, cursor) = (older, next);
        }
        Ok(collected)
    }

    /// Links the session to the identity, and creates it when it does not exist. Repeating it changes nothing.
    ///
    /// # Errors
    /// `session_linked` when another identity owns the session (logged as `[SESSIONS][LINK_REFUSED]`),
    /// `session_erased`, and the store's.
    pub async fn upsert_session_link(
        &self,
        identity_id: IdentityId,
        session_id: SessionId,
    ) -> Result<()> {
        if self.link_existing(&identity_id, &session_id).await? {
            return Ok(());
        }
        let caller = self.caller(Some(identity_id.clone()));
        let create = CreateSession {
            session_id: Some(session_id.clone()),
            ..CreateSession::default()
        };
        match self.engine.sessions.create(&caller, create).await {
            Ok(session) if session.identity_id.is_some() => return Ok(()),
            Err(failure) if failure.code != ErrorCode::SessionConflict => return Err(failure),
            _ => {}
        }
        // Another caller has created the session in the meantime.
        let link = self.engine.sessions.link(&caller, session_id, identity_id);
        link.await.map(drop)
    }

    /// Links an existing session to the identity, before anything is written on its behalf; `false` when the session
    /// does not exist.
    async fn link_existing(&self, identity: &IdentityId, session: &SessionId) -> Result<bool> {
        let caller = self.caller(Some(identity.clone()));
        let sessions = &self.engine.sessions;
        match sessions.get(&caller, session).await {
            Ok(session) if session.identity_id.is_some() => return Ok(true),
            Err(failure) if !is_absent(&failure) => return Err(failure),
            // The session is anonymous, absent, or another owner's: linking determines which, and logs a refusal.
            _ => {}
        }
        let linked = sessions.link(&caller, session.clone(), identity.clone());
        match linked.await {
            Ok(_) => Ok(true),
            Err(failure) if is_absent(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Records a turn as the caller describes it, open or finalized, with its times. If the turn is already stored, it
    /// is not changed, with one exception: a stored turn that is open gets the answer of a finalized one.
    ///
    /// # Errors
    /// `invalid` without an identity or a question, or for a turn that is neither open nor finalized; `answer_missing`
    /// for a finalized turn without a neutral answer; `turn_redacted` for one whose contents were erased;
    /// `turn_mismatch` when the id is not the one derived from session and request, or when another identity owns the
    /// stored turn; `session_conflict` when another identity owns the session; and the store's errors.
    pub async fn insert_turn(&self, turn: Turn) -> Result<()> {
        self.check_insertable(&turn)?;
        let Some(identity) = turn.identity_id.clone() else {
            return Err(ErrorCode::Invalid.failure("a turn must have an identity to be inserted"));
        };
        let is_finalized = turn.status == TurnStatus::Finalized;
        if is_finalized && turn.answer_neutral.is_none() {
            let detail = "a finalized turn must have answer_neutral";
            return Err(Failure::new(ErrorCode::AnswerMissing, detail));
        }
        let past = PastTurn {
            asked_at: turn.created_at,
            answered_at: turn.finalized_at,
            is_fallback: turn.answer_translated_is_fallback,
        };
        let caller = self.caller(Some(identity.clone()));
        let session = turn.session_id.clone();
        let recording = self
            .engine
            .turns
            .report_turn(&caller, session, start_request(&turn), past);
        let stored = recording.await?;
        let owner = stored.identity_id.as_ref();
        if owner.is_some_and(|owner| *owner != identity) {
            let detail = format!("turn {} belongs to another identity", turn.turn_id);
            return Err(Failure::new(ErrorCode::TurnMismatch, detail));
        }
        if stored.status == TurnStatus::Open && is_finalized {
            let request = FinalizeTurn {
                request_id: Some(turn.request_id),
                answer_neutral: turn.answer_neutral,
                answer_translated: turn.answer_translated,
                answer_translated_is_fallback: Some(turn.answer_translated_is_fallback),
                metadata: Some(turn.metadata),
                ..FinalizeTurn::default()
            };
            let (session, turn) = (turn.session_id, turn.turn_id);
            self.finalize_turn(Some(identity), session, turn, request)
                .await?;
        }
        Ok(())
    }

    /// Refuses a turn that may not be inserted.
    fn check_insertable(&self, turn: &Turn) -> Result<()> {
        if turn.deleted_at.is_some() {
            let detail = format!(
                "turn {} was redacted; it is not recorded again",
                turn.turn_id
            );
            return Err(Failure::new(ErrorCode::TurnRedacted, detail));
        }
        if !matches!(turn.status, TurnStatus::Open | TurnStatus::Finalized) {
            let detail = format!("a turn that is {} cannot be inserted", turn.status);
            return Err(Failure::new(ErrorCode::Invalid, detail)
                .with_hint("insert turns that are open or finalized"));
        }
        let keyring = self.engine.ledger().keyring();
        let derived = keyring.turn_id(&self.tenant, &turn.session_id, &turn.request_id);
        if derived != turn.turn_id {
            let detail = format!(
                "turn {derived} belongs to this session and request_id, not {}",
                turn.turn_id
            );
            return Err(Failure::new(ErrorCode::TurnMismatch, detail)
                .with_hint("use the turn_id that start_turn returned"));
        }
        Ok(())
    }

    /// Writes the final fields of a stored turn; never creates a turn. Repeating it with the same answer changes
    /// nothing. The time that the contract calls `finalized_at_utc` is the time of this commit.
    ///
    /// # Errors
    /// As [`Self::finalize_turn`]; another identity's turn looks absent.
    pub async fn upsert_turn_final(
        &self,
        identity_id: IdentityId,
        session_id: SessionId,
        turn_id: TurnId,
        request: FinalizeTurn,
    ) -> Result<()> {
        self.finalize_turn(Some(identity_id), session_id, turn_id, request)
            .await
    }

    /// Links the session to the identity, if there is one, and writes the question. The application calls this once per
    /// request, before it works on the request. Returns the turn's id, with which the turn is finalized.
    ///
    /// # Errors
    /// `session_linked` when another identity owns the session, before anything is written; `invalid` without any
    /// question; and as [`Self::start_turn`].
    pub async fn on_request_started(
        &self,
        identity_id: Option<IdentityId>,
        session_id: SessionId,
        request: StartTurn,
    ) -> Result<TurnId> {
        let is_linked = match &identity_id {
            Some(identity) => self.link_existing(identity, &session_id).await?,
            None => true,
        };
        let caller = self.caller(identity_id.clone());
        let turns = &self.engine.turns;
        let turn = turns.start(&caller, session_id.clone(), request).await?;
        // A turn that does not begin at seq 1 shows that another caller has created the session anonymously in the
        // meantime.
        if let Some(identity) = identity_id.filter(|_| !is_linked)
            && turn.first_seq > 1
        {
            self.link_existing(&identity, &session_id).await?;
        }
        Ok(turn.turn_id)
    }

    /// Writes the answer. The application calls this when the answer is available. If the chat is translated and the
    /// request has no translation, a copy of the neutral answer is written and flagged. Only with
    /// [`Self::with_best_effort_finalize`] may `turn_id` be absent; then `start` first starts the turn.
    ///
    /// # Errors
    /// `invalid` if `turn_id` is absent and may not be, and as [`Self::finalize_turn`].
    pub async fn on_request_finalized(
        &self,
        identity_id: Option<IdentityId>,
        session_id: SessionId,
        turn_id: Option<TurnId>,
        request: FinalizeTurn,
        start: Option<StartTurn>,
    ) -> Result<()> {
        let turn_id = match (turn_id, start) {
            (Some(turn), _) => turn,
            (None, Some(start)) if self.best_effort_finalize => {
                let (identity, session) = (identity_id.clone(), session_id.clone());
                self.on_request_started(identity, session, start).await?
            }
            (None, _) => {
                let detail = "turn_id is missing: a request is finalized with the turn_id that on_request_started returned";
                return Err(Failure::new(ErrorCode::Invalid, detail)
                    .with_hint("call on_request_started before the work begins"));
            }
        };
        self.finalize_turn(identity_id, session_id, turn_id, request)
            .await
    }
}

/// Whether the ledger does not have the session. Also true if the hot store does not answer: its turns of the session
/// are moved to the ledger later.
fn is_absent(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::SessionNotFound | ErrorCode::HotUnavailable
    )
}

fn finalized_turns(limit: usize, cursor: Option<String>) -> ListTurns {
    ListTurns {
        status: Some(TurnStatus::Finalized),
        cursor,
        limit,
        ..ListTurns::default()
    }
}

/// The request that would have created this turn.
fn start_request(turn: &Turn) -> StartTurn {
    let is_finalized = turn.status == TurnStatus::Finalized;
    let translated = turn.answer_translated.as_ref().filter(|_| is_finalized);
    let answer =
        |text| ItemBody::from_text(Role::Assistant, Channel::Final, Variant::Translated, text);
    StartTurn {
        question_neutral: turn.question_neutral.clone(),
        question_translated: turn.question_translated.clone(),
        application: turn.application.clone(),
        metadata: Some(turn.metadata.clone()).filter(|m| m.as_str() != "{}"),
        items: translated.map(answer).into_iter().collect(),
        answer_neutral: turn.answer_neutral.clone().filter(|_| is_finalized),
        ..StartTurn::new(turn.request_id.clone())
    }
}
