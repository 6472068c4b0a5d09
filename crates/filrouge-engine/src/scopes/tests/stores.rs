//! A ledger and a hot store that fail on demand, and a hot store whose data is rolled back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::Ledger;
use filrouge_store::command::Command;
use filrouge_store::hot::{
    Edition, FieldChanges, HotBounds, HotHealth, HotKey, HotSession, HotStore, MemoryHot, Recent,
    RecentFill, RecentUpdate,
};
use filrouge_store::ledger::{
    Backend, CommittedWrite, Durability, LedgerLayer, QuerySubject, SnapshotQuery,
};
use filrouge_store::memory::MemoryLedger;
use filrouge_types::{ErrorCode, Failure};

/// The nonces of commits on restored data; they differ from those that the store itself assigns.
static NONCES: AtomicU64 = AtomicU64::new(1 << 63);

/// Decides which calls of one process fail.
#[derive(Default)]
pub(super) struct FailureSwitch {
    /// All calls fail.
    pub(super) down: AtomicBool,
    /// No call is answered until the store's own timeout.
    pub(super) slow: AtomicBool,
    /// Calls left until the process dies, negative once it is dead; `None` if it does not die.
    calls_left: Mutex<Option<i64>>,
    /// Whether the last of these calls takes effect.
    last_takes_effect: AtomicBool,
    /// The number of failing calls in a thousand, half of which fail after they took effect.
    pub(super) per_mille: AtomicU64,
    seed: AtomicU64,
    /// Calls from this number on are held without an answer, until this is `None`.
    pub(super) held_from: Mutex<Option<i64>>,
    /// Number of calls so far.
    pub(super) calls: AtomicI64,
    /// Number of queries that take the turns of the server itself, not those of a caller.
    pub(super) server_queries: AtomicI64,
}

/// The outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallOutcome {
    Done,
    /// The call takes effect, but its answer is lost.
    Lost,
    Failed,
}

impl FailureSwitch {
    pub(super) fn dies_after(calls: i64, last_takes_effect: bool) -> Self {
        Self {
            calls_left: Mutex::new(Some(calls)),
            last_takes_effect: AtomicBool::new(last_takes_effect),
            ..Self::default()
        }
    }

    pub(super) fn random(seed: u64, per_mille: u64) -> Self {
        Self {
            seed: AtomicU64::new(seed),
            per_mille: AtomicU64::new(per_mille),
            ..Self::default()
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.calls_left.lock().unwrap().is_some_and(|left| left < 0)
    }

    async fn next_call(&self) -> CallOutcome {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        while self
            .held_from
            .lock()
            .unwrap()
            .is_some_and(|from| calls >= from)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if self.slow.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            return CallOutcome::Failed;
        }
        if self.down.load(Ordering::Relaxed) {
            return CallOutcome::Failed;
        }
        if let Some(left) = self.calls_left.lock().unwrap().as_mut() {
            *left -= 1;
            return match *left {
                0.. => CallOutcome::Done,
                -1 if self.last_takes_effect.load(Ordering::Relaxed) => CallOutcome::Lost,
                _ => CallOutcome::Failed,
            };
        }
        let n = self
            .seed
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)) >> 8;
        match n % 1000 < self.per_mille.load(Ordering::Relaxed) {
            true if n.is_multiple_of(2) => CallOutcome::Lost,
            true => CallOutcome::Failed,
            false => CallOutcome::Done,
        }
    }

    /// Executes a call and returns its answer, unless the call fails.
    async fn run<T>(
        &self,
        code: ErrorCode,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let failed = || Failure::new(code, "the store does not answer");
        match self.next_call().await {
            CallOutcome::Done => call.await,
            CallOutcome::Lost => call.await.and_then(|_| Err(failed())),
            CallOutcome::Failed => Err(failed()),
        }
    }
}

/// One process's connection to the ledger.
pub(super) struct FailingLedger {
    pub(super) inner: Arc<MemoryLedger>,
    pub(super) switch: Arc<FailureSwitch>,
}

#[async_trait]
impl LedgerLayer for FailingLedger {
    fn inner(&self) -> &dyn Ledger {
        self.inner.as_ref()
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let write = self.inner.write(command);
        let written = self.switch.run(ErrorCode::StoreUnavailable, write).await;
        written.map(|stored| CommittedWrite {
            durability: Durability::Flushed,
            ..stored
        })
    }

