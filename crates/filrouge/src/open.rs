//! Opens the keyring, the store and its anchor as configured.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::anchor::{
    Anchor, AnchorKeeper, AnchorState, SeenStore, SeenStoreFile, WitnessFile,
};
use filrouge_engine::scopes::TieredLedger;
use filrouge_engine::spool::SpooledLedger;
use filrouge_engine::{Engine, keyfile};
use filrouge_postgres::PostgresLedger;
use filrouge_redis::RedisHot;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::hot::{HotStore, MemoryHot};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::MacCheck;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock};

use crate::config::{Config, HiddenUrl, HotUrl, StoreUrl};
use crate::exit::Usage;
use crate::ledger_index;

/// The action when the store does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// A missing store is an error.
    Fail,
    /// A missing store is created.
    Create,
}

/// An open store with its engine.
pub(crate) struct OpenStore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The result of comparing the store with its anchor; `None` for a store in memory, and with `--unverified`.
    pub(crate) anchor_state: Option<AnchorState>,
    /// Keeps the anchor up to date. `None` without a comparison, and if the store contradicts its anchor.
    pub(crate) keeper: Option<AnchorKeeper>,
}

impl OpenStore {
    /// Closes the ledger. Then stops the keeper, which records the ledger's newest commit in the anchor.
    pub(crate) async fn close(self) {
        self.ledger.close().await;
        drop(self.keeper);
    }
}

