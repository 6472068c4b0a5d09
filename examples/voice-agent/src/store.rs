//! Opens the store of calls.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::anchor::{Anchor, AnchorKeeper, AnchorState};
use filrouge_engine::spool::{SpoolOptions, SpooledLedger};
use filrouge_engine::{CallSettings, Engine, Settings, keyfile};
use filrouge_postgres::{Options, PostgresLedger};
use filrouge_sqlite::SqliteLedger;
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Entropy, Keyring, Ledger, OsEntropy};
use filrouge_types::{Clock, SystemClock};

use crate::config::{Config, Store};
use crate::fsm::TERMINAL;

/// The time limit of each database operation: a caller waits a few seconds for an answer at most.
const TIMEOUT: Duration = Duration::from_secs(2);

/// An open store.
pub(crate) struct OpenStore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Keeps the anchor up to date until it is dropped.
    pub(crate) keeper: Option<AnchorKeeper>,
}

/// Opens the configured store; creates it if it does not exist.
///
/// # Errors
/// If it cannot be opened, or does not match the anchor in `state_dir`.
pub(crate) async fn open(config: &Config) -> anyhow::Result<OpenStore> {
    std::fs::create_dir_all(&config.state_dir)?;
    let (ledger, clock, anchor) = open_ledger(config)?;
    let keeper = match anchor {
        None => None,
        Some(anchor) => match anchor.check(ledger.as_ref()).await? {
            AnchorState::Broken(reason) => {
                anyhow::bail!("the store does not match its anchor: {reason}")
            }
            AnchorState::Created | AnchorState::Holds => {
                Some(AnchorKeeper::start(anchor, ledger.clone())?)
            }
        },
    };
    let spool = open_spool(config, &ledger, &clock)?;
    let ledger = spool.map_or(ledger, |spool| spool as Arc<dyn Ledger>);
    let settings = Settings {
        runtime_context_allow: ["tool", "caller", "route", "messages"]
            .map(str::to_owned)
            .to_vec(),
        calls: CallSettings {
            terminal: TERMINAL.map(|state| state.as_str().into()).to_vec(),
            ..CallSettings::default()
        },
        ..Settings::default()
    };
    let engine = Engine::new(ledger.clone(), Arc::new(OsEntropy), clock.clone(), settings);
    Ok(OpenStore {
        engine: Arc::new(engine),
        ledger,
        clock,
        keeper,
    })
}

/// Opens the spool in front of a remote database; returns `None` for other stores. While the database is unreachable,
/// the spool queues the writes of the calls that this instance handled last.
fn open_spool(
    config: &Config,
    ledger: &Arc<dyn Ledger>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Arc<SpooledLedger>>> {
    if !matches!(config.store, Store::Postgres(_)) {
        return Ok(None);
    }
    let keyring = Arc::new(keyfile::load(&config.keyring)?);
    let options = SpoolOptions::new(config.state_dir.join("spool"));
    let entropy = Arc::new(OsEntropy);
    let (ledger, clock) = (ledger.clone(), clock.clone());
    Ok(Some(SpooledLedger::open(
        ledger, keyring, entropy, clock, options,
    )?))
}

/// A ledger, its clock and its anchor; a ledger in memory has no anchor.
type LedgerParts = (Arc<dyn Ledger>, Arc<dyn Clock>, Option<Anchor>);

/// Opens the ledger; returns its anchor, which the caller checks.
fn open_ledger(config: &Config) -> anyhow::Result<LedgerParts> {
    let entropy = Arc::new(OsEntropy);
    let system_clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let keyring = || keyfile::load_or_create(&config.keyring, &OsEntropy).map(Arc::new);
    let with_anchor = |ledger: Arc<dyn Ledger>, clock, keyring| {
        let anchor = Anchor::new(&config.state_dir, ledger.store_id(), keyring);
        (ledger, clock, Some(anchor))
    };
    Ok(match &config.store {
        Store::Memory => {
            let mut secret = [0; 32];
            OsEntropy.fill(&mut secret).map_err(anyhow::Error::msg)?;
            let keyring = Arc::new(Keyring::single(secret));
            let ledger = MemoryLedger::new(keyring, entropy, system_clock.clone());
            (Arc::new(ledger), system_clock, None)
        }
        Store::Sqlite(path) => {
            let keyring = keyring()?;
            filrouge_sqlite::prepare(path)?;
            let options =
                filrouge_sqlite::Options::new(path, keyring.clone(), entropy, system_clock.clone());
            with_anchor(
                Arc::new(SqliteLedger::open(options)?),
                system_clock,
                keyring,
            )
        }
        Store::Postgres(url) => {
            let keyring = keyring()?;
            let mut options = Options::new(url, keyring.clone(), entropy)?;
            options.lock_timeout = TIMEOUT;
            options.answer_timeout = TIMEOUT;
            // The maximum time for which a write is retried after a lost connection.
            options.settle_timeout = TIMEOUT;
            let ledger = PostgresLedger::open(options)?;
            let clock = ledger.clock();
            with_anchor(Arc::new(ledger), clock, keyring)
        }
    })
}
