//! `filrouge serve`

use std::io::Write;
use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_engine::scopes::DurablePolicy;
use filrouge_http::access::Authority;
use filrouge_http::{ListenError, bind};
use filrouge_search::embed::Embedder;
use filrouge_search::feed::Indexer;
use filrouge_search::ledger::LedgerFeed;
use filrouge_server::{App, McpSettings, SearchSettings, serve};
use filrouge_store::Durability;
use filrouge_types::SystemClock;

use super::index_open::indexes;
use crate::config::sources::open as open_sources;
use crate::config::{Config, HotUrl, SourceName, StoreUrl};
use crate::exit::Usage;
use crate::open::{Opened, open_to_serve, store_exists};
use crate::output::print;
use crate::stop::Stop;

pub(super) async fn run(config: &Config, sources: &[SourceName]) -> anyhow::Result<()> {
    let address = config.listen;
    let (access, webhooks) = config.server_settings()?;
    let mcp = mcp(config, sources)?;
    let embedder = config.search.embedder()?;
    // Without a token issuer and without API keys, a server must not listen on this address. A missing store has no API
    // keys, so the refusal comes here, before the store is created.
    if access.jwt.is_none() && !address.ip().is_loopback() && !store_exists(config)? {
        return Err(not_started(ListenError::NotLoopback(address)));
    }
    let Opened {
        engine,
        ledger,
        keeper,
        ..
    } = open_to_serve(config).await?;
    let authority = Authority::start(engine.clone(), Arc::new(SystemClock), access)
        .await
        .map_err(|e| Usage::new(format!("[jwt]: {e}")))?;
    let listener = bind(address, &authority).await.map_err(not_started)?;
    let address = listener.local_addr()?;
    let mut signals = Stop::install()?;
    let stop = async move {
        signals.requested().await;
        tracing::info!("stopping");
    };
    if let Some(integrity) = ledger.health().integrity {
        tracing::error!(%integrity, "the store differs from what was written; requests for the affected data are refused");
    }
    if ledger.backend().durability == Durability::Buffered {
        tracing::warn!(
            "PostgreSQL runs with fsync=off: what is written does not survive a power cut"
        );
    }
    warn_of_memory(config);
    warn_of_hot(config, &engine).await;
    tracing::info!(store = %config.store, hot = %config.hot.url, %address, "ready");
    if let Err(error) = print(|out| writeln!(out, "listening on http://{address}")) {
        tracing::warn!(%error, "stdout is closed");
    }
    let limits = config.limits.clone();
    open_descriptors(limits.connections);
    std::panic::set_hook(Box::new(report_panic));
    let search = search(config, &engine, &mcp, embedder);
    let indexer = search.indexes.clone().map(Indexer::start).transpose()?;
    let feed = search.feed.clone();
    let app = App::new(engine, authority, keeper, limits, mcp, search);
    let feeding = feed.map(|feed| {
        let stopping = app.stopping();
        tokio::spawn(async move { feed.run(stopping).await })
    });
    serve(listener, app, webhooks, stop).await?;
    drop(indexer);
    if let Some(feeding) = feeding {
        feeding.await?;
    }
    #[cfg(feature = "otel")]
    crate::telemetry::finish().await;
    Ok(())
}

/// The settings of searches: the ledger's index, and the indexes of the histories that `--source` names.
fn search(
    config: &Config,
    engine: &Arc<Engine>,
    mcp: &McpSettings,
    embedder: Option<Arc<dyn Embedder>>,
) -> SearchSettings {
    let settings = &config.search.index;
    let index = engine.index_feed.index().filter(|_| settings.on);
    let feed = index.map(|index| {
        let feed = LedgerFeed::new(engine.clone(), index.clone(), Arc::new(SystemClock));
        Arc::new(feed.with_embedder(embedder.clone()))
    });
    SearchSettings {
        feed,
        indexes: indexes(settings, mcp.library.sources(), true),
        embedder,
    }
}

/// The settings of `/mcp`, which serves the ledger as each caller may see it, and the histories that `--source` names.
/// Histories that only the setting `sources` names are personal. They are not served, because a forgotten setting must
/// not show them to everybody.
fn mcp(config: &Config, sources: &[SourceName]) -> anyhow::Result<McpSettings> {
    let hosts = config.mcp_hosts.clone();
    if sources.is_empty() {
        return Ok(McpSettings {
            hosts,
            ..McpSettings::default()
        });
    }
    if sources.iter().any(SourceName::is_ledger) {
        return Err(Usage::new("serve --source ledger: the ledger is served anyway").into());
    }
    let library = open_sources(config, sources)?;
    tracing::warn!("everybody who may call this server can read the histories named by --source");
    Ok(McpSettings { library, hosts })
}

/// Warns if ephemeral sessions are in this server's memory while other servers may share the store: those servers do
/// not see these sessions.
fn warn_of_memory(config: &Config) {
    let shared = matches!(config.store, StoreUrl::Postgres(_));
    let ephemeral = config.hot.durable == DurablePolicy::Authenticated;
    if shared && ephemeral && config.hot.url == HotUrl::Memory {
        tracing::warn!(
            "sessions without an identity are in this server's memory; several servers need hot = redis://…"
        );
    }
}

/// Pings a remote hot store once: a server starts without it, but the operator gets a warning.
async fn warn_of_hot(config: &Config, engine: &Engine) {
    let Some(tiers) = engine.tiers() else { return };
    if config.hot.url == HotUrl::Memory {
        return;
    }
    let hot = tiers.hot_health().await;
    if let Some(why) = hot.unavailable.or(hot.refuses_writes) {
        tracing::warn!(hot = %config.hot.url, why, "the hot store cannot be used at the moment; sessions in the ledger work without it");
    }
}

fn not_started(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::NotLoopback(_) => Usage::new(error.to_string())
            .with_hint("listen on 127.0.0.1 or [::1], or create a key first: filrouge keys create --role service")
            .into(),
        ListenError::Io { .. } => anyhow::Error::new(error),
    }
}

/// Logs where the program panicked, but not the message, which may quote a user's text.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    tracing::error!(place, "the program panicked; this is a bug");
}

/// Raises the limit of open descriptors to what the allowed number of connections needs. Warns if the system's hard
/// limit is lower.
fn open_descriptors(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// The number of descriptors for everything else, such as the store and the log.
    const OTHERS: u64 = 256;
    let needed = connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= needed) {
        return;
    }
    let wanted = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    if wanted < needed || setrlimit(Resource::Nofile, raised).is_err() {
        let got = getrlimit(Resource::Nofile).current;
        tracing::warn!(
            needed,
            got,
            "the system allows fewer open descriptors than limits.connections needs"
        );
    }
}
