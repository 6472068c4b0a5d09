//! User-scoped history over an engine.

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_types::{
    Channel, ErrorCode, Failure, IdentityId, JsonText, SessionId, TenantId, Turn, TurnStatus,
    Variant,
};

use super::service::is_absent;
use super::{UserConversationStore, UserTurnFinal};
use crate::caller::Caller;
use crate::core::text_item;
use crate::engine::Engine;
use crate::requests::{CreateSession, FinalizeTurn, StartTurn};
use crate::turns::Told;

/// User-scoped history of one tenant over an engine whose ledger is durable.
#[derive(Clone)]
pub struct EngineUserStore {
    engine: Arc<Engine>,
    tenant: TenantId,
}

impl EngineUserStore {
    /// The history of `tenant`.
    #[must_use]
    pub const fn new(engine: Arc<Engine>, tenant: TenantId) -> Self {
        Self { engine, tenant }
    }

    fn caller(&self, identity: IdentityId) -> Caller {
        Caller::local(self.tenant.clone(), Some(identity))
    }

    /// What is not to be inserted.
    fn check(&self, turn: &Turn) -> Result<(), Failure> {
        if turn.deleted_at.is_some() {
            let what = format!(
                "turn {} was redacted; it is not brought in again",
                turn.turn_id
            );
            return Err(Failure::new(ErrorCode::TurnRedacted, what));
        }
        if !matches!(turn.status, TurnStatus::Open | TurnStatus::Finalized) {
            let what = format!("a turn that is {} is not inserted", turn.status);
            return Err(Failure::new(ErrorCode::Invalid, what)
                .with_hint("insert turns that are open or finalized"));
        }
        let keyring = self.engine.ledger().keyring();
        let derived = keyring.turn_id(&self.tenant, &turn.session_id, &turn.request_id);
        if derived != turn.turn_id {
            let what = format!(
                "session and request_id give turn {derived}, not {}",
                turn.turn_id
            );
            return Err(Failure::new(ErrorCode::TurnMismatch, what)
                .with_hint("take the turn_id that start_turn gave"));
        }
        Ok(())
    }
}

/// A turn as a request that would have made it.
fn request(turn: &Turn) -> StartTurn {
    let translated = turn.answer_translated.as_ref();
    let translated = translated.filter(|_| turn.status == TurnStatus::Finalized);
    let answer = |text: &JsonText| {
        text_item(
            filrouge_types::Role::Assistant,
            Channel::Final,
            Variant::Translated,
            text,
        )
    };
    StartTurn {
        question_neutral: turn.question_neutral.clone(),
        question_translated: turn.question_translated.clone(),
        translate_chat: turn.translate_chat,
        pipeline_name: turn.pipeline_name.clone(),
        consultant: turn.consultant.clone(),
        repository: turn.repository.clone(),
        metadata: Some(turn.metadata.clone()).filter(|m| m.as_str() != "{}"),
        items: translated.map(answer).into_iter().collect(),
        answer_neutral: turn
            .answer_neutral
            .clone()
            .filter(|_| turn.status == TurnStatus::Finalized),
        ..StartTurn::new(turn.request_id.clone())
    }
}

#[async_trait]
impl UserConversationStore for EngineUserStore {
    async fn upsert_session_link(
        &self,
        identity_id: IdentityId,
        session_id: SessionId,
    ) -> Result<(), Failure> {
        let scope = self.caller(identity_id.clone());
        let link = || {
            self.engine
                .sessions
                .link(&scope, session_id.clone(), identity_id.clone())
        };
        match link().await {
            Err(failure) if is_absent(&failure) => {}
            linked => return linked.map(|_| ()),
        }
        let new = CreateSession {
            session_id: Some(session_id.clone()),
            ..CreateSession::default()
        };
        match self.engine.sessions.create(&scope, new).await {
            Ok(session) if session.identity_id.is_some() => Ok(()),
            // Somebody has made it meanwhile.
            Ok(_) => link().await.map(|_| ()),
            Err(failure) if failure.code == ErrorCode::SessionConflict => link().await.map(|_| ()),
            Err(failure) => Err(failure),
        }
    }

    async fn insert_turn(&self, turn: Turn) -> Result<(), Failure> {
        self.check(&turn)?;
        let Some(identity) = turn.identity_id.clone() else {
            let what = "a turn of nobody is not kept for an identity";
            return Err(Failure::new(ErrorCode::Invalid, what));
        };
        let scope = self.caller(identity.clone());
        let is_final = turn.status == TurnStatus::Finalized;
        if is_final && turn.answer_neutral.is_none() {
            let what = "a finalized turn has answer_neutral";
            return Err(Failure::new(ErrorCode::AnswerMissing, what));
        }
        let told = Told {
            asked_at: turn.created_at,
            answered_at: turn.finalized_at,
            is_fallback: turn.answer_translated_is_fallback,
        };
        let there = self
            .engine
            .turns
            .tell_turn(&scope, turn.session_id.clone(), request(&turn), told)
            .await?;
        if there
            .identity_id
            .as_ref()
            .is_some_and(|there| *there != identity)
        {
            let what = format!("turn {} is another identity's", turn.turn_id);
            return Err(Failure::new(ErrorCode::TurnMismatch, what));
        }
        if there.status == TurnStatus::Open && is_final {
            let request = FinalizeTurn {
                request_id: Some(turn.request_id),
                answer_neutral: turn.answer_neutral,
                answer_translated: turn.answer_translated,
                answer_translated_is_fallback: Some(turn.answer_translated_is_fallback),
                metadata: Some(turn.metadata),
                fence: None,
                release: false,
            };
            self.engine
                .turns
                .finalize(&scope, turn.session_id, turn.turn_id, request)
                .await?;
        }
        Ok(())
    }

    async fn upsert_turn_final(&self, call: UserTurnFinal) -> Result<(), Failure> {
        let text = |text: &str| JsonText::from_plain(text);
        let request = FinalizeTurn {
            request_id: None,
            answer_neutral: Some(text(&call.answer_neutral)),
            answer_translated: call.answer_translated.as_deref().map(text),
            answer_translated_is_fallback: call.answer_translated_is_fallback,
            metadata: call.meta,
            fence: None,
            release: false,
        };
        let scope = self.caller(call.identity_id);
        self.engine
            .turns
            .finalize(&scope, call.session_id, call.turn_id, request)
            .await?;
        Ok(())
    }
}
