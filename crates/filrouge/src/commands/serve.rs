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
    let (access, webhooks) = config.served()?;
    let mcp = mcp(config, sources)?;
    let embedder = config.search.embedder()?;
    // A store that is not there has no keys, and is not made for a server that does not start.
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
    let mut asked = Stop::taken()?;
    let stop = async move {
        asked.asked().await;
        tracing::info!("stopping");
    };
    if let Some(integrity) = ledger.health().integrity {
        tracing::error!(%integrity, "the store is not what was written; what is concerned is refused");
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
        tracing::warn!(%error, "nobody reads stdout");
    }
    let limits = config.limits.clone();
    open_descriptors(limits.connections);
    std::panic::set_hook(Box::new(tell_of_panic));
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

/// What searches are answered with: the ledger's index, and those of the histories that the command line names.
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

/// What agents are answered from: the ledger as each caller sees it, and the histories that the command line names. Those
/// of the settings are a person's own, and are not shown to everybody by forgetting them.
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

/// What is in memory is this server's alone: others that share its store do not see it.
fn warn_of_memory(config: &Config) {
    let shared = matches!(config.store, StoreUrl::Postgres(_));
    let ephemeral = config.hot.durable == DurablePolicy::Authenticated;
    if shared && ephemeral && config.hot.url == HotUrl::Memory {
        tracing::warn!(
            "sessions without an identity are in this server's memory; several servers need hot = redis://…"
        );
    }
}

/// Asks a hot store elsewhere once: it is not needed to start, but whoever starts a server is there to read.
async fn warn_of_hot(config: &Config, engine: &Engine) {
    let Some(tiers) = engine.tiers() else { return };
    if config.hot.url == HotUrl::Memory {
        return;
    }
    let hot = tiers.hot_health().await;
    if let Some(why) = hot.unavailable.or(hot.refuses_writes) {
        tracing::warn!(hot = %config.hot.url, why, "the hot store cannot be used at the moment; sessions in the ledger go on without it");
    }
}

fn not_started(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::NotLoopback(_) => Usage::new(error.to_string())
            .with_hint("listen on 127.0.0.1 or [::1], or make a key first: filrouge keys create --role service")
            .into(),
        ListenError::Io { .. } => anyhow::Error::new(error),
    }
}

/// Where the program panicked; never with what, which may quote what somebody said.
fn tell_of_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    tracing::error!(place, "the program panicked; this is a fault of it");
}

/// Lets the process hold as many descriptors as connections are allowed, if the system's hard bound permits.
fn open_descriptors(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// Descriptors for the store, the log and the like.
    const OTHERS: u64 = 256;
    let needed = connections as u64 + OTHERS;
    let bound = getrlimit(Resource::Nofile);
    if bound.current.is_none_or(|now| now >= needed) {
        return;
    }
    let wanted = bound.maximum.map_or(needed, |most| most.min(needed));
    let asked = Rlimit {
        current: Some(wanted),
        maximum: bound.maximum,
    };
    if wanted < needed || setrlimit(Resource::Nofile, asked).is_err() {
        let got = getrlimit(Resource::Nofile).current;
        tracing::warn!(
            needed,
            got,
            "the system allows fewer open descriptors than limits.connections needs"
        );
    }
}
