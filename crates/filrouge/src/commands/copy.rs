//! `filrouge copy --from URL --to URL`: exit 0 copied completely; 1 the copy failed, or the source is not intact.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_engine::anchor::{Anchor, AnchorState};
use filrouge_engine::keyfile;
use filrouge_postgres::{PostgresCopyTarget, PostgresLedger, schema, store_id};
use filrouge_sqlite::{Options, SqliteCopyTarget, SqliteLedger};
use filrouge_store::copy::{Copied, CopyTarget, check_newest_commits, copy};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{ErrorCode, Failure, SystemClock};

use crate::config::{Config, StoreUrl};
use crate::exit::{ExitCode, Usage, report};
use crate::open::{known_store_at, missing_store, refuse_distribution, refuse_unverified};
use crate::stop::StopSignals;

mod endpoint;
mod notes;
mod progress;
mod summary;

use endpoint::Endpoint;
use progress::Progress;

pub(super) async fn run(config: &Config, from: &str, to: &str) -> anyhow::Result<ExitCode> {
    refuse_unverified(config)?;
    let (from, to) = (parse_store_url(from)?, parse_store_url(to)?);
    refuse_same_store(&from, &to)?;
    let keyring = Arc::new(keyfile::load(&config.keyring)?);
    let source = open_source(&from, keyring.clone())?;
    let result = run_copy(config, source.clone(), (&from, &to), keyring).await;
    source.close().await;
    match result? {
        Some(copied) => summary::print(config, (&from, &to), &copied),
        None => {
            let detail = "stopped before the end; the same command resumes where it stopped";
            Ok(report(&anyhow::Error::msg(detail), config.json))
        }
    }
}

/// Parses the URL of a store that can be copied.
fn parse_store_url(url: &str) -> Result<StoreUrl, Usage> {
    match url.parse().map_err(Usage::new)? {
        StoreUrl::Memory => Err(Usage::new("a store in memory cannot be copied")
            .with_hint("it ends with its process; name a persistent store")),
        url => Ok(url),
    }
}

fn refuse_same_store(from: &StoreUrl, to: &StoreUrl) -> anyhow::Result<()> {
    let is_same = match (from, to) {
        (StoreUrl::Sqlite(from), StoreUrl::Sqlite(to)) => from == to || is_one_file(from, to),
        (from, to) if from == to => true,
        // Several URLs can name one database.
        (StoreUrl::Postgres(_), StoreUrl::Postgres(_)) => {
            let from = postgres_store_id(Endpoint::Source, from)?;
            from.is_some() && from == postgres_store_id(Endpoint::Target, to)?
        }
        _ => false,
    };
    match is_same {
        true => Err(Usage::new("--from and --to are the same store").into()),
        false => Ok(()),
    }
}

/// The store id of a PostgreSQL store, which is the same under every URL. `None` when no store exists, or when the URL
/// is of another kind.
fn postgres_store_id(endpoint: Endpoint, url: &StoreUrl) -> Result<Option<String>, Failure> {
    let StoreUrl::Postgres(hidden_url) = url else {
        return Ok(None);
    };
    let options = hidden_url.options_without_keyring()?;
    store_id(&options).map_err(|failure| endpoint.with_store(url, failure))
}

fn is_one_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Opens the source read-only.
fn open_source(url: &StoreUrl, keyring: Arc<Keyring>) -> anyhow::Result<Arc<dyn Ledger>> {
    let name_source = |failure| Endpoint::Source.with_store(url, failure);
    match url {
        StoreUrl::Memory => Err(Usage::new("a store in memory cannot be copied").into()),
        StoreUrl::Sqlite(path) => {
            if !path.exists() {
                return Err(Endpoint::Source
                    .with_option(missing_store(path.display()))
                    .into());
            }
            let mut options = options(path, keyring);
            options.only_read = true;
            Ok(Arc::new(SqliteLedger::open(options).map_err(name_source)?))
        }
        StoreUrl::Postgres(hidden_url) => {
            let mut options = hidden_url.options(keyring)?;
            options.make = false;
            let schema = schema(&options).map_err(name_source)?;
            if schema.version == 0 {
                return Err(Endpoint::Source
                    .with_option(missing_store(hidden_url))
                    .into());
            }
            if schema.pending().next().is_some() {
                return Err(Usage::new("the source has an older schema")
                    .with_hint("`filrouge migrate up` migrates it")
                    .into());
            }
            Ok(Arc::new(
                PostgresLedger::open(options).map_err(name_source)?,
            ))
        }
    }
}

