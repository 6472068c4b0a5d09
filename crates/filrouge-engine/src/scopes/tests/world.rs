//! One ledger and one hot store for any number of processes, and helpers for requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_store::hot::{HotBounds, HotKey, HotStore, MemoryHot};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::{Keyring, Ledger, OsEntropy, Scope, Viewer};
use filrouge_types::{
    Clock, ErrorCode, Failure, FixedClock, IdentityId, JsonText, SessionId, TenantId, Turn, TurnId,
    TurnStatus,
};

use super::super::{DurablePolicy, TierOptions, TieredLedger};
use super::stores::{Dump, FailingHot, FailingLedger, FailureSwitch};
use crate::caller::Caller;
use crate::scopes::RecentTurns;
use crate::{Engine, FinalizeTurn, RedactTurn, Settings, StartTurn, Written};

/// State shared by all processes.
pub(super) struct TierWorld {
    pub(super) keyring: Arc<Keyring>,
    pub(super) clock: Arc<FixedClock>,
    pub(super) ledger: Arc<MemoryLedger>,
    pub(super) hot: Arc<MemoryHot>,
    pub(super) dump: Arc<Mutex<Dump>>,
    pub(super) durable: DurablePolicy,
}

/// One process.
pub(super) struct TierProcess {
    pub(super) tiers: Arc<TieredLedger>,
    pub(super) engine: Engine,
    pub(super) ledger_switch: Arc<FailureSwitch>,
    pub(super) hot_switch: Arc<FailureSwitch>,
}

pub(super) fn sid(id: &str) -> SessionId {
    id.parse().unwrap()
}

pub(super) fn anonymous() -> Scope {
    Scope::new(TenantId::default_tenant(), Viewer::EndUser(None))
}

pub(super) fn user(name: &str) -> Scope {
    let identity: IdentityId = name.parse().unwrap();
    let viewer = Viewer::EndUser(Some(identity));
    Scope::new(TenantId::default_tenant(), viewer)
}

pub(super) fn operator() -> Scope {
    Scope::new(TenantId::default_tenant(), Viewer::Operator)
}

pub(super) fn text(text: &str) -> Option<JsonText> {
    Some(JsonText::from_plain(text))
}

pub(super) fn query(limit: usize) -> TurnQuery {
    TurnQuery {
        status: Some(TurnStatus::Finalized),
        order: TurnOrder::Newest,
        limit,
        ..TurnQuery::default()
    }
}

/// The server's answer to a list of the newest turns.
pub(super) type Page = (Vec<String>, Option<String>);

pub(super) fn page_of(recent: RecentTurns) -> Page {
    let turns = recent.turns.into_iter();
    let turns = turns.map(|turn| String::from_utf8(turn).unwrap());
    (turns.collect(), recent.next_cursor)
}

impl TierWorld {
    pub(super) fn new(durable: DurablePolicy) -> Self {
        Self::bounded(durable, HotBounds::default())
    }