/// The caller on whose behalf commands run, who sees the entire tenant.
pub(crate) fn operator(config: &Config) -> Caller {
    Caller::operator(config.tenant.clone())
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

/// An open ledger that is not yet compared with its anchor; the anchor, the clock and the keys that belong to it.
pub(crate) struct OpenLedger {
    pub(crate) ledger: Arc<dyn Ledger>,
    /// `None` for a store in memory.
    pub(crate) anchor: Option<Anchor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keyring: Arc<Keyring>,
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
            // Reading the id needs no keys.
            let unused_keyring = Arc::new(Keyring::single([0; 32]));
            let options = url.options(unused_keyring)?;
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
    match &config.store {
        StoreUrl::Memory => in_memory(),
        StoreUrl::Sqlite(path) => sqlite(config, path, if_missing),
        StoreUrl::Postgres(url) => postgres(config, url, if_missing),
    }
}

fn in_memory() -> anyhow::Result<OpenLedger> {
    let mut secret = [0; 32];
    filrouge_store::Entropy::fill(&OsEntropy, &mut secret).map_err(anyhow::Error::msg)?;
    let keyring = Arc::new(Keyring::single(secret));
    let clock = Arc::new(SystemClock);
    // The id is random, so that no other process reads the entries that this one leaves in a hot store.
    let store_id = filrouge_store::random_id(&OsEntropy)?;
    let ledger = MemoryLedger::new(keyring.clone(), Arc::new(OsEntropy), clock.clone())
        .with_store_id(store_id);
    Ok(OpenLedger {
        ledger: Arc::new(ledger),
        anchor: None,
        clock,
        keyring,
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
    let anchor = Anchor::new(&config.anchor, ledger.store_id(), keyring.clone());
    Ok(OpenLedger {
        ledger: Arc::new(ledger),
        anchor: Some(anchor),
        clock,
        keyring,
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
            // This check needs no keys.
            let unused_keyring = Arc::new(Keyring::single([0; 32]));
            let options = url.options(unused_keyring)?;
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
    if config.unverified {
        options.check = MacCheck::Unverified;
    }
    let ledger = PostgresLedger::open(options).map_err(|f| with_url(url, f))?;
    let anchor = Anchor::new(&config.anchor, ledger.store_id(), keyring.clone());
    let clock = ledger.clock();
    Ok(OpenLedger {
        ledger: Arc::new(ledger),
        anchor: Some(anchor),
        clock,
        keyring,
    })
}

/// The kind of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    /// A server.
    Server,
    /// Any other command, which has no access to the memory of servers.
    Command,
}

/// The configured hot store. `None` for a command if the hot store is in memory, because each server has its own. The
/// hot store is not contacted yet, so it is no error if it does not answer.
fn hot_store(
    config: &Config,
    process: Process,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Arc<dyn HotStore>>> {
    let hot = &config.hot;
    Ok(match &hot.url {
        HotUrl::Memory if process == Process::Command => None,
        HotUrl::Memory => Some(Arc::new(MemoryHot::new(
            hot.bounds,
            hot.memory_bytes,
            clock.clone(),
        ))),
        HotUrl::Redis(url) => {
            let options = filrouge_redis::Options {
                password: HotUrl::password(),
                prefix: hot.prefix.clone(),
                bounds: hot.bounds,
                timeout: hot.timeout,
                ..filrouge_redis::Options::new(url.unmasked())
            };
            Some(Arc::new(RedisHot::open(&options)?))
        }
    })
}

/// Puts the hot store in front of the ledger, if this process has one (DESIGN §7). In a server, also puts the spool for
/// live calls in front, if it is enabled (DESIGN §6).
fn tiered(
    config: &Config,
    process: Process,
    mut ledger: Arc<dyn Ledger>,
    keyring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Ledger>> {
    let entropy = Arc::new(OsEntropy);
    if let Some(hot) = hot_store(config, process, &clock)? {
        let (keys, time, options) = (keyring.clone(), clock.clone(), config.tier_options());
        ledger = TieredLedger::new(ledger, hot, keys, entropy.clone(), time, options);
    }
    // A ledger in memory always answers, so it needs no spool.
    let may_not_answer = process == Process::Server && config.store != StoreUrl::Memory;
    if may_not_answer && config.spool.bytes > 0 {
        ledger = SpooledLedger::open(ledger, keyring, entropy, clock, config.spool.clone())?;
    }
    Ok(ledger)
}

/// Opens the store, compares it with its anchor, and keeps the anchor up to date until [`OpenStore::close`].
///
/// A store that contradicts its anchor is opened, so that `doctor` can report why, but it refuses all requests.
pub(crate) async fn open(config: &Config, if_missing: IfMissing) -> anyhow::Result<OpenStore> {
    open_for_process(config, if_missing, Process::Command, Index::Unused).await
}

/// As [`open`], with the ledger's search index: for searches, and for erasures, which also clear the index.
pub(crate) async fn open_indexed(
    config: &Config,
    if_missing: IfMissing,
    index: Index,
) -> anyhow::Result<OpenStore> {
    open_for_process(config, if_missing, Process::Command, index).await
}

/// As [`open`], for a server: opens the search index, has a hot store even in memory, creates a missing store.
pub(crate) async fn open_to_serve(config: &Config) -> anyhow::Result<OpenStore> {
    open_for_process(config, IfMissing::Create, Process::Server, Index::Create).await
}

/// Opens the store, runs `work` as the operator, and closes the store even if `work` failed.
pub(crate) async fn with<T>(
    config: &Config,
    if_missing: IfMissing,
    work: impl AsyncFnOnce(&OpenStore, &Caller) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let opened = open(config, if_missing).await?;
    let result = work(&opened, &operator(config)).await;
    opened.close().await;
    result
}

/// Whether the ledger's search index is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// The index is not opened.
    Unused,
    /// The index is opened if it exists.
    IfExists,
    /// The index is opened, and created first if it is missing and the settings enable it.
    Create,
}

async fn open_for_process(
    config: &Config,
    if_missing: IfMissing,
    process: Process,
    index: Index,
) -> anyhow::Result<OpenStore> {
    let OpenLedger {
        ledger,
        anchor,
        clock,
        keyring,
    } = ledger(config, if_missing)?;
    let mut anchor_state = None;
    let mut keeper = None;
    if let Some(anchor) = anchor.filter(|_| !config.unverified) {
        // The store is recorded first: `check` creates the missing anchor, and a crash may happen between the two.
        let mut unconfirmed = None;
        if !anchor.path().exists() {
            unconfirmed = record_known_store(config, ledger.as_ref(), true).await?;
        }
        let state = anchor.check(ledger.as_ref()).await?;
        if let AnchorState::Broken(reason) = &state {
            ledger.distrust(reason.clone());
        } else {
            if state == AnchorState::Holds {
                unconfirmed = record_known_store(config, ledger.as_ref(), false).await?;
            }
            if let Some(warning) = &unconfirmed {
                tracing::warn!(path = %anchor.path().display(), "{warning}");
            }
            let mut new_keeper = AnchorKeeper::start(anchor, ledger.clone())?;
            if process == Process::Server
                && let Some(path) = config.witness.clone()
            {
                let witness = WitnessFile::new(path, ledger.store_id().to_owned());
                new_keeper =
                    new_keeper.with_witness(witness, config.witness_interval, ledger.clone())?;
            }
            keeper = Some(new_keeper.with_unconfirmed_reason(unconfirmed));
        }
        anchor_state = Some(state);
    }
    // The anchor covers the ledger itself; everything else uses the tiered ledger.
    let mut ledger = ledger;
    if !config.unverified {
        ledger = tiered(config, process, ledger, keyring, clock.clone())?;
    }
    let mut engine = Engine::new(
        ledger.clone(),
        Arc::new(OsEntropy),
        clock,
        config.settings.clone(),
    );
    if index != Index::Unused
        && !config.unverified
        && let Some(index) = ledger_index::open(config, index == Index::Create).await?
    {
        engine = engine.with_index(index);
    }
    Ok(OpenStore {
        engine: Arc::new(engine),
        ledger,
        anchor_state,
        keeper,
    })
}

/// Records which store this machine has seen at the configured URL. Returns a warning if the store already had commits
/// when its anchor was created, and no operator has accepted it since: a rollback before that time cannot be detected.
async fn record_known_store(
    config: &Config,
    ledger: &dyn Ledger,
    is_anchor_missing: bool,
) -> anyhow::Result<Option<String>> {
    let Some(known) = known_store(config)? else {
        return Ok(None);
    };
    let previous = known.read()?.filter(|s| s.store_id == ledger.store_id());
    let had_keys = previous.as_ref().is_some_and(|s| s.has_keys);
    let was_unconfirmed = previous.as_ref().is_some_and(|s| s.unconfirmed);
    let seen = SeenStore {
        url: config.store.to_string(),
        store_id: ledger.store_id().to_owned(),
        has_keys: had_keys || filrouge_engine::api_keys::any_exist(ledger).await?,
        unconfirmed: was_unconfirmed || is_anchor_missing && ledger.position().commit_no > 0,
    };
    if previous.as_ref() != Some(&seen) {
        known.write(&seen)?;
    }
    Ok(seen.unconfirmed.then(|| {
        "the store had commits and no anchor, so an older state before that time is not detected; `filrouge anchor accept` accepts it"
            .to_owned()
    }))
}

/// Records that the store at the configured URL has API keys, so that their loss is noticed if the store is lost.
pub(crate) fn record_has_keys(config: &Config) -> anyhow::Result<()> {
    if let Some(known) = known_store(config)?
        && let Some(seen) = known.read()?.filter(|seen| !seen.has_keys)
    {
        known.write(&SeenStore {
            has_keys: true,
            ..seen
        })?;
    }
    Ok(())
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
