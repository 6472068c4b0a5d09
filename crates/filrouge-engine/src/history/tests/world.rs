//! The stores on which the rules are tested.

use std::sync::Arc;

use filrouge_store::hot::{EphemeralSessions, HotBounds, HotStore, MemoryHot, OpenGate};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{
    Failure, FixedClock, IdentityId, JsonText, RawJson, RequestId, Session, SessionId, TenantId,
    Turn, TurnId,
};

use crate::caller::Caller;
use crate::history::History;
use crate::scopes::{DurablePolicy, TierOptions, TieredLedger};
use crate::{Engine, FinalizeTurn, Settings, StartTurn};

pub(super) const NOW: i64 = 1_700_000_000_000_000;

pub(super) struct HistoryWorld {
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

/// An identity; none for an empty name.
pub(super) fn identity(name: &str) -> Option<IdentityId> {
    (!name.is_empty()).then(|| name.parse().unwrap())
}

pub(super) fn as_user(name: &str) -> Caller {
    Caller::local(tenant(), identity(name))
}

pub(super) fn json(text: &str) -> Option<RawJson> {
    Some(RawJson::parse(text).unwrap())
}

pub(super) fn text(text: &str) -> Option<JsonText> {
    Some(JsonText::from_plain(text))
}

/// The arguments of a call.
#[derive(Debug, Clone)]
pub(super) struct WorldCall<R> {
    pub(super) identity_id: Option<IdentityId>,
    pub(super) session: SessionId,
    pub(super) turn: Option<TurnId>,
    pub(super) request: R,
    pub(super) start: Option<StartTurn>,
}

fn call<R>(session: &str, user: &str, turn: Option<TurnId>, request: R) -> WorldCall<R> {
    WorldCall {
        identity_id: identity(user),
        session: id(session),
        turn,
        request,
        start: None,
    }
}

/// The arguments of a call that writes a question.
pub(super) fn question_call(
    session: &str,
    name: &str,
    user: &str,
    question: &str,
) -> WorldCall<StartTurn> {
    let request = StartTurn {
        question_neutral: text(question),
        ..StartTurn::new(request(name))
    };
    call(session, user, None, request)
}

/// The arguments of a call without an identity that writes a question.
pub(super) fn anonymous_question(
    session: &str,
    name: &str,
    question: &str,
) -> WorldCall<StartTurn> {
    question_call(session, name, "", question)
}

/// The arguments of a call without an identity that writes an answer.
pub(super) fn anonymous_answer(
    session: &str,
    name: &str,
    turn_id: TurnId,
    answer: &str,
) -> WorldCall<FinalizeTurn> {
    let request = FinalizeTurn {
        request_id: Some(request(name)),
        answer_neutral: text(answer),
        ..FinalizeTurn::default()
    };
    call(session, "", Some(turn_id), request)
}

/// The arguments of the call that finalizes the turn of `start`.
pub(super) fn answer_call(
    start: &WorldCall<StartTurn>,
    turn: Option<TurnId>,
    answer: &str,
) -> WorldCall<FinalizeTurn> {
    WorldCall {
        identity_id: start.identity_id.clone(),
        session: start.session.clone(),
        turn,
        request: FinalizeTurn {
            request_id: Some(start.request.request_id.clone()),
            answer_neutral: text(answer),
            ..FinalizeTurn::default()
        },
        start: None,
    }
}

impl History {
    pub(super) async fn start(&self, call: WorldCall<StartTurn>) -> Result<TurnId, Failure> {
        self.start_turn(call.identity_id, call.session, call.request)
            .await
    }

    pub(super) async fn finalize(&self, call: WorldCall<FinalizeTurn>) -> Result<(), Failure> {
        self.finalize_turn(
            call.identity_id,
            call.session,
            call.turn.unwrap(),
            call.request,
        )
        .await
    }

    pub(super) async fn request_started(
        &self,
        call: WorldCall<StartTurn>,
    ) -> Result<TurnId, Failure> {
        self.on_request_started(call.identity_id, call.session, call.request)
            .await
    }

    pub(super) async fn request_finalized(
        &self,
        call: WorldCall<FinalizeTurn>,
    ) -> Result<(), Failure> {
        let WorldCall {
            identity_id,
            session,
            turn,
            request,
            start,
        } = call;
        self.on_request_finalized(identity_id, session, turn, request, start)
            .await
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

impl HistoryWorld {
    fn with_ledger(ledger: Arc<dyn Ledger>, clock: Arc<FixedClock>) -> Self {
        let settings = Settings::default();
        let engine = Engine::new(ledger, Arc::new(OsEntropy), clock.clone(), settings);
        Self {
            engine: Arc::new(engine),
            clock,
        }
    }

    /// A ledger only.
    pub(super) fn ledger() -> Self {
        let clock = Arc::new(FixedClock::at(NOW));
        let ledger = MemoryLedger::new(keyring(), Arc::new(OsEntropy), clock.clone());
        Self::with_ledger(Arc::new(ledger), clock)
    }

    /// A hot store only: the contract's session store.
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
        Self::with_ledger(Arc::new(sessions), clock)
    }

    /// A hot store in front of a ledger that stores the sessions of identities.
    pub(super) fn tiered() -> Self {
        Self::tiered_with_policy(DurablePolicy::Authenticated)
    }

    /// A hot store in front of a ledger that stores all sessions.
    pub(super) fn tiered_all_durable() -> Self {
        Self::tiered_with_policy(DurablePolicy::All)
    }

    fn tiered_with_policy(durable: DurablePolicy) -> Self {
        let clock = Arc::new(FixedClock::at(NOW));
        let ledger = MemoryLedger::new(keyring(), Arc::new(OsEntropy), clock.clone());
        let options = TierOptions {
            durable,
            ..TierOptions::default()
        };
        let tiers = TieredLedger::new(
            Arc::new(ledger),
            hot_store(&clock),
            keyring(),
            Arc::new(OsEntropy),
            clock.clone(),
            options,
        );
        Self::with_ledger(tiers, clock)
    }

    pub(super) fn history(&self) -> History {
        History::new(self.engine.clone(), tenant())
    }

    /// Writes a finalized turn through the session scope.
    pub(super) async fn exchange(&self, session: &str, name: &str, texts: (&str, &str)) -> TurnId {
        let store = self.history();
        let turn = store
            .start(anonymous_question(session, name, texts.0))
            .await
            .unwrap();
        let end = anonymous_answer(session, name, turn, texts.1);
        store.finalize(end).await.unwrap();
        turn
    }

    pub(super) async fn recent(&self, session: &str, user: &str, limit: usize) -> Vec<Turn> {
        let (identity_id, id) = (identity(user), id(session));
        let recent = self.history();
        let recent = recent.list_recent_finalized_turns(identity_id, &id, limit);
        recent.await.unwrap()
    }

    pub(super) async fn session(&self, session: &str, user: &str) -> Result<Session, Failure> {
        let (caller, id) = (as_user(user), id(session));
        self.engine.sessions.get(&caller, &id).await
    }

    pub(super) async fn turn(&self, session: &str, user: &str, turn: TurnId) -> Turn {
        let (caller, id) = (as_user(user), id(session));
        self.engine.turns.get(&caller, &id, turn).await.unwrap()
    }

    /// The questions and answers of turns.
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
