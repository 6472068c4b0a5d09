//! A ledger that can be unavailable, a folder for spools, and processes that write to the ledger.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, Scope, Viewer, Write};
use filrouge_store::ledger::{
    Backend, CommittedWrite, Durability, LedgerLayer, QuerySubject, SnapshotQuery,
};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{
    Channel, ErrorCode, Failure, FixedClock, Item, ItemBody, JsonText, RawJson, Role, SessionId,
    TenantId,
};

use super::super::{SpoolOptions, SpooledLedger};
use crate::caller::Caller;
use crate::spool::SpoolView;
use crate::{
    AppendItems, Engine, FinalizeTurn, ResumeSession, Resumed, SaveCheckpoint, Settings, StartTurn,
    Written,
};

/// The state of a connection to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Up = 0,
    /// Requests fail and have no effect.
    Down = 1,
    /// Writes are committed, but their answers are lost.
    Lost = 2,
    /// Requests have no effect and no answer.
    Hangs = 3,
    /// Each request is like `Up`, `Down` or `Lost`, at random.
    Random = 4,
    /// Queries are answered; writes are committed when this state ends.
    Slow = 5,
}

/// A process's connection to the ledger.
pub(super) struct Connection {
    pub(super) inner: Arc<MemoryLedger>,
    state: AtomicU8,
    seed: AtomicU64,
    /// All writes of this session, except its erasure, fail with this code.
    pub(super) refused_session: Mutex<Option<(SessionId, ErrorCode)>>,
    /// The next write takes this long, and is refused with this code.
    pub(super) late_refusal: Mutex<Option<(Duration, ErrorCode)>>,
    /// The number of writes that the process has sent.
    pub(super) requested_writes: AtomicU64,
}

impl Connection {
    pub(super) fn set(&self, state: ConnectionState) {
        self.state.store(state as u8, Ordering::SeqCst);
    }

    fn state(&self) -> u8 {
        match self.state.load(Ordering::SeqCst) {
            4 => {
                let n = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
                let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                [0, 0, 1, 2][(n >> 40) as usize % 4]
            }
            state => state,
        }
    }
}

fn unavailable() -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, "the ledger does not answer")
}

/// The answer with the durability of a store on disk.
fn flushed(stored: Result<CommittedWrite, Failure>) -> Result<CommittedWrite, Failure> {
    stored.map(|stored| CommittedWrite {
        durability: Durability::Flushed,
        ..stored
    })
}

#[async_trait]
impl LedgerLayer for Connection {
    fn inner(&self) -> &dyn Ledger {
        self.inner.as_ref()
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        self.requested_writes.fetch_add(1, Ordering::SeqCst);
        let late_refusal = self.late_refusal.lock().unwrap().take();
        if let Some((after, code)) = late_refusal {
            tokio::time::sleep(after).await;
            return Err(Failure::new(code, "late"));
        }
        let refused_session = self.refused_session.lock().unwrap().clone();
        if self.state.load(Ordering::SeqCst) == ConnectionState::Up as u8
            && let Some((session, code)) = refused_session
            && command.write.session_id() == Some(&session)
            && !matches!(command.write, Write::Erase(_))
        {
            return Err(Failure::new(code, "poison"));
        }
        match self.state() {
            0 => flushed(self.inner.write(command).await),
            1 => Err(unavailable()),
            5 => {
                while self.state() == ConnectionState::Slow as u8 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                flushed(self.inner.write(command).await)
            }
            2 => {
                // A refusal would be lost, too.
                let _ = self.inner.write(command).await;
                Err(unavailable())
            }
            _ => {
                while self.state() == ConnectionState::Hangs as u8 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(unavailable())
            }
        }
    }

    async fn inspect(
        &self,
        subject: QuerySubject<'_>,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        match self.state() {
            0 | 5 => self.inner.inspect(subject, query).await,
            3 => std::future::pending().await,
            _ => Err(unavailable()),
        }
    }

    fn backend(&self) -> Backend {
        Backend {
            durability: Durability::Flushed,
            ..self.inner.backend()
        }
    }

    async fn close(&self) {}
}

