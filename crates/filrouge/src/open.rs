//! Opens the store with its engine, its hot store and its search index, as configured, and keeps its anchor.

mod late;
mod store;

use std::sync::Arc;

use filrouge_engine::anchor::{Anchor, AnchorKeeper, AnchorState, SeenStore, WitnessFile};
use filrouge_engine::scopes::{DurablePolicy, TieredLedger};
use filrouge_engine::spool::{SpoolOptions, SpooledLedger};
use filrouge_engine::{Caller, Engine};
use filrouge_redis::RedisHot;
use filrouge_store::hot::{HotStore, MemoryHot};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_types::Clock;

use crate::config::{Config, HotUrl, StoreUrl};
use crate::ledger_index;

pub(crate) use store::{
    BUSY_TIMEOUT, IfMissing, OpenLedger, holds_data, keyring, known_store, known_store_at, ledger,
    ledger_unchecked, missing_store, refuse_distribution, refuse_unverified, store_exists,
    stored_id, with_url,
};

/// An open store with its engine.
pub(crate) struct OpenStore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The result of comparing the store with its anchor; `None` for a store in memory, and with `--unverified`.
    pub(crate) anchor_state: Option<AnchorState>,
    /// Keeps the anchor up to date. `None` without a comparison, and if the store contradicts its anchor.
    pub(crate) keeper: Option<AnchorKeeper>,
    /// The record of the store, if it does not answer: the server then starts without it.
    pub(crate) unanswered: Option<SeenStore>,
}

impl OpenStore {
    /// Closes the ledger. Then stops the keeper, which records the ledger's newest commits in the anchor.
    pub(crate) async fn close(self) {
        self.ledger.close().await;
        drop(self.keeper);
    }
}

/// The caller on whose behalf commands run, who sees the entire tenant.
pub(crate) fn operator(config: &Config) -> Caller {
    Caller::operator(config.tenant.clone())
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
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Ledger>> {
    let (keyring, entropy) = (Arc::new(ledger.keyring().clone()), Arc::new(OsEntropy));
    if let Some(hot) = hot_store(config, process, &clock)? {
        let (keys, time, options) = (keyring.clone(), clock.clone(), config.tier_options());
        ledger = TieredLedger::new(ledger, hot, keys, entropy.clone(), time, options);
    }
    // A ledger in memory always answers, so it needs no spool.
    let may_not_answer = process == Process::Server && config.store != StoreUrl::Memory;
    if may_not_answer && config.spool.bytes > 0 {
        let options = SpoolOptions {
            anonymous: config.hot.durable == DurablePolicy::All,
            ..config.spool.clone()
        };
        ledger = SpooledLedger::open(ledger, keyring, entropy, clock, options)?;
    }
    Ok(ledger)
}

/// Opens the store, compares it with its anchor, and keeps the anchor up to date until [`OpenStore::close`].
///
/// A store that contradicts its anchor is opened, so that `doctor` can report why, but it refuses all requests.
pub(crate) async fn open(
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
    let opened = open(config, if_missing, Index::Unused).await?;
    let result = work(&opened, &operator(config)).await;
    opened.close().await;
    result
}

/// Whether the ledger's search index is opened: for searches, and for erasures, which also clear the index.
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
    let (open_ledger, unanswered) = match ledger(config, if_missing) {
        Ok(open_ledger) => (open_ledger, None),
        Err(error) if process == Process::Server => {
            let (open_ledger, seen) = late::start(config, error)?;
            (open_ledger, Some(seen))
        }
        Err(error) => return Err(error),
    };
    let OpenLedger {
        ledger,
        anchor,
        clock,
    } = open_ledger;
    let (anchor_state, keeper) = check_anchor(config, process, &ledger, anchor).await?;
    // The anchor covers the ledger itself; everything else uses the tiered ledger.
    let mut ledger = ledger;
    if !config.unverified {
        ledger = tiered(config, process, ledger, clock.clone())?;
    }
    let mut engine = Engine::new(
        ledger.clone(),
        Arc::new(OsEntropy),
        clock,
        config.settings.clone(),
    );
    if index != Index::Unused
        && !config.unverified
        && unanswered.is_none()
        && let Some(index) =
            ledger_index::open(config, index == Index::Create, ledger.as_ref()).await?
    {
        engine = engine.with_index(index);
    }
    Ok(OpenStore {
        engine: Arc::new(engine),
        ledger,
        anchor_state,
        keeper,
        unanswered,
    })
}

/// Compares a store with its anchor, and starts to keep the anchor up to date. Does nothing without an anchor, and with
/// `--unverified`. A store that contradicts its anchor refuses all requests.
async fn check_anchor(
    config: &Config,
    process: Process,
    ledger: &Arc<dyn Ledger>,
    anchor: Option<Anchor>,
) -> anyhow::Result<(Option<AnchorState>, Option<AnchorKeeper>)> {
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
    Ok((anchor_state, keeper))
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
        lanes: ledger.lanes().count(),
        has_keys: had_keys || filrouge_engine::api_keys::any_exist(ledger).await?,
        unconfirmed: was_unconfirmed || is_anchor_missing && ledger.position().commit_count() > 0,
    };
    if previous.as_ref() != Some(&seen) {
        known.write(&seen)?;
    }
    Ok(seen.unconfirmed.then(|| {
        "the store had commits and no anchor, so an older state before that time is not detected; `filrouge anchor accept` accepts it"
            .to_owned()
    }))
}

/// Whether this machine remembers that the store at the configured URL has API keys.
pub(crate) fn remembers_keys(config: &Config) -> anyhow::Result<bool> {
    let seen = known_store(config)?.map(|known| known.read()).transpose()?;
    Ok(seen.flatten().is_some_and(|seen| seen.has_keys))
}

/// Remembers in the state folder that the store at the configured URL has API keys, so that their loss is noticed if
/// the store is lost.
pub(crate) fn remember_store_has_keys(config: &Config) -> anyhow::Result<()> {
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