    async fn inspect(
        &self,
        subject: QuerySubject<'_>,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        let of_server = matches!(subject, QuerySubject::Store);
        let server_queries = &self.switch.server_queries;
        server_queries.fetch_add(i64::from(of_server), Ordering::Relaxed);
        let inspect = self.inner.inspect(subject, query);
        self.switch.run(ErrorCode::StoreUnavailable, inspect).await
    }

    fn backend(&self) -> Backend {
        Backend {
            durability: Durability::Flushed,
            ..self.inner.backend()
        }
    }

    async fn close(&self) {}
}

/// Older data that was restored to the hot store.
#[derive(Default)]
pub(super) struct Dump {
    pub(super) sessions: HashMap<HotKey, HotSession>,
    pub(super) copies: HashMap<HotKey, Recent>,
}

/// One process's connection to the hot store.
pub(super) struct FailingHot {
    pub(super) inner: Arc<MemoryHot>,
    pub(super) switch: Arc<FailureSwitch>,
    /// All processes share this data.
    pub(super) dump: Arc<Mutex<Dump>>,
}

impl FailingHot {
    async fn run<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.switch.run(ErrorCode::HotUnavailable, call).await
    }

    fn dumped(&self, key: &HotKey) -> Option<HotSession> {
        self.dump.lock().unwrap().sessions.get(key).cloned()
    }

    /// A commit on restored data, which makes it the newest data.
    fn commit_dumped(&self, key: &HotKey, mut loaded: HotSession, change: FieldChanges) -> Edition {
        loaded.fields.retain(|field| {
            !change.removes.contains(&field.name)
                && !change.puts.iter().any(|put| put.name == field.name)
        });
        loaded.fields.extend(change.puts);
        loaded.edition.version += 1;
        loaded.edition.nonce = NONCES.fetch_add(1, Ordering::Relaxed);
        let edition = loaded.edition;
        self.dump.lock().unwrap().sessions.insert(*key, loaded);
        edition
    }
}

#[async_trait]
impl HotStore for FailingHot {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn bounds(&self) -> HotBounds {
        self.inner.bounds()
    }

    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure> {
        self.run(async {
            match self.dumped(key) {
                Some(loaded) => Ok(Some(loaded.edition)),
                None => self.inner.edition(key).await,
            }
        })
        .await
    }

    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure> {
        self.run(async {
            match self.dumped(key) {
                Some(loaded) => Ok(Some(loaded)),
                None => self.inner.load(key).await,
            }
        })
        .await
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: FieldChanges,
    ) -> Result<Option<Edition>, Failure> {
        self.run(async {
            match self.dumped(key) {
                Some(loaded) if Some(loaded.edition) == expected => {
                    Ok(Some(self.commit_dumped(key, loaded, change)))
                }
                Some(_) => Ok(None),
                None => self.inner.commit(key, expected, incarnation, change).await,
            }
        })
        .await
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        self.run(async {
            let Some(loaded) = self.dumped(key) else {
                return self.inner.forget(key, expected).await;
            };
            if expected.is_some_and(|edition| edition != loaded.edition) {
                return Ok(false);
            }
            self.dump.lock().unwrap().sessions.remove(key);
            self.inner.forget(key, None).await
        })
        .await
    }

    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure> {
        self.run(async {
            let dumped = self.dump.lock().unwrap().copies.get(key).cloned();
            let Some(mut copy) = dumped else {
                return self.inner.recent(key, limit).await;
            };
            let excess = copy.turns.len().saturating_sub(limit);
            copy.all &= excess == 0;
            copy.turns.drain(..excess);
            Ok(Some(copy))
        })
        .await
    }

    async fn advance(&self, steps: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure> {
        self.run(self.inner.advance(steps)).await
    }

    async fn fill(&self, key: &HotKey, fill: RecentFill) -> Result<(), Failure> {
        self.run(async {
            self.dump.lock().unwrap().copies.remove(key);
            self.inner.fill(key, fill).await
        })
        .await
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.run(async {
            self.dump.lock().unwrap().copies.remove(key);
            self.inner.forget_recent(key, seq).await
        })
        .await
    }

    async fn health(&self) -> HotHealth {
        self.inner.health().await
    }
}