/// The target, which the copy creates or resumes.
fn copy_target(
    config: &Config,
    url: &StoreUrl,
    keyring: Arc<Keyring>,
) -> anyhow::Result<Box<dyn CopyTarget>> {
    match url {
        StoreUrl::Memory => Err(Usage::new("a store in memory cannot be copied").into()),
        StoreUrl::Sqlite(path) => {
            refuse_distribution(config)?;
            Ok(Box::new(SqliteCopyTarget::new(options(path, keyring))))
        }
        StoreUrl::Postgres(url) => {
            let mut options = url.options(keyring)?;
            options.lanes = config.lanes;
            options.distribute = config.distribute;
            Ok(Box::new(PostgresCopyTarget::new(options)))
        }
    }
}

fn options(path: &Path, keyring: Arc<Keyring>) -> Options {
    Options::new(path, keyring, Arc::new(OsEntropy), Arc::new(SystemClock))
}

/// Refuses a source that contradicts its anchor: the copy gets a new anchor, which would hide the source's rollback.
async fn refuse_rolled_back(
    config: &Config,
    source: &dyn Ledger,
    keyring: Arc<Keyring>,
) -> anyhow::Result<()> {
    let anchor = Anchor::new(&config.anchor, source.store_id(), keyring);
    if !anchor.path().exists() {
        return Ok(());
    }
    // With the wrong keyring, the anchor would not match either, and the failure would look like a rollback. Verifying
    // the newest commits first reports a wrong keyring as such.
    source.query(check_newest_commits).await?;
    match anchor.check(source).await? {
        AnchorState::Broken(reason) => Err(Failure::new(ErrorCode::IntegrityError, reason)
            .with_hint("restore the newest copy, or accept the loss with `filrouge anchor accept`")
            .into()),
        AnchorState::Created | AnchorState::Holds => Ok(()),
    }
}

/// Runs the copy; `None` when Ctrl-C or SIGTERM stopped it.
async fn run_copy(
    config: &Config,
    source: Arc<dyn Ledger>,
    (from, to): (&StoreUrl, &StoreUrl),
    keyring: Arc<Keyring>,
) -> anyhow::Result<Option<Copied>> {
    refuse_rolled_back(config, source.as_ref(), keyring.clone()).await?;
    let mut target = copy_target(config, to, keyring.clone())?;
    // This machine may have seen another store at the target's URL. The operator who copies to it knows that, so the
    // record of that store is removed and does not prevent the copy from being opened.
    if let Some(known) = known_store_at(&config.anchor, to)? {
        known.remove()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let anchors = config.anchor.clone();
    let mut progress = Progress::new(stop.clone(), anchors, keyring);
    // Installed before the copy starts: without a handler a signal ends the process at once.
    let mut signals = StopSignals::install()?;
    let id = source.store_id().to_owned();
    let source_ledger = source.clone();
    let copy_task = async move {
        let copied =
            source_ledger.query(move |snapshot| copy(snapshot, &id, &mut *target, &mut progress));
        copied.await
    };
    let mut copy_task = tokio::spawn(copy_task);
    let result = loop {
        tokio::select! {
            result = &mut copy_task => break result?,
            () = signals.requested() => {}
        }
        if stop.swap(true, Ordering::Relaxed) {
            // A second signal exits without waiting for the current step: a killed copy can be resumed like a stopped
            // one.
            std::process::exit(1);
        }
    };
    match result {
        Ok(copied) => Ok(Some(copied)),
        Err(_) if stop.load(Ordering::Relaxed) => Ok(None),
        // `invalid` means that the two stores do not match, so neither of them is named.
        Err(failure) if failure.code == ErrorCode::Invalid => Err(failure.into()),
        Err(failure) => {
            // If the source still answers, the target failed.
            let failure = match source.query(|_| Ok(())).await {
                Ok(()) => Endpoint::Target.with_store(to, failure),
                Err(_) => Endpoint::Source.with_store(from, failure),
            };
            Err(with_resume_hint(failure).into())
        }
    }
}

/// Adds a hint to a failure without one, if a store is full or unavailable: once the cause is removed, the copy can be
/// resumed.
fn with_resume_hint(failure: Failure) -> Failure {
    let hint = match failure.code {
        ErrorCode::StoreFull => "free some space",
        ErrorCode::StoreUnavailable => "check that both stores can be reached",
        _ => return failure,
    };
    match failure.hint {
        Some(_) => failure,
        None => failure.with_hint(format!(
            "{hint}, then repeat the same command: it resumes where it stopped"
        )),
    }
}
