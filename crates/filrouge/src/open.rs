//! Opening keyring, store and anchor as configured.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::anchor::{Anchor, AnchorKeeper, Standing};
use filrouge_engine::scopes::TwoScopes;
use filrouge_engine::spool::Spooling;
use filrouge_engine::{Engine, keyfile};
use filrouge_postgres::PostgresLedger;
use filrouge_redis::RedisHot;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::hot::{HotStore, MemoryHot};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::Check;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock};

use crate::config::{Config, HiddenUrl, HotUrl, StoreUrl};
use crate::exit::Usage;
use crate::ledger_index;

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
pub(crate) fn operator(config: &Config) -> Caller {
    Caller::operator(config.tenant.clone())
}

pub(crate) fn keyring(config: &Config, store_exists: bool) -> anyhow::Result<Keyring> {
    let path = &config.keyring;
    if config.unverified && !path.exists() {
        // Reading by links alone: no key is asked for a MAC.
        return Ok(Keyring::single([0; 32]));
    }
    if store_exists {
        Ok(keyfile::load(path).map_err(|failure| match &config.store {
            // Whoever shares a database with other machines most often lacks what they have.
            StoreUrl::Postgres(_) if !path.exists() => failure
                .with_hint("copy the keyring file from the machine that wrote first, or put it back from a backup"),
            _ => failure,
        })?)
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

pub(crate) fn holds_data(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.len() > 0)
}

/// A ledger, its anchor, not yet compared, its clock, and the keys of its data.
pub(crate) struct Ready {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) anchor: Option<Anchor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keyring: Arc<Keyring>,
}

/// The ledger and its anchor, not yet compared.
pub(crate) fn ledger(config: &Config, need: Need) -> anyhow::Result<Ready> {
    if need == Need::Any {
        refuse_unverified(config)?;
    }
    match &config.store {
        StoreUrl::Memory => in_memory(),
        StoreUrl::Sqlite(path) => sqlite(config, path, need),
        StoreUrl::Postgres(url) => postgres(config, url, need),
    }
}

fn in_memory() -> anyhow::Result<Ready> {
    let mut secret = [0; 32];
    filrouge_store::Entropy::fill(&OsEntropy, &mut secret).map_err(anyhow::Error::msg)?;
    let keyring = Arc::new(Keyring::single(secret));
    let clock = Arc::new(SystemClock);
    // Another one, or this one started again, must not come upon what this one leaves in a hot store.
    let store_id = filrouge_store::random_id(&OsEntropy)?;
    let ledger = MemoryLedger::new(keyring.clone(), Arc::new(OsEntropy), clock.clone())
        .with_store_id(store_id);
    Ok(Ready {
        ledger: Arc::new(ledger),
        anchor: None,
        clock,
        keyring,
    })
}

fn sqlite(config: &Config, path: &Path, need: Need) -> anyhow::Result<Ready> {
    if need == Need::Existing && !path.exists() {
        return Err(absent(path.display()).into());
    }
    let keyring = Arc::new(keyring(config, holds_data(path))?);
    filrouge_sqlite::prepare(path)?;
    let clock = Arc::new(SystemClock);
    let mut options = Options::new(path, keyring.clone(), Arc::new(OsEntropy), clock.clone());
    if config.unverified {
        options.check = Check::Unverified;
    }
    let ledger = SqliteLedger::open(options)?;
    let anchor = Anchor::new(&config.anchor, ledger.store_id(), keyring.clone());
    Ok(Ready {
        ledger: Arc::new(ledger),
        anchor: Some(anchor),
        clock,
        keyring,
    })
}

/// A store that is to be there, and is not.
pub(crate) fn absent(place: impl Display) -> Failure {
    let what = format!("there is no store at {place}");
    Failure::new(ErrorCode::StoreUnavailable, what).with_hint(
        "record something first: `filrouge serve`, or `filrouge import`; or name another --store",
    )
}

/// Names the place that could not be reached: most often the URL is wrong.
pub(crate) fn at(url: &HiddenUrl, failure: Failure) -> Failure {
    if failure.code != ErrorCode::StoreUnavailable {
        return failure;
    }
    Failure {
        detail: format!("{url}: {}", failure.detail),
        ..failure
    }
}

/// Whether there is a store already, which belongs to a keyring.
pub(crate) fn store_exists(config: &Config) -> anyhow::Result<bool> {
    match &config.store {
        StoreUrl::Sqlite(path) => Ok(path.exists()),
        StoreUrl::Postgres(url) => {
            // Looking needs no keys.
            let none = Arc::new(Keyring::single([0; 32]));
            let options = url.options(none)?;
            Ok(filrouge_postgres::has_keys(&options).map_err(|f| at(url, f))?)
        }
        StoreUrl::Memory => Ok(false),
    }
}

