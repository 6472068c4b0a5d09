//! A hot store for tests: it shows and replaces its contents, and fails on demand.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use filrouge_store::hot::{
    Edition, Field, FieldChanges, HotBounds, HotHealth, HotKey, HotSession, HotStore, Recent,
    RecentFill, RecentUpdate,
};
use filrouge_types::{ErrorCode, Failure};

pub(crate) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// A hot store in memory without limits. Its calls yield, so that tasks interleave.
#[derive(Default)]
pub(crate) struct FakeHotStore {
    pub(crate) bounds: HotBounds,
    pub(crate) sessions: Mutex<HashMap<HotKey, (Edition, Fields)>>,
    pub(crate) changes: Mutex<Vec<FieldChanges>>,
    /// If set, calls take effect and then fail.
    pub(crate) fails_after: AtomicBool,
}

impl FakeHotStore {
    pub(crate) fn dump(&self, key: HotKey) -> (Edition, Fields) {
        self.sessions.lock().unwrap()[&key].clone()
    }

    pub(crate) fn set(&self, key: HotKey, state: (Edition, Fields)) {
        self.sessions.lock().unwrap().insert(key, state);
    }

    pub(crate) fn newest_change(&self) -> FieldChanges {
        self.changes.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn commits(&self) -> usize {
        self.changes.lock().unwrap().len()
    }

    fn answer<T>(&self, answer: T) -> Result<T, Failure> {
        if self.fails_after.swap(false, Ordering::SeqCst) {
            return Err(Failure::new(ErrorCode::HotUnavailable, "no answer"));
        }
        Ok(answer)
    }
}

#[async_trait]
impl HotStore for FakeHotStore {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn bounds(&self) -> HotBounds {
        self.bounds
    }

    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure> {
        tokio::task::yield_now().await;
        let edition = self.sessions.lock().unwrap().get(key).map(|s| s.0);
        self.answer(edition)
    }

    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure> {
        tokio::task::yield_now().await;
        let found = self.sessions.lock().unwrap().get(key).cloned();
        let field = |(name, value)| Field { name, value };
        self.answer(found.map(|(edition, fields)| HotSession {
            edition,
            fields: fields.into_iter().map(field).collect(),
        }))
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: FieldChanges,
    ) -> Result<Option<Edition>, Failure> {
        tokio::task::yield_now().await;
        let mut sessions = self.sessions.lock().unwrap();
        let found = sessions.get(key).cloned();
        if found.as_ref().map(|s| s.0) != expected {
            return Ok(None);
        }
        let (edition, mut fields) = found.unwrap_or((
            Edition {
                incarnation,
                version: 0,
                nonce: 0,
            },
            Fields::new(),
        ));
        let nonce = {
            let mut changes = self.changes.lock().unwrap();
            changes.push(change.clone());
            changes.len() as u64
        };
        for name in change.removes {
            assert!(fields.remove(&name).is_some(), "a removed field exists");
        }
        fields.extend(change.puts.into_iter().map(|f| (f.name, f.value)));
        let edition = Edition {
            incarnation: edition.incarnation,
            version: edition.version + 1,
            nonce,
        };
        sessions.insert(*key, (edition, fields));
        self.answer(Some(edition))
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        let mut sessions = self.sessions.lock().unwrap();
        let found = sessions.get(key).map(|s| s.0);
        let is_expected = found.is_none() || expected.is_none() || found == expected;
        if is_expected {
            sessions.remove(key);
        }
        self.answer(is_expected)
    }

    async fn recent(&self, _: &HotKey, _: usize) -> Result<Option<Recent>, Failure> {
        Ok(None)
    }

    async fn advance(&self, _: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure> {
        Ok(())
    }

    async fn fill(&self, _: &HotKey, _: RecentFill) -> Result<(), Failure> {
        Ok(())
    }

    async fn forget_recent(&self, _: &HotKey, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    async fn health(&self) -> HotHealth {
        HotHealth::default()
    }
}