    pub(super) fn bounded(durable: DurablePolicy, bounds: HotBounds) -> Self {
        let keyring = Arc::new(Keyring::single([7; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let ledger = MemoryLedger::new(keyring.clone(), Arc::new(OsEntropy), clock.clone());
        Self {
            keyring,
            ledger: Arc::new(ledger),
            hot: Arc::new(MemoryHot::new(bounds, 256 << 20, clock.clone())),
            clock,
            dump: Arc::default(),
            durable,
        }
    }

    pub(super) fn process(&self) -> TierProcess {
        self.process_with(Arc::default(), Arc::default())
    }

    pub(super) fn process_with(
        &self,
        ledger_switch: Arc<FailureSwitch>,
        hot_switch: Arc<FailureSwitch>,
    ) -> TierProcess {
        let ledger = Arc::new(FailingLedger {
            inner: self.ledger.clone(),
            switch: ledger_switch.clone(),
        });
        let hot = Arc::new(FailingHot {
            inner: self.hot.clone(),
            switch: hot_switch.clone(),
            dump: self.dump.clone(),
        });
        let options = TierOptions {
            durable: self.durable,
            ..TierOptions::default()
        };
        let tiers = TieredLedger::new(
            ledger,
            hot,
            self.keyring.clone(),
            Arc::new(OsEntropy),
            self.clock.clone(),
            options,
        );
        TierProcess {
            engine: self.engine(tiers.clone()),
            tiers,
            ledger_switch,
            hot_switch,
        }
    }

    fn engine(&self, ledger: Arc<dyn Ledger>) -> Engine {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Engine::new(ledger, Arc::new(OsEntropy), clock, Settings::default())
    }

    /// An engine without a hot store.
    pub(super) fn bypass(&self) -> Engine {
        self.engine(self.ledger.clone())
    }

    pub(super) fn key(&self, session: &SessionId) -> HotKey {
        let tenant = TenantId::default_tenant();
        HotKey::new(self.ledger.store_id(), &tenant, session)
    }

    pub(super) fn tick(&self) {
        self.clock.advance(1_000_000);
    }

    /// The ledger's answer to a list of the newest turns.
    pub(super) async fn page(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Page, Failure> {
        let ledger: &dyn Ledger = self.ledger.as_ref();
        let (turns, next) = ledger.turns(scope, session, query(limit)).await?;
        let turns = turns.iter().map(|t| serde_json::to_string(t).unwrap());
        Ok((turns.collect(), next))
    }

    /// All bytes of a session in the hot store.
    pub(super) async fn hot_bytes(&self, session: &SessionId) -> Vec<u8> {
        let key = self.key(session);
        let mut bytes = Vec::new();
        if let Some(loaded) = self.hot.load(&key).await.unwrap() {
            bytes.extend(loaded.fields.into_iter().flat_map(|field| field.value));
        }
        if let Some(copy) = self.hot.recent(&key, 1000).await.unwrap() {
            bytes.extend(copy.turns.into_iter().flat_map(|turn| turn.record));
        }
        bytes
    }
}

impl TierProcess {
    pub(super) fn ledger(&self) -> &dyn Ledger {
        self.tiers.as_ref()
    }

    pub(super) async fn start(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &str,
    ) -> Result<Turn, Failure> {
        let start = StartTurn {
            question_neutral: text(&format!("what is {request}")),
            ..StartTurn::new(request.parse().unwrap())
        };
        let caller = Caller::from(scope);
        let started = self.engine.turns.start(&caller, session.clone(), start);
        started.await.map(|turn| turn.value)
    }

    pub(super) async fn complete_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &str,
    ) -> Result<Turn, Failure> {
        let written = self.write_turn(scope, session, request).await;
        written.map(Written::into_value)
    }

    pub(super) async fn write_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &str,
    ) -> Result<Written<Turn>, Failure> {
        let start = StartTurn {
            question_neutral: text(&format!("what is {request}")),
            answer_neutral: text(&format!("{request} it is")),
            ..StartTurn::new(request.parse().unwrap())
        };
        let caller = Caller::from(scope);
        self.engine
            .turns
            .start(&caller, session.clone(), start)
            .await
    }

    pub(super) async fn finalize(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: TurnId,
        answer: &str,
    ) -> Result<Turn, Failure> {
        let finalize = FinalizeTurn {
            answer_neutral: text(answer),
            ..FinalizeTurn::default()
        };
        let caller = Caller::from(scope);
        let finalized = self
            .engine
            .turns
            .finalize(&caller, session.clone(), turn, finalize);
        finalized.await.map(|turn| turn.value)
    }

    pub(super) async fn redact(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: TurnId,
    ) -> Result<Turn, Failure> {
        let reason = RedactTurn {
            reason: "on request".into(),
        };
        self.engine
            .erasure
            .redact_turn(&Caller::from(scope), session.clone(), turn, reason)
            .await
            .map(Written::into_value)
    }

    /// The newest finalized turns, as the server requests them.
    pub(super) async fn page(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Page, Failure> {
        if let Some(recent) = self.tiers.recent_turns(scope, session, limit).await? {
            return Ok(page_of(recent));
        }
        let (turns, next) = self.ledger().turns(scope, session, query(limit)).await?;
        let turns = turns.iter().map(|t| serde_json::to_string(t).unwrap());
        Ok((turns.collect(), next))
    }

    /// All turns of a session, including redacted ones.
    pub(super) async fn turns(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Vec<Turn>, Failure> {
        let all = TurnQuery {
            include_redacted: true,
            limit: 1000,
            ..TurnQuery::default()
        };
        self.ledger()
            .turns(scope, session, all)
            .await
            .map(|(turns, _)| turns)
    }
}

/// The failure's code.
pub(super) fn code<T: std::fmt::Debug>(answer: Result<T, Failure>) -> ErrorCode {
    answer.unwrap_err().code
}

/// Waits until `condition` returns true; `description` describes the condition for the panic message.
pub(super) async fn wait_until(description: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..6000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("timed out waiting until {description}");
}

impl From<&Scope> for Caller {
    fn from(scope: &Scope) -> Self {
        let tenant = scope.tenant.clone();
        match &scope.viewer {
            Viewer::Operator => Self::operator(tenant),
            Viewer::EndUser(identity) => Self::local(tenant, identity.clone()),
        }
        .with_token(scope.token)
        .with_fence(scope.fence)
        .with_name(scope.key.clone())
    }
}
