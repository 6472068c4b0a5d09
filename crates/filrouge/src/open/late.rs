//! The ledger of a server that starts while PostgreSQL does not answer. It refuses all reads and writes until the store
//! could be opened, so that live calls use the spool meanwhile.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_engine::anchor::{AnchorKeeper, SeenStore};
use filrouge_store::ledger::SnapshotQuery;
use filrouge_store::{
    Backend, Command, CommittedWrite, Durability, Health, Keyring, Lanes, Ledger, Position,
    QuerySubject, StoreLoad,
};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, Timestamp, lock};
use tokio::sync::watch;

use super::store::{IfMissing, OpenLedger, keyring, known_store, ledger};
use super::{Process, check_anchor};
use crate::config::{Config, StoreUrl};

/// The pause between two attempts to open the store.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The name of this process as a writer before the store is open. It has no form that a backend gives a name.
const UNKNOWN_WRITER: &str = "~";

/// What is known once the store is open.
struct OpenedStore {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    keeper: Mutex<Option<AnchorKeeper>>,
}

/// The store, which may not be open yet.
struct LateStore {
    opened: OnceLock<OpenedStore>,
    /// Why the newest attempt to open the store failed.
    failure: Mutex<Failure>,
    commits: watch::Sender<u64>,
}

impl LateStore {
    fn ledger(&self) -> Result<&Arc<dyn Ledger>, Failure> {
        let opened = self.opened.get().map(|opened| &opened.ledger);
        opened.ok_or_else(|| lock(&self.failure).clone())
    }
}

/// The store's clock; until the store is open, the machine's.
struct LateClock(Arc<LateStore>);

impl Clock for LateClock {
    fn now(&self) -> Timestamp {
        let opened = self.0.opened.get();
        opened.map_or_else(|| SystemClock.now(), |opened| opened.clock.now())
    }

    fn lease_now(&self) -> Timestamp {
        let opened = self.0.opened.get();
        opened.map_or_else(
            || SystemClock.lease_now(),
            |opened| opened.clock.lease_now(),
        )
    }
}

struct LateLedger {
    store: Arc<LateStore>,
    store_id: String,
    lanes: Lanes,
    keyring: Keyring,
    opening: tokio::task::JoinHandle<()>,
}

/// A ledger for a server whose store could not be opened, and the record of the store.
///
/// # Errors
/// `error`, unless it says that PostgreSQL does not answer, and this machine has opened the store before: only then its
/// id, its lanes and its keys are known.
pub(super) fn start(
    config: &Config,
    error: anyhow::Error,
) -> anyhow::Result<(OpenLedger, SeenStore)> {
    let failure = match (&config.store, error.downcast_ref::<Failure>()) {
        (StoreUrl::Postgres(_), Some(failure)) if failure.code == ErrorCode::StoreUnavailable => {
            failure.clone()
        }
        _ => return Err(error),
    };
    let seen = known_store(config)?.map(|known| known.read()).transpose()?;
    let Some(seen) = seen.flatten() else {
        return Err(error);
    };
    let Some(lanes) = Lanes::new(seen.lanes) else {
        return Err(error);
    };
    tracing::warn!(
        %failure,
        "the store does not answer: starting degraded; live calls use the spool, and everything else is refused until the store answers"
    );
    let store = Arc::new(LateStore {
        opened: OnceLock::new(),
        failure: Mutex::new(failure),
        commits: watch::Sender::new(0),
    });
    let keyring = keyring(config, true)?.for_store(&seen.store_id, lanes);
    let opening = tokio::spawn(open_when_possible(config.clone(), store.clone(), lanes));
    let late = OpenLedger {
        clock: Arc::new(LateClock(store.clone())),
        ledger: Arc::new(LateLedger {
            store,
            store_id: seen.store_id.clone(),
            lanes,
            keyring,
            opening,
        }),
        anchor: None,
    };
    Ok((late, seen))
}

