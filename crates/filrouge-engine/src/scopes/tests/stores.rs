//! A ledger and a hot store that fail when they are told to, and a hot store whose data is put back to what it was.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::Ledger;
use filrouge_store::command::Command;
use filrouge_store::hot::{
    Change, Edition, Fill, HotBounds, HotHealth, HotKey, HotStore, Loaded, MemoryHot, Recent, Step,
};
use filrouge_store::ledger::{About, Backend, Durability, Inspect, Layer, Stored};
use filrouge_store::memory::MemoryLedger;
use filrouge_types::{ErrorCode, Failure};

/// Words of commits on older data: none of those that the store itself counts to.
static WORDS: AtomicU64 = AtomicU64::new(1 << 63);

/// When calls fail: of one process, that is.
#[derive(Default)]
pub(super) struct Fate {
    /// All calls fail.
    pub(super) down: AtomicBool,
    /// No call is answered, until the store itself gives up.
    pub(super) slow: AtomicBool,
    /// So many calls are left until the process dies; negative when it does not.
    left: Mutex<Option<i64>>,
    /// Whether the last call before that is done.
    done: AtomicBool,
    /// Of a thousand calls so many fail, half of them after they were done.
    pub(super) per_mille: AtomicU64,
    seed: AtomicU64,
    /// From this call on none is answered, until this is `None`.
    pub(super) held_from: Mutex<Option<i64>>,
    /// Calls so far.
    pub(super) calls: AtomicI64,
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Done,
    /// It is done, and nobody learns of it.
    Lost,
    Failed,
}

impl Fate {
    pub(super) fn dies_after(calls: i64, done: bool) -> Self {
        Self {
            left: Mutex::new(Some(calls)),
            done: AtomicBool::new(done),
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
        self.left.lock().unwrap().is_some_and(|left| left < 0)
    }

    async fn of_call(&self) -> Call {
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
            return Call::Failed;
        }
        if self.down.load(Ordering::Relaxed) {
            return Call::Failed;
        }
        if let Some(left) = self.left.lock().unwrap().as_mut() {
            *left -= 1;
            return match *left {
                0.. => Call::Done,
                -1 if self.done.load(Ordering::Relaxed) => Call::Lost,
                _ => Call::Failed,
            };
        }
        let n = self
            .seed
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)) >> 8;
        match n % 1000 < self.per_mille.load(Ordering::Relaxed) {
            true if n.is_multiple_of(2) => Call::Lost,
            true => Call::Failed,
            false => Call::Done,
        }
    }

    /// The answer of a call, as far as it is given.
    async fn judge<T>(
        &self,
        code: ErrorCode,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let failed = || Failure::new(code, "the store does not answer");
        match self.of_call().await {
            Call::Done => call.await,
            Call::Lost => call.await.and_then(|_| Err(failed())),
            Call::Failed => Err(failed()),
        }
    }
}

/// One process's way to the ledger.
pub(super) struct FatefulLedger {
    pub(super) inner: Arc<MemoryLedger>,
    pub(super) fate: Arc<Fate>,
}

#[async_trait]
impl Layer for FatefulLedger {
    fn behind(&self) -> &dyn Ledger {
        self.inner.as_ref()
    }

    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        let write = self.inner.write(command);
        let written = self.fate.judge(ErrorCode::StoreUnavailable, write).await;
        written.map(|stored| Stored {
            durability: Durability::Flushed,
            ..stored
        })
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        let inspect = self.inner.inspect(about, question);
        self.fate.judge(ErrorCode::StoreUnavailable, inspect).await
    }

    fn backend(&self) -> Backend {
        Backend {
            durability: Durability::Flushed,
            ..self.inner.backend()
        }
    }

    async fn close(&self) {}
}

/// Older data that the hot store was given back.
#[derive(Default)]
pub(super) struct Dump {
    pub(super) sessions: HashMap<HotKey, Loaded>,
    pub(super) copies: HashMap<HotKey, Recent>,
}

/// One process's way to the hot store.
pub(super) struct FatefulHot {
    pub(super) inner: Arc<MemoryHot>,
    pub(super) fate: Arc<Fate>,
    /// Shared by all processes.
    pub(super) dump: Arc<Mutex<Dump>>,
}

impl FatefulHot {
    async fn judge<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.fate.judge(ErrorCode::HotUnavailable, call).await
    }

    fn dumped(&self, key: &HotKey) -> Option<Loaded> {
        self.dump.lock().unwrap().sessions.get(key).cloned()
    }

    /// A commit on older data makes newer data of it.
    fn commit_dumped(&self, key: &HotKey, mut loaded: Loaded, change: Change) -> Edition {
        loaded.fields.retain(|field| {
            !change.removes.contains(&field.name)
                && !change.puts.iter().any(|put| put.name == field.name)
        });
        loaded.fields.extend(change.puts);
        loaded.edition.version += 1;
        loaded.edition.word = WORDS.fetch_add(1, Ordering::Relaxed);
        let edition = loaded.edition;
        self.dump.lock().unwrap().sessions.insert(*key, loaded);
        edition
    }
}

#[async_trait]
impl HotStore for FatefulHot {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn bounds(&self) -> HotBounds {
        self.inner.bounds()
    }

    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure> {
        self.judge(async {
            match self.dumped(key) {
                Some(loaded) => Ok(Some(loaded.edition)),
                None => self.inner.edition(key).await,
            }
        })
        .await
    }

    async fn load(&self, key: &HotKey) -> Result<Option<Loaded>, Failure> {
        self.judge(async {
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
        change: Change,
    ) -> Result<Option<Edition>, Failure> {
        self.judge(async {
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
        self.judge(async {
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
        self.judge(async {
            let dumped = self.dump.lock().unwrap().copies.get(key).cloned();
            let Some(mut copy) = dumped else {
                return self.inner.recent(key, limit).await;
            };
            let over = copy.turns.len().saturating_sub(limit);
            copy.all &= over == 0;
            copy.turns.drain(..over);
            Ok(Some(copy))
        })
        .await
    }

    async fn advance(&self, steps: Vec<(HotKey, Step)>) -> Result<(), Failure> {
        self.judge(self.inner.advance(steps)).await
    }

    async fn fill(&self, key: &HotKey, fill: Fill) -> Result<(), Failure> {
        self.judge(async {
            self.dump.lock().unwrap().copies.remove(key);
            self.inner.fill(key, fill).await
        })
        .await
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.judge(async {
            self.dump.lock().unwrap().copies.remove(key);
            self.inner.forget_recent(key, seq).await
        })
        .await
    }

    async fn health(&self) -> HotHealth {
        self.inner.health().await
    }
}
