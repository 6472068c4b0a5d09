//! What a server calls for every request.

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_types::{ErrorCode, Failure, IdentityId, JsonText, SessionId, TenantId, Turn, TurnId};

use super::recent;
use super::{
    ConversationHistoryService, QuestionAnswer, RecentQuery, RequestFinalized, RequestStarted,
};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::requests::{FinalizeTurn, StartTurn};

/// How the service behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryOptions {
    /// For development and tests alone: a request that is finalized without a `turn_id` is started first, with what
    /// [`RequestFinalized::start`] says. Off, as in production, that is an error.
    pub best_effort_finalize: bool,
}

/// The history of one tenant. Over an engine whose ledger is [`crate::scopes::TwoScopes`] the turns of who is nobody are
/// ephemeral, those of an identity durable, and what was said before a login comes along.
#[derive(Clone)]
pub struct HistoryService {
    engine: Arc<Engine>,
    tenant: TenantId,
    options: HistoryOptions,
}

impl HistoryService {
    /// The history of `tenant`.
    #[must_use]
    pub const fn new(engine: Arc<Engine>, tenant: TenantId, options: HistoryOptions) -> Self {
        Self {
            engine,
            tenant,
            options,
        }
    }

    fn caller(&self, identity: Option<IdentityId>) -> Caller {
        Caller::local(self.tenant.clone(), identity)
    }

    /// What prompts are made of: questions and answers of the newest finalized turns in the neutral language, oldest
    /// first. A question that was asked twice is there twice. A turn whose answer has no text is left out, redacted and
    /// replaced ones are; of a session that is not there, there are none.
    ///
    /// # Errors
    /// `session_erased`, `integrity_error`, and the store's.
    pub async fn load_conversation_history(
        &self,
        call: RecentQuery,
    ) -> Result<Vec<QuestionAnswer>, Failure> {
        let caller = self.caller(call.identity_id);
        let turns = recent::finalized(&self.engine, &caller, &call.session_id, call.limit).await?;
        let pair = |turn: &Turn| {
            Some(QuestionAnswer {
                question_neutral: turn.question_neutral.as_ref()?.to_plain(),
                answer_neutral: turn.answer_neutral.as_ref()?.to_plain(),
            })
        };
        Ok(turns.iter().filter_map(pair).collect())
    }

    /// Sees to it that the session is the identity's before anything is written in its name; `false` when there is no
    /// session yet.
    async fn link(&self, identity: &IdentityId, session: &SessionId) -> Result<bool, Failure> {
        let caller = self.caller(Some(identity.clone()));
        match self.engine.sessions.get(&caller, session).await {
            Ok(found) if found.identity_id.is_some() => return Ok(true),
            Err(failure) if !is_absent(&failure) => return Err(failure),
            // Nobody's, or nowhere, or somebody else's: which of these, linking finds out and logs.
            _ => {}
        }
        let linked = self
            .engine
            .sessions
            .link(&caller, session.clone(), identity.clone());
        match linked.await {
            Ok(_) => Ok(true),
            Err(failure) if is_absent(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

/// Whether there is no session, as far as the ledger knows. What a hot store that does not answer has of it comes late.
pub(super) fn is_absent(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::SessionNotFound | ErrorCode::HotUnavailable
    )
}

#[async_trait]
impl ConversationHistoryService for HistoryService {
    async fn on_request_started(&self, call: RequestStarted) -> Result<TurnId, Failure> {
        let is_linked = match &call.identity_id {
            Some(identity) => self.link(identity, &call.session_id).await?,
            None => true,
        };
        let text = |text: &str| JsonText::from_plain(text);
        let label = |label: Option<String>| label.map(String::into_boxed_str);
        let request = StartTurn {
            question_neutral: call.question_neutral.as_deref().map(text),
            question_translated: call.question_translated.as_deref().map(text),
            translate_chat: call.translate_chat,
            pipeline_name: label(call.pipeline_name),
            consultant: label(call.consultant),
            repository: label(call.repository),
            metadata: call.meta,
            ..StartTurn::new(call.request_id)
        };
        let caller = self.caller(call.identity_id.clone());
        let turn = self
            .engine
            .turns
            .start(&caller, call.session_id.clone(), request)
            .await?;
        // Somebody who is nobody has made the session in between.
        if let Some(identity) = call.identity_id.filter(|_| !is_linked)
            && turn.first_seq > 1
        {
            self.link(&identity, &call.session_id).await?;
        }
        Ok(turn.turn_id)
    }

    async fn on_request_finalized(&self, call: RequestFinalized) -> Result<(), Failure> {
        let turn_id = match (call.turn_id, call.start) {
            (Some(turn), _) => turn,
            (None, Some(start)) if self.options.best_effort_finalize => {
                self.on_request_started(*start).await?
            }
            (None, _) => {
                let what =
                    "turn_id is missing: a request is finalized by the id that its start gave";
                return Err(Failure::new(ErrorCode::Invalid, what)
                    .with_hint("call on_request_started before the work begins"));
            }
        };
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
        let caller = self.caller(call.identity_id);
        self.engine
            .turns
            .finalize(&caller, call.session_id, turn_id, request)
            .await?;
        Ok(())
    }
}
