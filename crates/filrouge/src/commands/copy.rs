//! `filrouge copy --from URL --to URL`: exit 0 copied and intact, 1 not, or the source was not intact.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_engine::anchor::{Anchor, Standing};
use filrouge_engine::keyfile;
use filrouge_postgres::{PostgresIntake, PostgresLedger, schema, store_id};
use filrouge_sqlite::{Options, SqliteIntake, SqliteLedger};
use filrouge_store::copy::{Copied, Intake, copy, vouched_for};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{ErrorCode, Failure, SystemClock};

use crate::config::{Config, StoreUrl};
use crate::exit::{Usage, report};
use crate::open::{absent, refuse_unverified};
use crate::stop::Stop;

mod progress;
mod side;
mod told;

use progress::Progress;
use side::Side;

pub(super) async fn run(config: &Config, from: &str, to: &str) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let (from, to) = (store(from)?, store(to)?);
    refuse_same(&from, &to)?;
    let keyring = Arc::new(keyfile::load(&config.keyring)?);
    let source = source(&from, keyring.clone())?;
    let result = copied(config, source.clone(), (&from, &to), keyring).await;
    source.close().await;
    match result? {
        Some(copied) => told::end(config, (&from, &to), &copied),
        None => {
            let what = "stopped before the end; the same command goes on where it stopped";
            Ok(report(&anyhow::Error::msg(what), config.json))
        }
    }
}

/// A store that can be copied.
fn store(url: &str) -> Result<StoreUrl, Usage> {
    match url.parse().map_err(Usage::new)? {
        StoreUrl::Memory => Err(Usage::new("a store in memory cannot be copied")
            .with_hint("it is gone with its process; name a store that lasts")),
        url => Ok(url),
    }
}

fn refuse_same(from: &StoreUrl, to: &StoreUrl) -> anyhow::Result<()> {
    let same = match (from, to) {
        (StoreUrl::Sqlite(from), StoreUrl::Sqlite(to)) => from == to || is_one_file(from, to),
        (from, to) if from == to => true,
        // One database has many URLs.
        (StoreUrl::Postgres(_), StoreUrl::Postgres(_)) => {
            let from = name(Side::From, from)?;
            from.is_some() && from == name(Side::To, to)?
        }
        _ => false,
    };
    match same {
        true => Err(Usage::new("--from and --to are the same store").into()),
        false => Ok(()),
    }
}

/// What a PostgreSQL store is called, whichever URL leads to it; `None` where there is none.
fn name(side: Side, url: &StoreUrl) -> Result<Option<String>, Failure> {
    let StoreUrl::Postgres(at) = url else {
        return Ok(None);
    };
    // Looking needs no keys.
    let options = at.options(Arc::new(Keyring::single([0; 32])))?;
    store_id(&options).map_err(|failure| side.of(url, failure))
}

fn is_one_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// The store that is copied, which is only read.
fn source(url: &StoreUrl, keyring: Arc<Keyring>) -> anyhow::Result<Arc<dyn Ledger>> {
    let failed = |failure| Side::From.of(url, failure);
    match url {
        StoreUrl::Memory => Err(Usage::new("a store in memory cannot be copied").into()),
        StoreUrl::Sqlite(path) => {
            if !path.exists() {
                return Err(Side::From.hinting(absent(path.display())).into());
            }
            let mut options = options(path, keyring);
            options.only_read = true;
            Ok(Arc::new(SqliteLedger::open(options).map_err(failed)?))
        }
        StoreUrl::Postgres(at) => {
            let mut options = at.options(keyring)?;
            options.make = false;
            let schema = schema(&options).map_err(failed)?;
            if schema.version == 0 {
                return Err(Side::From.hinting(absent(at)).into());
            }
            if schema.pending().next().is_some() {
                return Err(Usage::new("the source is of an older schema")
                    .with_hint("`filrouge migrate up` brings it up to date")
                    .into());
            }
            Ok(Arc::new(PostgresLedger::open(options).map_err(failed)?))
        }
    }
}

