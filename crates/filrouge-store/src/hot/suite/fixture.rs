//! Test fixtures: a hot store, a way to advance time, and shorthands for writes.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_types::{Clock, FixedClock, SessionId, TenantId};

use super::super::{Edition, Field, FieldChanges, HotBounds, HotKey, HotSession, HotStore};

/// The clock by which a store expires keys.
pub enum TestClock {
    /// A clock that tests advance.
    Clock(Arc<FixedClock>),
    /// Real time, measured from an instant.
    Real(Instant),
}

/// A hot store under test.
pub struct HotFixture {
    pub hot: Arc<dyn HotStore>,
    pub clock: TestClock,
    /// Resources that live until the test ends, such as a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Runs a test.
pub fn run(test: impl AsyncFn()) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test());
}

/// The name of a session.
pub fn key(session: &str) -> HotKey {
    let tenant = TenantId::new("t").unwrap();
    HotKey::new("store", &tenant, &SessionId::new(session).unwrap())
}

/// A change with names to remove, and names and values to write.
pub fn change(removes: &[&[u8]], puts: &[(&[u8], &[u8])]) -> FieldChanges {
    FieldChanges {
        removes: removes.iter().map(|name| name.to_vec()).collect(),
        puts: puts
            .iter()
            .map(|(name, value)| field(name, value))
            .collect(),
    }
}

pub fn field(name: &[u8], value: &[u8]) -> Field {
    Field {
        name: name.to_vec(),
        value: value.to_vec(),
    }
}

/// Fields sorted by name.
pub fn sorted(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    fields
}

impl HotFixture {
    /// A fixture of a store that uses real time.
    pub fn real(hot: Arc<dyn HotStore>, keep: Box<dyn Any + Send + Sync>) -> Self {
        Self {
            hot,
            clock: TestClock::Real(Instant::now()),
            keep,
        }
    }

    /// The current time of the store's clock.
    pub fn now(&self) -> Duration {
        match &self.clock {
            TestClock::Clock(clock) => {
                Duration::from_micros(clock.now().as_micros().try_into().unwrap())
            }
            TestClock::Real(since) => since.elapsed(),
        }
    }

    /// Advances the time.
    pub async fn advance_time(&self, time: Duration) {
        match &self.clock {
            TestClock::Clock(clock) => clock.advance(time.as_micros().try_into().unwrap()),
            TestClock::Real(_) => tokio::time::sleep(time).await,
        }
    }

    pub async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: FieldChanges,
    ) -> Option<Edition> {
        let done = self.hot.commit(key, expected, incarnation, change).await;
        done.unwrap()
    }

    pub async fn edition(&self, key: &HotKey) -> Option<Edition> {
        self.hot.edition(key).await.unwrap()
    }

    /// A session with its fields sorted by name.
    pub async fn load(&self, key: &HotKey) -> Option<(Edition, Vec<Field>)> {
        let HotSession { edition, fields } = self.hot.load(key).await.unwrap()?;
        Some((edition, sorted(fields)))
    }
}

/// Limits that no test reaches, with a time to live of a minute.
pub fn large_bounds() -> HotBounds {
    HotBounds {
        ttl: Duration::from_secs(60),
        ..HotBounds::default()
    }
}

/// A version that no store has created: the random `nonce` of a commit never equals this one.
pub fn edition(incarnation: u64, version: u64) -> Edition {
    Edition {
        incarnation,
        version,
        nonce: 0x5eed_0f0e_d171_0125,
    }
}

/// The incarnation and version of a session; its nonce is the store's choice.
pub fn numbers(edition: Option<Edition>) -> Option<(u64, u64)> {
    edition.map(|edition| (edition.incarnation, edition.version))
}
