//! The product as a program would open it: SQLite ledger, keyring, engine, and the anchor kept up to date.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use filrouge_engine::anchor::{Anchor, AnchorKeeper};
use filrouge_engine::{Engine, Settings, keyfile};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::{Ledger, OsEntropy, Scope, Viewer};
use filrouge_types::{SystemClock, TenantId};

/// An open store.
pub(crate) struct Product {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) scope: Scope,
    keeper: Option<AnchorKeeper>,
}

impl Product {
    /// Opens the store in `dir`; `anchored` as `filrouge serve` has it.
    pub(crate) async fn open(dir: &Path, anchored: bool) -> Result<Self> {
        let keyring = Arc::new(keyfile::load_or_create(
            &dir.join("keyring.json"),
            &OsEntropy,
        )?);
        let options = Options::new(
            dir.join("filrouge.db"),
            keyring.clone(),
            Arc::new(OsEntropy),
            Arc::new(SystemClock),
        );
        let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(options)?);
        let mut keeper = None;
        if anchored {
            let anchor = Anchor::new(&dir.join("anchor"), ledger.store_id(), keyring);
            anchor.check(ledger.as_ref()).await?;
            keeper = Some(AnchorKeeper::start(anchor, ledger.clone())?);
        }
        let engine = Engine::new(
            ledger.clone(),
            Arc::new(OsEntropy),
            Arc::new(SystemClock),
            Settings::default(),
        );
        let scope = Scope {
            tenant: TenantId::default_tenant(),
            viewer: Viewer::EndUser(None),
            token: None,
        };
        Ok(Self {
            engine: Arc::new(engine),
            ledger,
            scope,
            keeper,
        })
    }

    /// Closes it: the WAL is copied back and cut.
    pub(crate) async fn close(self) {
        drop(self.keeper);
        self.ledger.close().await;
    }
}
