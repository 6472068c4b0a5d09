//! Opens the keyring and the ledger itself, as configured, and checks that it is the store that this machine has seen.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::anchor::{Anchor, SeenStoreFile};
use filrouge_engine::keyfile;
use filrouge_postgres::PostgresLedger;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::MacCheck;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock};

use crate::config::{Config, HiddenUrl, StoreUrl};
use crate::exit::Usage;

/// The action when the store does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// A missing store is an error.
    Fail,
    /// A missing store is created.
    Create,
}

/// Reads the keyring. If it is missing, it is created for a new store, and not needed with `--unverified`.
pub(crate) fn keyring(config: &Config, store_exists: bool) -> anyhow::Result<Keyring> {
    let path = &config.keyring;
    if config.unverified && !path.exists() {
        // With --unverified, only the hash chain is checked, and no MAC, so no key is needed.
        return Ok(Keyring::single([0; 32]));
    }
    if store_exists {
        Ok(keyfile::load(path).map_err(|failure| match &config.store {
            // A PostgreSQL store may be shared: most likely, the keyring file exists on another machine only.
            StoreUrl::Postgres(_) if !path.exists() => failure
                .with_hint("copy the keyring file from the machine that wrote first, or restore it from a backup"),
            _ => failure,
        })?)
    } else {
        Ok(keyfile::load_or_create(path, &OsEntropy)?)
    }
}

/// Refuses to write with `--unverified`: the keyring may be missing, and writes would have no valid MAC.
pub(crate) fn refuse_unverified(config: &Config) -> Result<(), Usage> {
    if config.unverified {
        return Err(Usage::new("--unverified only reads").with_hint("leave --unverified out"));
    }
    Ok(())
}

/// Whether the file exists and is not empty.
pub(crate) fn holds_data(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.len() > 0)
}

/// An open ledger that is not yet compared with its anchor; the anchor and the clock that belong to it.
pub(crate) struct OpenLedger {
    pub(crate) ledger: Arc<dyn Ledger>,
    /// `None` for a store in memory.
    pub(crate) anchor: Option<Anchor>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The record of the store that this machine has seen at the configured URL; `None` for a store in memory.
pub(crate) fn known_store(config: &Config) -> anyhow::Result<Option<SeenStoreFile>> {
    known_store_at(&config.anchor, &config.store)
}

/// As [`known_store`], for the store at `url`. The record is in the folder `anchors`.
pub(crate) fn known_store_at(
    anchors: &Path,
    url: &StoreUrl,
) -> anyhow::Result<Option<SeenStoreFile>> {
    let url = match url {
        StoreUrl::Memory => return Ok(None),
        StoreUrl::Sqlite(path) => format!("sqlite:{}", std::path::absolute(path)?.display()),
        StoreUrl::Postgres(url) => url.to_string(),
    };
    Ok(Some(SeenStoreFile::new(anchors, &url)))
}

/// The id of the store at the configured URL, read without opening the store; `None` if there is no store.
pub(crate) fn stored_id(config: &Config) -> anyhow::Result<Option<String>> {
    match &config.store {
        StoreUrl::Memory => Ok(None),
        StoreUrl::Sqlite(path) if !holds_data(path) => Ok(None),
        StoreUrl::Sqlite(path) => Ok(filrouge_sqlite::stored_id(path, BUSY_TIMEOUT)?),
        StoreUrl::Postgres(url) => {
            let options = url.options_without_keyring()?;
            Ok(filrouge_postgres::store_id(&options).map_err(|f| with_url(url, f))?)
        }
    }
}

/// The maximum wait for another process when an SQLite store is examined or migrated without being opened.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Fails if this machine has seen a store with commits at the configured URL, and the URL now has another store or
/// none. `current_id` returns the id of the store that the URL has now. Checks nothing with `--unverified`.
fn refuse_vanished(
    config: &Config,
    current_id: impl FnOnce() -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    if config.unverified {
        return Ok(());
    }
    let Some(known) = known_store(config)? else {
        return Ok(());
    };
    if let Some(seen) = known.read()? {
        known.check(&seen, current_id()?.as_deref())?;
    }
    Ok(())
}

/// Opens the ledger; fails if the known store is gone or was replaced. The anchor is not compared yet.
pub(crate) fn ledger(config: &Config, if_missing: IfMissing) -> anyhow::Result<OpenLedger> {
    let may_create = if_missing == IfMissing::Create || matches!(config.store, StoreUrl::Sqlite(_));
    if may_create {
        refuse_vanished(config, || stored_id(config))?;
    }
    match ledger_unchecked(config, if_missing) {
        Ok(open_ledger) => {
            // The store may have been replaced since the first check, which is skipped if nothing can be created.
            refuse_vanished(config, || {
                Ok(Some(open_ledger.ledger.store_id().to_owned()))
            })?;
            Ok(open_ledger)
        }
        Err(error) => {
            refuse_vanished(config, || stored_id(config))?;
            Err(error)
        }
    }
}

/// As [`ledger`], but also accepts a store that replaced the one that this machine has seen.
pub(crate) fn ledger_unchecked(
    config: &Config,
    if_missing: IfMissing,
) -> anyhow::Result<OpenLedger> {
    if if_missing == IfMissing::Create {
        refuse_unverified(config)?;
    }
    if !matches!(config.store, StoreUrl::Postgres(_)) {
        refuse_distribution(config)?;
    }
    match &config.store {
        StoreUrl::Memory => in_memory(),
        StoreUrl::Sqlite(path) => sqlite(config, path, if_missing),
        StoreUrl::Postgres(url) => postgres(config, url, if_missing),
    }
}

/// Refuses to distribute a store that is not in PostgreSQL.
pub(crate) fn refuse_distribution(config: &Config) -> Result<(), Usage> {
    if !config.distribute {
        return Ok(());
    }
    Err(
        Usage::new("distribute: only a PostgreSQL store can be distributed")
            .with_hint("set `distribute` to `off`, or name a PostgreSQL store in --store"),
    )
}

fn in_memory() -> anyhow::Result<OpenLedger> {
    let mut secret = [0; 32];
    filrouge_store::Entropy::fill(&OsEntropy, &mut secret).map_err(anyhow::Error::msg)?;
    let keyring = Arc::new(Keyring::single(secret));
    let clock = Arc::new(SystemClock);
    // The id is random, so that no other process reads the entries that this one leaves in a hot store.
    let store_id = filrouge_store::random_id(&OsEntropy)?;
    let ledger =
        MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone()).with_store_id(store_id);
    Ok(OpenLedger {
        ledger: Arc::new(ledger),
        anchor: None,
        clock,
    })
}