/// The store that is made.
fn intake(url: &StoreUrl, keyring: Arc<Keyring>) -> anyhow::Result<Box<dyn Intake>> {
    match url {
        StoreUrl::Memory => Err(Usage::new("a store in memory cannot be copied").into()),
        StoreUrl::Sqlite(path) => Ok(Box::new(SqliteIntake::new(options(path, keyring)))),
        StoreUrl::Postgres(url) => {
            let options = url.options(keyring)?;
            Ok(Box::new(PostgresIntake::new(options)))
        }
    }
}

fn options(path: &Path, keyring: Arc<Keyring>) -> Options {
    Options::new(path, keyring, Arc::new(OsEntropy), Arc::new(SystemClock))
}

/// A source that its anchor contradicts is not what it was: in a copy, with an anchor of its own, nobody could tell.
async fn refuse_rolled_back(
    config: &Config,
    source: &dyn Ledger,
    keyring: Arc<Keyring>,
) -> anyhow::Result<()> {
    let anchor = Anchor::new(&config.anchor, source.store_id(), keyring);
    if !anchor.path().exists() {
        return Ok(());
    }
    // Under another keyring the anchor does not fit either: what is wrong then is told first.
    source.ask(|sight| vouched_for(sight).map(drop)).await?;
    match anchor.check(source).await? {
        Standing::Broken(what) => Err(Failure::new(ErrorCode::IntegrityError, what)
            .with_hint("restore the newest copy, or accept the loss with `filrouge anchor accept`")
            .into()),
        Standing::Made | Standing::Holds => Ok(()),
    }
}

/// Copies; `None` when Ctrl-C or SIGTERM has ended it.
async fn copied(
    config: &Config,
    source: Arc<dyn Ledger>,
    (from, to): (&StoreUrl, &StoreUrl),
    keyring: Arc<Keyring>,
) -> anyhow::Result<Option<Copied>> {
    refuse_rolled_back(config, source.as_ref(), keyring.clone()).await?;
    let mut target = intake(to, keyring.clone())?;
    let stop = Arc::new(AtomicBool::new(false));
    let anchors = config.anchor.clone();
    let mut progress = Progress::new(stop.clone(), anchors, keyring);
    // Asked for before the copy begins: a signal that nobody waits for ends the process at once.
    let mut asked = Stop::taken()?;
    let id = source.store_id().to_owned();
    let from_here = source.clone();
    let work = async move {
        let copied = from_here.ask(move |sight| copy(sight, &id, &mut *target, &mut progress));
        copied.await
    };
    let mut work = tokio::spawn(work);
    let result = loop {
        tokio::select! {
            result = &mut work => break result?,
            () = asked.asked() => {}
        }
        if stop.swap(true, Ordering::Relaxed) {
            // Whoever asks twice does not wait for what is under way; a kill leaves nothing worse.
            std::process::exit(1);
        }
    };
    match result {
        Ok(copied) => Ok(Some(copied)),
        Err(_) if stop.load(Ordering::Relaxed) => Ok(None),
        // What does not fit together is about both.
        Err(failure) if failure.code == ErrorCode::Invalid => Err(failure.into()),
        Err(failure) => {
            // A source that still answers is not the one that failed.
            let side = match source.ask(|_| Ok(())).await {
                Ok(()) => Side::To.of(to, failure),
                Err(_) => Side::From.of(from, failure),
            };
            Err(with_hint(side).into())
        }
    }
}

/// Whatever breaks a copy off, it can be gone on with.
fn with_hint(failure: Failure) -> Failure {
    let hint = match failure.code {
        ErrorCode::StoreFull => "make room",
        ErrorCode::StoreUnavailable => "see that both stores can be reached",
        _ => return failure,
    };
    match failure.hint {
        Some(_) => failure,
        None => failure.with_hint(format!(
            "{hint}, then give the same command again: it goes on where it stopped"
        )),
    }
}
