//! Opens the product as `filrouge serve` does: ledger, keyring, engine, and an anchor that is kept up to date.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use filrouge_engine::Caller;
use filrouge_engine::anchor::{Anchor, AnchorKeeper};
use filrouge_engine::scopes::{DurablePolicy, TierOptions, TieredLedger};
use filrouge_engine::{Engine, Settings, keyfile};
use filrouge_postgres::PostgresLedger;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::hot::HotStore;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{Clock, SystemClock, TenantId};

use crate::sessions::Writer;

/// An open store.
pub(crate) struct Product {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) caller: Caller,
    keeper: Option<AnchorKeeper>,
}

impl Product {
    /// Opens the SQLite store in `dir`, with an anchor if `with_anchor`.
    pub(crate) async fn open(dir: &Path, with_anchor: bool) -> Result<Self> {
        let keyring = keyring(dir)?;
        let ledger = sqlite(dir, &keyring)?;
        let keeper = match with_anchor {
            true => Some(keep_anchor(dir, &ledger, keyring).await?),
            false => None,
        };
        Ok(Self::new(ledger, Arc::new(SystemClock), keeper))
    }

    /// Opens the SQLite store in `dir` with an anchor, and with a hot store in front.
    pub(crate) async fn open_tiered(
        dir: &Path,
        hot: Arc<dyn HotStore>,
        durable: DurablePolicy,
    ) -> Result<(Self, Arc<TieredLedger>)> {
        let keyring = keyring(dir)?;
        let ledger = sqlite(dir, &keyring)?;
        let keeper = keep_anchor(dir, &ledger, keyring.clone()).await?;
        let options = TierOptions {
            durable,
            ..TierOptions::default()
        };
        let tiered = TieredLedger::new(
            ledger,
            hot,
            keyring,
            Arc::new(OsEntropy),
            Arc::new(SystemClock),
            options,
        );
        let clock = Arc::new(SystemClock);
        let product = Self::new(tiered.clone(), clock, Some(keeper));
        Ok((product, tiered))
    }

    /// Opens the store in the PostgreSQL database at `url`, with keyring and anchor in `dir`.
    pub(crate) async fn open_postgres(url: &str, dir: &Path) -> Result<Self> {
        let keyring = keyring(dir)?;
        let options = filrouge_postgres::Options::new(url, keyring.clone(), Arc::new(OsEntropy))?;
        let ledger = tokio::task::spawn_blocking(|| PostgresLedger::open(options)).await??;
        let clock = ledger.clock();
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        let keeper = keep_anchor(dir, &ledger, keyring).await?;
        Ok(Self::new(ledger, clock, Some(keeper)))
    }

    fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, keeper: Option<AnchorKeeper>) -> Self {
        let engine = Engine::new(
            ledger.clone(),
            Arc::new(OsEntropy),
            clock,
            Settings::default(),
        );
        let caller = Caller::local(TenantId::default_tenant(), None);
        Self {
            engine: Arc::new(engine),
            ledger,
            caller,
            keeper,
        }
    }

    /// The engine and the caller, to write sessions with.
    pub(crate) fn writer(&self) -> Writer<'_> {
        (&self.engine, &self.caller)
    }

    /// Closes the store; the WAL of an SQLite store is checkpointed and truncated.
    pub(crate) async fn close(self) {
        drop(self.keeper);
        self.ledger.close().await;
    }
}

fn sqlite(dir: &Path, keyring: &Arc<Keyring>) -> Result<Arc<dyn Ledger>> {
    let options = Options::new(
        dir.join("filrouge.db"),
        keyring.clone(),
        Arc::new(OsEntropy),
        Arc::new(SystemClock),
    );
    Ok(Arc::new(SqliteLedger::open(options)?))
}

fn keyring(dir: &Path) -> Result<Arc<Keyring>> {
    let path = dir.join("keyring.json");
    Ok(Arc::new(keyfile::load_or_create(&path, &OsEntropy)?))
}

async fn keep_anchor(
    dir: &Path,
    ledger: &Arc<dyn Ledger>,
    keyring: Arc<Keyring>,
) -> Result<AnchorKeeper> {
    let anchor = Anchor::new(&dir.join("anchor"), ledger.store_id(), keyring);
    anchor.check(ledger.as_ref()).await?;
    Ok(AnchorKeeper::start(anchor, ledger.clone())?)
}