fn sqlite(config: &Config, path: &Path, if_missing: IfMissing) -> anyhow::Result<OpenLedger> {
    if if_missing == IfMissing::Fail && !path.exists() {
        return Err(missing_store(path.display()).into());
    }
    let keyring = Arc::new(keyring(config, holds_data(path))?);
    filrouge_sqlite::prepare(path)?;
    let clock = Arc::new(SystemClock);
    let mut options = Options::new(path, keyring.clone(), Arc::new(OsEntropy), clock.clone());
    if config.unverified {
        options.check = MacCheck::Unverified;
    }
    let ledger = SqliteLedger::open(options)?;
    let anchor = Anchor::new(&config.anchor, ledger.store_id(), keyring);
    Ok(OpenLedger {
        ledger: Arc::new(ledger),
        anchor: Some(anchor),
        clock,
    })
}

/// The error for a store that must exist and does not.
pub(crate) fn missing_store(location: impl Display) -> Failure {
    let detail = format!("there is no store at {location}");
    Failure::new(ErrorCode::StoreUnavailable, detail).with_hint(
        "record something first: `filrouge serve`, or `filrouge import`; or name another --store",
    )
}

/// Adds the URL to a failure to reach the store: in most cases the URL is wrong.
pub(crate) fn with_url(url: &HiddenUrl, failure: Failure) -> Failure {
    if failure.code != ErrorCode::StoreUnavailable {
        return failure;
    }
    Failure {
        detail: format!("{url}: {}", failure.detail),
        ..failure
    }
}

/// Whether the store exists, so that a keyring for it must exist too.
pub(crate) fn store_exists(config: &Config) -> anyhow::Result<bool> {
    match &config.store {
        StoreUrl::Sqlite(path) => Ok(path.exists()),
        StoreUrl::Postgres(url) => {
            let options = url.options_without_keyring()?;
            Ok(filrouge_postgres::has_keys(&options).map_err(|f| with_url(url, f))?)
        }
        StoreUrl::Memory => Ok(false),
    }
}

fn postgres(config: &Config, url: &HiddenUrl, if_missing: IfMissing) -> anyhow::Result<OpenLedger> {
    // A keyring is created only for a new store. If another machine created the store, this machine needs a copy of
    // that machine's keyring. The store is queried only if this machine has no keyring.
    let exists = config.keyring.exists() || store_exists(config)?;
    if if_missing == IfMissing::Fail && !exists {
        return Err(missing_store(url).into());
    }
    let keyring = Arc::new(keyring(config, exists)?);
    let mut options = url.options(keyring.clone())?;
    if let Some(direct) = &config.store_direct {
        options = options.with_direct(direct.unmasked())?;
    }
    options.make = if_missing == IfMissing::Create;
    options.lanes = config.lanes;
    options.distribute = config.distribute;
    if config.unverified {
        options.check = MacCheck::Unverified;
    }
    let ledger = PostgresLedger::open(options).map_err(|f| with_url(url, f))?;
    let anchor = Anchor::new(&config.anchor, ledger.store_id(), keyring);
    let clock = ledger.clock();
    Ok(OpenLedger {
        ledger: Arc::new(ledger),
        anchor: Some(anchor),
        clock,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ledger_in_memory_has_its_own_id() {
        let ids = [0, 1].map(|_| in_memory().unwrap().ledger.store_id().to_owned());
        assert_ne!(ids[0], ids[1]);
    }
}