/// Opens the store as soon as that is possible. Then publishes its commits until it is closed.
async fn open_when_possible(config: Config, store: Arc<LateStore>, lanes: Lanes) {
    let ledger = loop {
        tokio::time::sleep(RETRY_EVERY).await;
        match open(&config, lanes).await {
            Ok(opened) => {
                let ledger = opened.ledger.clone();
                if store.opened.set(opened).is_ok() {
                    break ledger;
                }
            }
            Err(error) => {
                let failure = error.downcast::<Failure>().unwrap_or_else(|error| {
                    Failure::new(ErrorCode::Internal, format!("{error:#}"))
                });
                let mut newest = lock(&store.failure);
                if newest.code != failure.code {
                    tracing::error!(%failure, "the store cannot be opened");
                }
                *newest = failure;
            }
        }
    };
    tracing::info!("the store is open");
    let mut commits = ledger.commits();
    drop(ledger);
    loop {
        let count = *commits.borrow_and_update();
        store.commits.send_replace(count);
        if commits.changed().await.is_err() {
            return;
        }
    }
}

/// Opens the store, and compares it with its anchor.
async fn open(config: &Config, lanes: Lanes) -> anyhow::Result<OpenedStore> {
    let settings = config.clone();
    let open = move || ledger(&settings, IfMissing::Fail);
    let OpenLedger {
        ledger,
        anchor,
        clock,
    } = tokio::task::spawn_blocking(open).await??;
    if ledger.lanes() != lanes {
        let detail = "the store has another number of lanes than when this machine last opened it";
        return Err(Failure::new(ErrorCode::IntegrityError, detail)
            .with_hint("start the server again")
            .into());
    }
    let (_, keeper) = check_anchor(config, Process::Server, &ledger, anchor).await?;
    Ok(OpenedStore {
        ledger,
        clock,
        keeper: Mutex::new(keeper),
    })
}

#[async_trait]
impl Ledger for LateLedger {
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        self.store.ledger()?.write(command).await
    }

    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        self.store.ledger()?.inspect(about, query).await
    }

    fn backend(&self) -> Backend {
        let before = || Backend {
            kind: "pg",
            version: None,
            durability: Durability::Flushed,
            remains: None,
        };
        let ledger = self.store.ledger();
        ledger.map_or_else(|_| before(), |ledger| ledger.backend())
    }

    fn lanes(&self) -> Lanes {
        self.lanes
    }

    fn position(&self) -> Position {
        let ledger = self.store.ledger();
        ledger.map_or_else(|_| Position::default(), |ledger| ledger.position())
    }

    fn anchor_position(&self) -> Position {
        let ledger = self.store.ledger();
        ledger.map_or_else(|_| Position::default(), |ledger| ledger.anchor_position())
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.store.commits.subscribe()
    }

    fn writer(&self) -> String {
        let ledger = self.store.ledger();
        ledger.map_or_else(|_| UNKNOWN_WRITER.to_owned(), |ledger| ledger.writer())
    }

    async fn has_exited(&self, writer: &str) -> bool {
        match self.store.ledger() {
            Ok(ledger) => ledger.has_exited(writer).await,
            Err(_) => false,
        }
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let ledger = self.store.ledger();
        ledger.map_or_else(|_| Health::default(), |ledger| ledger.health())
    }

    fn load(&self) -> StoreLoad {
        let ledger = self.store.ledger();
        ledger.map_or_else(|_| StoreLoad::default(), |ledger| ledger.load())
    }

    fn distrust(&self, reason: String) {
        if let Ok(ledger) = self.store.ledger() {
            ledger.distrust(reason);
        }
    }

    /// Closes the store. Then stops the keeper, which records the newest commits in the anchor.
    async fn close(&self) {
        let Some(opened) = self.store.opened.get() else {
            return self.opening.abort();
        };
        opened.ledger.close().await;
        drop(lock(&opened.keeper).take());
    }
}
