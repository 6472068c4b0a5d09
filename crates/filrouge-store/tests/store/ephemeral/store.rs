//! A hot store with the processes that use it, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::Adopt;
use filrouge_store::contract::{CountingEntropy, Fixture};
use filrouge_store::hot::{
    Edition, EphemeralSessions, FieldRetention, Gate, HotBounds, HotKey, HotStore, MemoryHot,
};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Failure, FixedClock, SessionId, TenantId};

use crate::ephemeral::fake_hot_store::FakeHotStore;

/// A time that no test reaches.
pub(crate) const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A gate that counts its calls and refuses versions below `min_version`.
#[derive(Default)]
pub(crate) struct CountingGate {
    pub(crate) calls: AtomicUsize,
    pub(crate) min_version: AtomicU64,
}

#[async_trait]
impl Gate for CountingGate {
    async fn admits(&self, _: &TenantId, _: &SessionId, edition: Edition) -> Result<bool, Failure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Ok(edition.version >= self.min_version.load(Ordering::SeqCst))
    }
}

pub(crate) struct Store<H = MemoryHot> {
    pub(crate) hot: Arc<H>,
    pub(crate) gate: Arc<CountingGate>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

fn store_over<H>(make: impl FnOnce(Arc<FixedClock>) -> H) -> Store<H> {
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    Store {
        hot: Arc::new(make(clock.clone())),
        gate: Arc::default(),
        clock,
        keyring: Arc::new(Keyring::single([7; 32])),
        entropy: Arc::new(CountingEntropy::default()),
    }
}

impl Store {
    pub(crate) fn new(bounds: HotBounds) -> Self {
        store_over(|clock| MemoryHot::new(bounds, 1 << 30, clock))
    }

    /// A store with limits that no test reaches.
    pub(crate) fn with_large_bounds() -> Self {
        Self::new(HotBounds {
            ttl: YEARS,
            turns: 1 << 20,
            bytes: 1 << 30,
        })
    }

    /// A store with at most this many turns per session.
    pub(crate) fn with_max_turns(turns: u64) -> Self {
        Self::new(HotBounds {
            turns,
            ..HotBounds::default()
        })
    }
}

impl Store<FakeHotStore> {
    pub(crate) fn fake() -> Self {
        store_over(|_| FakeHotStore::default())
    }
}

impl<H: HotStore + 'static> Store<H> {
    /// A process that uses the store.
    pub(crate) fn process(&self) -> EphemeralSessions {
        EphemeralSessions::new(
            self.hot.clone(),
            self.gate.clone(),
            self.keyring.clone(),
            self.entropy.clone(),
            self.clock.clone(),
            "store",
        )
    }

    /// A fixture whose process never interrupts idle turns.
    pub(crate) fn fixture(&self) -> Fixture {
        self.fixture_with(Arc::new(self.process().with_turn_timeout(YEARS)))
    }

    pub(crate) fn fixture_with(&self, sessions: Arc<EphemeralSessions>) -> Fixture {
        Fixture {
            ledger: sessions,
            clock: self.clock.clone(),
            keyring: self.keyring.clone(),
            keep: Box::new(()),
        }
    }

    /// A process, and a fixture to write and read with it.
    pub(crate) fn process_and_fixture(&self) -> (Arc<EphemeralSessions>, Fixture) {
        let process = Arc::new(self.process());
        (process.clone(), self.fixture_with(process))
    }

    pub(crate) fn key(&self, session: &str) -> HotKey {
        HotKey::new("store", &tenant(), &id(session))
    }

    /// Extracts the session through a process with an empty cache.
    pub(crate) async fn extract(
        &self,
        session: &str,
        keep: &FieldRetention,
    ) -> Result<Option<(Edition, Adopt)>, Failure> {
        let process = self.process();
        process.extract(&tenant(), &id(session), keep).await
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("t").unwrap()
}

pub(crate) fn id(session: &str) -> SessionId {
    SessionId::new(session).unwrap()
}
