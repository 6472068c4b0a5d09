//! A store in memory with its engine, and helpers for its services.

use std::sync::{Arc, Mutex};

use filrouge_engine::Caller;
use filrouge_engine::bundle::{BundleReport, ImportedBundle, PublicKey, verify};
use filrouge_engine::{CreateSession, Engine, ListTurns, Settings};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::verify::Verdict;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{
    ErrorCode, Failure, FixedClock, IdentityId, Item, RequestId, SessionId, TenantId, Turn,
};

/// Runs a future to completion.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) fn session_id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub(crate) fn request_id(id: &str) -> RequestId {
    RequestId::new(id).unwrap()
}

fn tenant() -> TenantId {
    TenantId::new("t").unwrap()
}

/// The operator of the tenant `t`.
pub(crate) fn operator() -> Caller {
    Caller::operator(tenant())
}

pub(crate) fn user(name: &str) -> Caller {
    Caller::local(tenant(), Some(IdentityId::new(name).unwrap()))
}

#[track_caller]
pub(crate) fn error_code<T: std::fmt::Debug>(result: Result<T, Failure>) -> ErrorCode {
    result.unwrap_err().code
}

/// A store in memory with one key.
pub(crate) struct BundleWorld {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) keyring: Arc<Keyring>,
}

impl BundleWorld {
    pub(crate) fn new(key: u8) -> Self {
        let keyring = Arc::new(Keyring::single([key; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let ledger = MemoryLedger::new(keyring.clone(), Arc::new(OsEntropy), clock.clone());
        let settings = Settings::default();
        let engine = Engine::new(
            Arc::new(ledger),
            Arc::new(OsEntropy),
            clock.clone(),
            settings,
        );
        Self {
            engine,
            clock,
            keyring,
        }
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        PublicKey::from_keyring(&self.keyring, self.keyring.active()).unwrap()
    }

    pub(crate) async fn try_export(&self, caller: &Caller, id: &str) -> Result<String, Failure> {
        let written = Arc::new(Mutex::new(String::new()));
        let output = written.clone();
        let sink = Box::new(move |text: &str| {
            output.lock().unwrap().push_str(text);
            Ok(())
        });
        self.engine
            .bundles
            .export(caller, &session_id(id), sink)
            .await?;
        Ok(written.lock().unwrap().clone())
    }

    pub(crate) async fn export(&self, id: &str) -> String {
        self.try_export(&operator(), id).await.unwrap()
    }

    pub(crate) async fn import(&self, bundle: &str) -> Result<ImportedBundle, Failure> {
        self.import_as(&operator(), bundle, None).await
    }

    pub(crate) async fn import_as(
        &self,
        caller: &Caller,
        bundle: &str,
        key: Option<PublicKey>,
    ) -> Result<ImportedBundle, Failure> {
        let imported = self
            .engine
            .bundles
            .import(caller, bundle.as_bytes(), key)
            .await;
        let has_hint = imported
            .as_ref()
            .map_or_else(|f| f.hint.is_some(), |_| true);
        assert!(has_hint, "a refusal without a hint: {imported:?}");
        imported
    }

    /// Creates a session without turns.
    pub(crate) async fn create(&self, id: &str) {
        let create = CreateSession {
            session_id: Some(session_id(id)),
            ..CreateSession::default()
        };
        let created = self.engine.sessions.create(&operator(), create).await;
        assert!(!created.unwrap().replayed);
    }

    /// All turns in all versions.
    pub(crate) async fn turns(&self, id: &str) -> Vec<Turn> {
        let query = ListTurns {
            include_redacted: true,
            limit: 500,
            ..ListTurns::default()
        };
        let (caller, id) = (operator(), session_id(id));
        let page = self.engine.turns.list(&caller, &id, query);
        page.await.unwrap().0
    }

    pub(crate) async fn items(&self, id: &str) -> Vec<Item> {
        let (caller, id) = (operator(), session_id(id));
        let page = self.engine.turns.items(&caller, &id, 0, 500);
        page.await.unwrap().0
    }

    /// Asserts that the complete store is intact.
    pub(crate) async fn assert_store_intact(&self) {
        let report = self.engine.ledger().verify(None).await.unwrap();
        assert_eq!(report.findings, Vec::new());
        assert_eq!(report.verdict(), Verdict::Intact);
    }
}

/// The report on a bundle.
pub(crate) async fn verification_report(bundle: &[u8]) -> BundleReport {
    verify(bundle, None).await.unwrap()
}

/// Asserts that the bundle is intact; returns its report.
pub(crate) async fn assert_intact(bundle: &str) -> BundleReport {
    let report = verification_report(bundle.as_bytes()).await;
    assert_eq!(report.findings, Vec::new(), "{bundle}");
    assert_eq!(report.verdict, Verdict::Intact);
    report
}

/// Reproducible random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `bound` (SplitMix64).
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}
