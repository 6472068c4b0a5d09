//! What the rules are tried on.

use std::sync::Arc;

use filrouge_store::hot::{EphemeralSessions, HotBounds, HotStore, MemoryHot, OpenGate};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{
    Failure, FixedClock, IdentityId, RawJson, RequestId, Session, SessionId, TenantId, Turn, TurnId,
};

use crate::caller::Caller;
use crate::history::{
    EngineSessionStore, EngineUserStore, HistoryOptions, HistoryService, RecentQuery,
    RequestFinalized, RequestStarted, SessionConversationStore, TurnFinal, TurnStart,
};
use crate::scopes::{DurablePolicy, ScopeOptions, TwoScopes};
use crate::{Engine, Settings};

pub(super) const NOW: i64 = 1_700_000_000_000_000;

pub(super) struct World {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: Arc<FixedClock>,
}

pub(super) fn tenant() -> TenantId {
    TenantId::default_tenant()
}

pub(super) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(super) fn request(name: &str) -> RequestId {
    name.parse().unwrap()
}

pub(super) fn who(name: &str) -> Option<IdentityId> {
    (!name.is_empty()).then(|| name.parse().unwrap())
}

pub(super) fn as_user(name: &str) -> Caller {
    Caller::local(tenant(), who(name))
}

pub(super) fn json(text: &str) -> Option<RawJson> {
    Some(RawJson::parse(text).unwrap())
}

/// `start_turn`, with a question.
pub(super) fn start(session: &str, name: &str, question: &str) -> TurnStart {
    TurnStart {
        session_id: id(session),
        request_id: request(name),
        identity_id: None,
        question_neutral: question.to_owned(),
        question_translated: None,
        translate_chat: false,
        meta: None,
    }
}

/// `finalize_turn`, with an answer.
pub(super) fn finish(session: &str, name: &str, turn_id: TurnId, answer: &str) -> TurnFinal {
    TurnFinal {
        session_id: id(session),
        request_id: request(name),
        turn_id,
        identity_id: None,
        answer_neutral: answer.to_owned(),
        answer_translated: None,
        answer_translated_is_fallback: None,
        meta: None,
    }
}

/// `on_request_started`, with a question.
pub(super) fn started(session: &str, name: &str, user: &str, question: &str) -> RequestStarted {
    RequestStarted {
        session_id: id(session),
        request_id: request(name),
        identity_id: who(user),
        question_neutral: Some(question.to_owned()),
        question_translated: None,
        translate_chat: false,
        pipeline_name: None,
        consultant: None,
        repository: None,
        meta: None,
    }
}

/// `on_request_finalized`, with an answer.
pub(super) fn finalized(
    of: &RequestStarted,
    turn_id: Option<TurnId>,
    answer: &str,
) -> RequestFinalized {
    RequestFinalized {
        session_id: of.session_id.clone(),
        request_id: of.request_id.clone(),
        turn_id,
        identity_id: of.identity_id.clone(),
        answer_neutral: answer.to_owned(),
        answer_translated: None,
        answer_translated_is_fallback: None,
        meta: None,
        start: None,
    }
}

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::single([7; 32]))
}

fn hot_store(clock: &Arc<FixedClock>) -> Arc<dyn HotStore> {
    Arc::new(MemoryHot::new(
        HotBounds::default(),
        64 << 20,
        clock.clone(),
    ))
}

impl World {
    fn over(ledger: Arc<dyn Ledger>, clock: Arc<FixedClock>) -> Self {
        let settings = Settings::default();
        let engine = Engine::new(ledger, Arc::new(OsEntropy), clock.clone(), settings);
        Self {
            engine: Arc::new(engine),
            clock,
        }
    }

    /// A ledger alone.
    pub(super) fn ledger() -> Self {
        let clock = Arc::new(FixedClock::at(NOW));
        let ledger = MemoryLedger::new(keyring(), Arc::new(OsEntropy), clock.clone());
        Self::over(Arc::new(ledger), clock)
    }

    /// A hot store alone: the contract's session store.
    pub(super) fn hot() -> Self {
        let clock = Arc::new(FixedClock::at(NOW));
        let sessions = EphemeralSessions::new(
            hot_store(&clock),
            Arc::new(OpenGate),
            keyring(),
            Arc::new(OsEntropy),
            clock.clone(),
            "hot",
        );
        Self::over(Arc::new(sessions), clock)
    }

    /// A hot store before a ledger, in which the sessions of an identity are.
    pub(super) fn two_scopes() -> Self {
        Self::scopes(DurablePolicy::Authenticated)
    }

    /// A hot store before a ledger, in which all sessions are.
    pub(super) fn copies() -> Self {
        Self::scopes(DurablePolicy::All)
    }

    fn scopes(durable: DurablePolicy) -> Self {
        let clock = Arc::new(FixedClock::at(NOW));
        let ledger = MemoryLedger::new(keyring(), Arc::new(OsEntropy), clock.clone());
        let options = ScopeOptions {
            durable,
            ..ScopeOptions::default()
        };
        let scopes = TwoScopes::new(
            Arc::new(ledger),
            hot_store(&clock),
            keyring(),
            Arc::new(OsEntropy),
            clock.clone(),
            options,
        );
        Self::over(scopes, clock)
    }

    pub(super) fn sessions(&self) -> EngineSessionStore {
        EngineSessionStore::new(self.engine.clone(), tenant())
    }

    pub(super) fn users(&self) -> EngineUserStore {
        EngineUserStore::new(self.engine.clone(), tenant())
    }

    pub(super) fn service(&self) -> HistoryService {
        HistoryService::new(self.engine.clone(), tenant(), HistoryOptions::default())
    }

    /// A finished turn by the session store.
    pub(super) async fn exchange(&self, session: &str, name: &str, texts: (&str, &str)) -> TurnId {
        let store = self.sessions();
        let turn = store
            .start_turn(start(session, name, texts.0))
            .await
            .unwrap();
        let end = finish(session, name, turn, texts.1);
        store.finalize_turn(end).await.unwrap();
        turn
    }

    pub(super) async fn recent(&self, session: &str, user: &str, limit: usize) -> Vec<Turn> {
        let query = RecentQuery {
            session_id: id(session),
            identity_id: who(user),
            limit,
        };
        let store = self.sessions();
        store.list_recent_finalized_turns(query).await.unwrap()
    }

    pub(super) async fn session(&self, session: &str, user: &str) -> Result<Session, Failure> {
        let (caller, id) = (as_user(user), id(session));
        self.engine.sessions.get(&caller, &id).await
    }

    pub(super) async fn turn(&self, session: &str, user: &str, turn: TurnId) -> Turn {
        let (caller, id) = (as_user(user), id(session));
        self.engine.turns.get(&caller, &id, turn).await.unwrap()
    }

    /// Questions and answers of turns.
    pub(super) fn texts(turns: &[Turn]) -> Vec<(String, String)> {
        let plain = |t: &Option<filrouge_types::JsonText>| {
            t.as_ref()
                .map(filrouge_types::JsonText::to_plain)
                .unwrap_or_default()
        };
        let pair = |t: &Turn| (plain(&t.question_neutral), plain(&t.answer_neutral));
        turns.iter().map(pair).collect()
    }
}
