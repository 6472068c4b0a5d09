//! What tests are made with: a hot store, a way to let time pass, and short ways to write.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_types::{Clock, FixedClock, SessionId, TenantId};

use super::super::{Change, Edition, Field, HotBounds, HotKey, HotStore, Loaded};

/// What a store counts its time to live on.
pub enum Passing {
    /// A clock that is moved.
    Clock(Arc<FixedClock>),
    /// Time itself, since an instant.
    Real(Instant),
}

/// A hot store under test.
pub struct HotFixture {
    pub hot: Arc<dyn HotStore>,
    pub passing: Passing,
    /// Kept until the test ends, such as a server.
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

/// What a commit changes: names that go, and names and values that are put.
pub fn change(removes: &[&[u8]], puts: &[(&[u8], &[u8])]) -> Change {
    Change {
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

/// Fields by name.
pub fn sorted(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    fields
}

impl HotFixture {
    /// A fixture over a store whose time to live runs in real time.
    pub fn real(hot: Arc<dyn HotStore>, keep: Box<dyn Any + Send + Sync>) -> Self {
        Self {
            hot,
            passing: Passing::Real(Instant::now()),
            keep,
        }
    }

    /// How late it is.
    pub fn now(&self) -> Duration {
        match &self.passing {
            Passing::Clock(clock) => {
                Duration::from_micros(clock.now().as_micros().try_into().unwrap())
            }
            Passing::Real(since) => since.elapsed(),
        }
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        match &self.passing {
            Passing::Clock(clock) => clock.advance(time.as_micros().try_into().unwrap()),
            Passing::Real(_) => tokio::time::sleep(time).await,
        }
    }

    pub async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: Change,
    ) -> Option<Edition> {
        let done = self.hot.commit(key, expected, incarnation, change).await;
        done.unwrap()
    }

    pub async fn edition(&self, key: &HotKey) -> Option<Edition> {
        self.hot.edition(key).await.unwrap()
    }

    /// A session and its fields by name.
    pub async fn load(&self, key: &HotKey) -> Option<(Edition, Vec<Field>)> {
        let Loaded { edition, fields } = self.hot.load(key).await.unwrap()?;
        Some((edition, sorted(fields)))
    }
}

/// Bounds within which tests that are not about them work: a minute.
pub fn wide() -> HotBounds {
    HotBounds {
        ttl: Duration::from_secs(60),
        ..HotBounds::default()
    }
}

/// An edition that no store has made: its word is none.
pub fn edition(incarnation: u64, version: u64) -> Edition {
    Edition {
        incarnation,
        version,
        word: 0x5eed_0f0e_d171_0125,
    }
}

/// The incarnation and version of a state: its word is the store's to choose.
pub fn numbers(edition: Option<Edition>) -> Option<(u64, u64)> {
    edition.map(|edition| (edition.incarnation, edition.version))
}
