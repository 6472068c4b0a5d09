//! A ledger in memory, a clock that stands still, and a projection with a target in memory.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::caller::Permission;
use filrouge_engine::{
    Caller, CreateSession, Engine, PatchSession, RecordEvent, Settings, StartTurn, StoreReceipt,
};
use filrouge_store::command::RedactionTarget;
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::Seqs;
use filrouge_store::{Keyring, Lanes, OsEntropy};
use filrouge_types::{Clock, FixedClock, JsonText, SessionId, TenantId};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::memory::MemoryTarget;
use crate::projection::Counts;
use crate::projector::Next;
use crate::target::SessionKey;
use crate::{
    Difference, ForeignHistory, Projection, ProjectionCleaner, ProjectionStatus, Projector,
    Selection, Verified, projection_status, verify,
};

/// Words that are redacted or erased.
pub(super) const SECRET: &str = "moonflower";

pub(super) struct World {
    pub(super) clock: Arc<FixedClock>,
    ledger: Arc<MemoryLedger>,
    pub(super) engine: Arc<Engine>,
    pub(super) target: Arc<MemoryTarget>,
    pub(super) projection: Arc<Projection>,
}

pub(super) fn caller() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

pub(super) fn key(session: &str) -> SessionKey {
    SessionKey {
        tenant: TenantId::default_tenant(),
        session: session.parse().unwrap(),
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_target(Arc::default(), Duration::from_secs(30))
    }

    /// A world in which a receipt waits only briefly.
    pub(super) fn impatient() -> Self {
        Self::with_target(Arc::default(), Duration::from_millis(200))
    }

    pub(super) fn with_target(target: Arc<MemoryTarget>, clean_timeout: Duration) -> Self {
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let keyring = Arc::new(Keyring::single([1; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let ledger = Arc::new(ledger.with_lanes(Lanes::new(3).unwrap()));
        let selection = Selection::default();
        Self::over(ledger, clock, target, selection, clean_timeout, None)
    }

    /// The same store and target, with a projection of another program's history, in another process.
    pub(super) fn with_history(&self, history: ForeignHistory) -> Self {
        Self::over(
            self.ledger.clone(),
            self.clock.clone(),
            self.target.clone(),
            self.projection.selection.clone(),
            self.projection.clean_timeout,
            Some(Arc::new(history)),
        )
    }

    /// The same store and target in another process, in which a receipt waits only briefly.
    pub(super) fn impatient_process(&self) -> Self {
        let (ledger, clock) = (self.ledger.clone(), self.clock.clone());
        let (selection, wait) = (
            self.projection.selection.clone(),
            Duration::from_millis(200),
        );
        let (target, history) = (self.target.clone(), self.projection.history.clone());
        Self::over(ledger, clock, target, selection, wait, history)
    }

    /// The same store and target with other settings, in another process.
    pub(super) fn with_selection(&self, selection: Selection) -> Self {
        let (ledger, clock) = (self.ledger.clone(), self.clock.clone());
        let clean_timeout = self.projection.clean_timeout;
        let (target, history) = (self.target.clone(), self.projection.history.clone());
        Self::over(ledger, clock, target, selection, clean_timeout, history)
    }

    fn over(
        ledger: Arc<MemoryLedger>,
        clock: Arc<FixedClock>,
        target: Arc<MemoryTarget>,
        selection: Selection,
        clean_timeout: Duration,
        history: Option<Arc<ForeignHistory>>,
    ) -> Self {
        let settings = Settings::default();
        let engine = Engine::new(ledger.clone(), Arc::new(OsEntropy), clock.clone(), settings);
        let engine = Arc::new(engine);
        let projection = Arc::new(Projection {
            name: "copy".parse().unwrap(),
            target: target.clone(),
            structure: "memory/1".to_owned(),
            history,
            selection,
            timeout: Duration::from_secs(20),
            clean_timeout,
            counts: Counts::default(),
        });
        ProjectionCleaner::install(&engine, vec![projection.clone()], clock.clone());
        Self {
            clock,
            ledger,
            engine,
            target,
            projection,
        }
    }

    /// A projector in another process.
    pub(super) fn projector(&self) -> Projector {
        let (projection, engine) = (self.projection.clone(), self.engine.clone());
        Projector::new(projection, engine, self.clock.clone(), Arc::new(OsEntropy)).unwrap()
    }

    /// A projector that runs in the background until the sender becomes true.
    pub(super) fn start(&self) -> (watch::Sender<bool>, JoinHandle<()>) {
        let (stop, stopping) = watch::channel(false);
        (stop, tokio::spawn(self.projector().run(stopping)))
    }

    pub(super) async fn create(&self, session: &str) {
        let request: CreateSession =
            serde_json::from_value(serde_json::json!({ "session_id": session })).unwrap();
        let caller = caller();
        let created = self.engine.sessions.create(&caller, request);
        created.await.unwrap();
    }

    /// Adds a turn with a question at one seq and this answer at the next.
    pub(super) async fn answer(&self, session: &str, request: &str, answer: &str) {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain("what is it?")),
            answer_neutral: Some(JsonText::from_plain(answer)),
            ..StartTurn::new(request.parse().unwrap())
        };
        let session: SessionId = session.parse().unwrap();
        let caller = caller();
        let started = self.engine.turns.start(&caller, session, start);
        started.await.unwrap();
    }

    pub(super) async fn create_with_secret(&self, session: &str) {
        self.create(session).await;
        self.answer(session, "r1", SECRET).await;
    }

    pub(super) async fn patch(&self, session: &str, title: &str) {
        let request = PatchSession {
            title: Some(Some(title.into())),
            ..PatchSession::default()
        };
        let session = session.parse().unwrap();
        let caller = caller();
        let patched = self.engine.sessions.patch(&caller, session, request, None);
        patched.await.unwrap();
    }

    pub(super) async fn record_event(&self, session: &str, key: &str) {
        let event = RecordEvent {
            key: key.parse().unwrap(),
            kind: "call_started".into(),
            at: None,
            detail: None,
        };
        let session = session.parse().unwrap();
        let caller = caller();
        let recorded = self.engine.events.record(&caller, session, event);
        recorded.await.unwrap();
    }

    /// Redacts the answer of the first turn, as the command line does; returns the projection's receipt.
    pub(super) async fn redact(&self, session: &str) -> StoreReceipt {
        let session: SessionId = session.parse().unwrap();
        let target = RedactionTarget::Items(Seqs::from_ranges(vec![(2, 2)]).unwrap());
        let erasure = &self.engine.erasure;
        let caller = caller();
        let redacted = erasure.redact_in_ledger(&caller, session.clone(), target, "asked to");
        redacted.await.unwrap();
        let scope = caller.scope(Permission::Redact).unwrap();
        let mut receipts = erasure.store_receipts(&scope, &session).await;
        receipts.pop().unwrap()
    }

    /// Erases a session; returns the projection's receipt.
    pub(super) async fn erase(&self, session: &str) -> StoreReceipt {
        let session = session.parse().unwrap();
        let caller = caller();
        let erased = self.engine.erasure.erase(&caller, session);
        erased.await.unwrap().into_value().stores.pop().unwrap()
    }

    /// Runs steps until the projector waits for a commit.
    pub(super) async fn run_until_idle(&self, projector: &mut Projector) {
        for _ in 0..1000 {
            match projector.step().await.unwrap() {
                Next::Again => {}
                Next::Commit => return,
                Next::At(time) => panic!("the projector waits until {time}"),
            }
        }
        panic!("the projector never waits for a commit");
    }

    /// Fills the projection, and stops.
    pub(super) async fn fill(&self) {
        let mut projector = self.projector();
        self.run_until_idle(&mut projector).await;
        projector.release().await;
    }

    /// Waits until the claim of a process that has stopped has ended.
    pub(super) fn end_claims(&self) {
        self.clock.advance(121 * 1_000_000);
    }

    pub(super) async fn status(&self) -> ProjectionStatus {
        let now = self.clock.now();
        let history = self.projection.history.as_ref();
        projection_status(&self.engine, &self.projection.name, history, None, now)
            .await
            .unwrap()
    }

    pub(super) async fn verify(&self) -> (Verified, Vec<Difference>) {
        let mut differences = Vec::new();
        let report = |difference: &Difference| differences.push(difference.clone());
        let verified = verify(&self.engine, &self.projection, report)
            .await
            .unwrap();
        (verified, differences)
    }

    /// Checks that the projection equals the ledger.
    pub(super) async fn check(&self) {
        let (verified, differences) = self.verify().await;
        assert_eq!(differences, Vec::new());
        assert_eq!(verified.lag_commits, 0);
    }

    pub(super) fn holds_secret(&self) -> bool {
        self.target.everything().contains(SECRET)
    }
}
