//! Session-scoped history over an engine.

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_types::{Failure, IdentityId, JsonText, TenantId, Turn, TurnId};

use super::recent;
use super::{RecentQuery, SessionConversationStore, TurnFinal, TurnStart};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::requests::{FinalizeTurn, StartTurn};

/// Session-scoped history of one tenant over any engine. Over one whose ledger is
/// [`filrouge_store::hot::EphemeralSessions`] it is the contract's ephemeral store: time to live, a cap on turns, nothing
/// on disk.
#[derive(Clone)]
pub struct EngineSessionStore {
    engine: Arc<Engine>,
    tenant: TenantId,
}

impl EngineSessionStore {
    /// The history of `tenant`.
    #[must_use]
    pub const fn new(engine: Arc<Engine>, tenant: TenantId) -> Self {
        Self { engine, tenant }
    }

    fn caller(&self, identity: Option<IdentityId>) -> Caller {
        Caller::local(self.tenant.clone(), identity)
    }
}

#[async_trait]
impl SessionConversationStore for EngineSessionStore {
    async fn start_turn(&self, call: TurnStart) -> Result<TurnId, Failure> {
        let text = |text: &str| JsonText::from_plain(text);
        let request = StartTurn {
            question_neutral: Some(text(&call.question_neutral)),
            question_translated: call.question_translated.as_deref().map(text),
            translate_chat: call.translate_chat,
            metadata: call.meta,
            ..StartTurn::new(call.request_id)
        };
        let scope = self.caller(call.identity_id);
        let turn = self.engine.turns.start(&scope, call.session_id, request);
        Ok(turn.await?.turn_id)
    }

    async fn finalize_turn(&self, call: TurnFinal) -> Result<(), Failure> {
        let text = |text: &str| JsonText::from_plain(text);
        let request = FinalizeTurn {
            request_id: Some(call.request_id),
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

    async fn list_recent_finalized_turns(&self, call: RecentQuery) -> Result<Vec<Turn>, Failure> {
        let scope = self.caller(call.identity_id);
        recent::finalized(&self.engine, &scope, &call.session_id, call.limit).await
    }
}