fn postgres(config: &Config, url: &HiddenUrl, need: Need) -> anyhow::Result<Ready> {
    // Keys are made for a new store alone: one that another machine has begun has keys already, which belong here too.
    let exists = config.keyring.exists() || store_exists(config)?;
    if need == Need::Existing && !exists {
        return Err(absent(url).into());
    }
    let keyring = Arc::new(keyring(config, exists)?);
    let mut options = url.options(keyring.clone())?;
    if let Some(direct) = &config.store_direct {
        options = options.with_direct(direct.as_given())?;
    }
    options.make = need == Need::Any;
    if config.unverified {
        options.check = Check::Unverified;
    }
    let ledger = PostgresLedger::open(options).map_err(|f| at(url, f))?;
    let anchor = Anchor::new(&config.anchor, ledger.store_id(), keyring.clone());
    let clock = ledger.clock();
    Ok(Ready {
        ledger: Arc::new(ledger),
        anchor: Some(anchor),
        clock,
        keyring,
    })
}

/// Whose process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    /// A server's.
    Server,
    /// A command's: the memory of servers is not its own.
    Command,
}

/// The hot store as configured, if this process shares it. One that does not answer is no obstacle: it is not asked here.
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
                ..filrouge_redis::Options::new(url.as_given())
            };
            Some(Arc::new(RedisHot::open(&options)?))
        }
    })
}

/// The ledger, with the hot store in front of it if there is one (DESIGN §7), and in a server with a spool for live calls
/// behind it (DESIGN §6).
fn tiered(
    config: &Config,
    process: Process,
    mut ledger: Arc<dyn Ledger>,
    keyring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Ledger>> {
    let entropy = Arc::new(OsEntropy);
    if let Some(hot) = hot_store(config, process, &clock)? {
        let (keys, time, options) = (keyring.clone(), clock.clone(), config.scopes());
        ledger = TwoScopes::new(ledger, hot, keys, entropy.clone(), time, options);
    }
    // A ledger in memory is never away.
    let may_be_away = process == Process::Server && config.store != StoreUrl::Memory;
    if may_be_away && config.spool.bytes > 0 {
        ledger = Spooling::open(ledger, keyring, entropy, clock, config.spool.clone())?;
    }
    Ok(ledger)
}

/// Opens the store, compares it with its anchor, and keeps the anchor close behind from now on.
///
/// A store that the anchor contradicts is opened and refuses everything, so that `doctor` can say why.
pub(crate) async fn open(config: &Config, need: Need) -> anyhow::Result<Opened> {
    open_in(config, need, Process::Command, Index::Unused).await
}

/// As [`open`], with the search index: for whoever asks it, and for what it has to forget.
pub(crate) async fn open_indexed(
    config: &Config,
    need: Need,
    index: Index,
) -> anyhow::Result<Opened> {
    open_in(config, need, Process::Command, index).await
}

/// As [`open`], for a server: with a hot store of its own where that is in memory, and with a search index.
pub(crate) async fn open_to_serve(config: &Config) -> anyhow::Result<Opened> {
    open_in(config, Need::Any, Process::Server, Index::Made).await
}

/// Opens the store, has `work` done for the operator, and closes it whatever has come of that.
pub(crate) async fn with<T>(
    config: &Config,
    need: Need,
    work: impl AsyncFnOnce(&Opened, &Caller) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let opened = open(config, need).await?;
    let done = work(&opened, &operator(config)).await;
    opened.close().await;
    done
}

/// What is done about the search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// It is not needed.
    Unused,
    /// It is opened if it is there.
    IfThere,
    /// It is made when it is not there, if the settings want one.
    Made,
}

async fn open_in(
    config: &Config,
    need: Need,
    process: Process,
    index: Index,
) -> anyhow::Result<Opened> {
    let Ready {
        ledger,
        anchor,
        clock,
        keyring,
    } = ledger(config, need)?;
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
    // The anchor witnesses the ledger itself; everybody else asks both scopes.
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
        && let Some(index) = ledger_index::open(config, index == Index::Made).await?
    {
        engine = engine.with_index(index);
    }
    Ok(Opened {
        engine: Arc::new(engine),
        ledger,
        standing,
        keeper,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ledger_in_memory_has_a_name_of_its_own() {
        let names = [0, 1].map(|_| in_memory().unwrap().ledger.store_id().to_owned());
        assert_ne!(names[0], names[1]);
    }
}
