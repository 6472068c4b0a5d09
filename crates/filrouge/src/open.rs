//! Opening keyring, store and anchor as configured.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use filrouge_engine::anchor::{Anchor, AnchorKeeper, Standing};
use filrouge_engine::{Engine, keyfile};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::Check;
use filrouge_store::{Keyring, Ledger, OsEntropy, Scope, Viewer};
use filrouge_types::{ErrorCode, Failure, SystemClock};

use crate::config::{Config, StoreUrl};
use crate::exit::Usage;

/// What a command needs of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It must be there already.
    Existing,
    /// It is made when it is not there.
    Any,
}

/// An open store with its engine.
pub(crate) struct Opened {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// What is wrong between store and anchor, if anything is.
    pub(crate) standing: Option<Standing>,
    pub(crate) keeper: Option<AnchorKeeper>,
}

impl Opened {
    /// Finishes: the ledger is closed, the anchor is at its newest state.
    pub(crate) async fn close(self) {
        self.ledger.close().await;
        drop(self.keeper);
    }
}

/// Whoever runs the command line sees the whole tenant.
pub(crate) fn operator(config: &Config) -> Scope {
    Scope {
        tenant: config.tenant.value.clone(),
        viewer: Viewer::Operator,
        token: None,
    }
}

fn keyring(config: &Config, store_exists: bool) -> anyhow::Result<Keyring> {
    let path = &config.keyring.value;
    if config.unverified && !path.exists() {
        // Reading by links alone: no key is asked for a MAC.
        return Ok(Keyring::single([0; 32]));
    }
    if store_exists {
        Ok(keyfile::load(path)?)
    } else {
        Ok(keyfile::load_or_create(path, &OsEntropy)?)
    }
}

/// Without the keyring's keys, what is written would be authenticated with none.
pub(crate) fn refuse_unverified(config: &Config) -> Result<(), Usage> {
    if config.unverified {
        return Err(Usage::new("--unverified only reads").with_hint("leave --unverified out"));
    }
    Ok(())
}

fn holds_data(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.len() > 0)
}

/// What was said is its owner's alone: directory and file are made for nobody else. SQLite gives its WAL the
/// file's mode.
fn prepare(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(directory) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .with_context(|| directory.display().to_string())?;
    }
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .with_context(|| path.display().to_string())?;
    Ok(())
}

/// The ledger and its anchor, not yet compared.
pub(crate) fn ledger(
    config: &Config,
    need: Need,
) -> anyhow::Result<(Arc<dyn Ledger>, Option<Anchor>)> {
    if need == Need::Any {
        refuse_unverified(config)?;
    }
    let clock = Arc::new(SystemClock);
    match &config.store.value {
        StoreUrl::Memory => {
            let mut secret = [0; 32];
            filrouge_store::Entropy::fill(&OsEntropy, &mut secret).map_err(anyhow::Error::msg)?;
            let keyring = Arc::new(Keyring::single(secret));
            Ok((
                Arc::new(MemoryLedger::new(keyring, Arc::new(OsEntropy), clock)),
                None,
            ))
        }
        StoreUrl::Sqlite(path) => {
            if need == Need::Existing && !path.exists() {
                return Err(Failure::new(ErrorCode::StoreUnavailable, format!("there is no store at {}", path.display()))
                    .with_hint("record something first: `filrouge serve`, or `filrouge import`; or name another --store")
                    .into());
            }
            let keyring = Arc::new(keyring(config, holds_data(path))?);
            prepare(path)?;
            let mut options = Options::new(path, keyring.clone(), Arc::new(OsEntropy), clock);
            if config.unverified {
                options.check = Check::Unverified;
            }
            let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(options)?);
            let anchor = Anchor::new(&config.anchor.value, ledger.store_id(), keyring);
            Ok((ledger, Some(anchor)))
        }
    }
}

/// Opens the store, compares it with its anchor, and keeps the anchor close behind from now on.
///
/// A store that the anchor contradicts is opened and refuses everything, so that `doctor` can say why.
pub(crate) async fn open(config: &Config, need: Need) -> anyhow::Result<Opened> {
    let (ledger, anchor) = ledger(config, need)?;
    let mut standing = None;
    let mut keeper = None;
    if let Some(anchor) = anchor.filter(|_| !config.unverified) {
        let found = anchor.check(ledger.as_ref()).await?;
        match &found {
            Standing::Broken(what) => ledger.distrust(what.clone()),
            Standing::Made if ledger.position().commit_no > 0 => {
                tracing::warn!(
                    path = %anchor.path().display(),
                    "the store had no anchor; one was made at its present state, older states cannot be told"
                );
                keeper = Some(AnchorKeeper::start(anchor, ledger.clone())?);
            }
            Standing::Made | Standing::Holds => {
                keeper = Some(AnchorKeeper::start(anchor, ledger.clone())?);
            }
        }
        standing = Some(found);
    }
    let engine = Engine::new(
        ledger.clone(),
        Arc::new(OsEntropy),
        Arc::new(SystemClock),
        config.settings(),
    );
    Ok(Opened {
        engine: Arc::new(engine),
        ledger,
        standing,
        keeper,
    })
}