/// State shared by all processes.
pub(super) struct SpoolWorld {
    pub(super) ledger: Arc<MemoryLedger>,
    pub(super) keyring: Arc<Keyring>,
    pub(super) clock: Arc<FixedClock>,
    pub(super) folder: tempfile::TempDir,
}

/// A process.
pub(super) struct SpoolProcess {
    pub(super) connection: Arc<Connection>,
    pub(super) spool: Arc<SpooledLedger>,
    pub(super) engine: Engine,
}

impl SpoolWorld {
    pub(super) fn new() -> Self {
        let keyring = Arc::new(Keyring::single([3; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let ledger = MemoryLedger::new(keyring.clone(), Arc::new(OsEntropy), clock.clone());
        Self {
            ledger: Arc::new(ledger.with_store_id("store".to_owned())),
            keyring,
            clock,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn options(&self) -> SpoolOptions {
        SpoolOptions {
            after: Duration::from_millis(100),
            pause: (Duration::from_millis(1), Duration::from_millis(5)),
            ..SpoolOptions::new(self.folder.path())
        }
    }

    pub(super) fn process(&self) -> SpoolProcess {
        self.process_with(self.options(), 1)
    }

    pub(super) fn process_with(&self, options: SpoolOptions, seed: u64) -> SpoolProcess {
        let connection = Arc::new(Connection {
            inner: self.ledger.clone(),
            state: AtomicU8::new(0),
            seed: AtomicU64::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            refused_session: Mutex::default(),
            late_refusal: Mutex::default(),
            requested_writes: AtomicU64::new(0),
        });
        let (keyring, entropy) = (self.keyring.clone(), Arc::new(OsEntropy));
        let clock = self.clock.clone();
        let spool =
            SpooledLedger::open(connection.clone(), keyring, entropy, clock.clone(), options)
                .unwrap();
        let entropy = Arc::new(OsEntropy);
        let engine = Engine::new(spool.clone(), entropy, clock, Settings::default());
        SpoolProcess {
            connection,
            spool,
            engine,
        }
    }

    /// All items of a session.
    pub(super) async fn items(&self, session: &SessionId) -> Vec<Item> {
        let ledger: &dyn Ledger = self.ledger.as_ref();
        ledger.items(&operator(), session, 0, 500).await.unwrap().0
    }

    /// The texts of all items, in order.
    pub(super) async fn texts(&self, session: &SessionId) -> Vec<String> {
        let items = self.items(session).await;
        items
            .iter()
            .map(|item| text_of(item.body.parts.as_str()))
            .collect()
    }
}

pub(super) fn text_of(parts: &str) -> String {
    let parts: serde_json::Value = serde_json::from_str(parts).unwrap();
    parts[0]["text"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn sid(id: &str) -> SessionId {
    id.parse().unwrap()
}

pub(super) fn operator() -> Scope {
    Scope::new(TenantId::default_tenant(), Viewer::Operator)
}

pub(super) fn user(name: &str) -> Scope {
    let viewer = Viewer::EndUser(Some(name.parse().unwrap()));
    Scope::new(TenantId::default_tenant(), viewer)
}

pub(super) fn state(n: usize) -> RawJson {
    RawJson::parse(&format!("{{\"n\":{n}}}")).unwrap()
}

pub(super) fn item(text: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    let parts = RawJson::parse(&parts).unwrap();
    ItemBody::new(Role::Assistant, Channel::Observation, parts)
}

impl SpoolProcess {
    pub(super) async fn resume(&self, s: &SessionId, holder: &str) -> Result<Resumed, Failure> {
        let request = ResumeSession {
            wait_ms: Some(5_000),
            ..ResumeSession::new(holder)
        };
        let resumed = self
            .engine
            .calls
            .resume(&Caller::from(&user("ada")), s, request)
            .await;
        resumed.map(Written::into_value)
    }

    pub(super) async fn start(
        &self,
        s: &SessionId,
        request: &str,
        fence: u64,
    ) -> Result<Written<filrouge_types::Turn>, Failure> {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain(&format!("{request} ask"))),
            fence: Some(fence),
            ..StartTurn::new(request.parse().unwrap())
        };
        self.engine
            .turns
            .start(&Caller::from(&user("ada")), s.clone(), start)
            .await
    }

    pub(super) async fn append(
        &self,
        s: &SessionId,
        request: &str,
        text: &str,
        fence: u64,
    ) -> Result<u64, Failure> {
        let append = AppendItems {
            fence: Some(fence),
            ..AppendItems::new(vec![item(text)])
        };
        let turn = self.turn_id(s, request);
        let written = self
            .engine
            .turns
            .append(&Caller::from(&user("ada")), s.clone(), turn, append)
            .await?;
        Ok(written.value.last_seq)
    }

    pub(super) fn turn_id(&self, s: &SessionId, request: &str) -> filrouge_types::TurnId {
        let request = request.parse().unwrap();
        let keyring = self.spool.keyring();
        keyring.turn_id(&TenantId::default_tenant(), s, &request)
    }

    pub(super) async fn checkpoint(
        &self,
        s: &SessionId,
        n: usize,
        fence: u64,
    ) -> Result<(), Failure> {
        let save = SaveCheckpoint {
            seq: None,
            label: Some(format!("S{n}").into()),
            state: state(n),
            fence: Some(fence),
            release: false,
        };
        self.engine
            .calls
            .put_checkpoint(&Caller::from(&user("ada")), s, save)
            .await?;
        Ok(())
    }

    pub(super) async fn finalize(
        &self,
        s: &SessionId,
        request: &str,
        fence: u64,
    ) -> Result<filrouge_types::Turn, Failure> {
        let finalize = FinalizeTurn {
            answer_neutral: Some(JsonText::from_plain(&format!("{request} said"))),
            fence: Some(fence),
            release: true,
            ..FinalizeTurn::default()
        };
        let turn = self.turn_id(s, request);
        let written = self
            .engine
            .turns
            .finalize(&Caller::from(&user("ada")), s.clone(), turn, finalize)
            .await?;
        Ok(written.value)
    }

    /// A complete webhook: resume, question, an item, a checkpoint, the answer that releases the session.
    pub(super) async fn webhook(&self, s: &SessionId, n: usize) -> Result<Resumed, Failure> {
        let request = format!("r{n}");
        let resumed = self.resume(s, &format!("hook-{n}")).await?;
        let fence = resumed.fence;
        self.start(s, &request, fence).await?;
        self.append(s, &request, &format!("r{n} saw"), fence)
            .await?;
        self.checkpoint(s, n, fence).await?;
        self.finalize(s, &request, fence).await?;
        Ok(resumed)
    }

    pub(super) async fn wait_until_drained(&self) {
        self.wait_until(|view| view.entries == 0).await;
    }

    pub(super) async fn wait_until(&self, condition: impl Fn(&SpoolView) -> bool) {
        for _ in 0..60_000 {
            if condition(&self.spool.view()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the condition was never true: {:?}", self.spool.view());
    }

    /// Waits until the process has sent this many more writes to the ledger.
    pub(super) async fn wait_for_writes(&self, count: u64) {
        let sent = || self.connection.requested_writes.load(Ordering::SeqCst);
        let target = sent() + count;
        self.wait_until(|_| sent() >= target).await;
    }

    /// Ends like a killed process: nothing is completed, and its folder is unlocked.
    pub(super) async fn kill(self) {
        self.spool.stop_draining().await;
        drop(self.engine);
        // A running attempt to drain keeps only the ledger open.
        drop(self.spool);
    }
}

/// The texts of the items that these webhooks write.
pub(super) fn expected_texts(webhooks: std::ops::Range<usize>) -> Vec<String> {
    let words = ["ask", "saw", "said"];
    webhooks
        .flat_map(|n| words.map(|word| format!("r{n} {word}")))
        .collect()
}
