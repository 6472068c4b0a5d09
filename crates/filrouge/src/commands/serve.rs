//! `filrouge serve`

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_engine::api_keys::KeptKeys;
use filrouge_engine::scopes::DurablePolicy;
use filrouge_http::access::Authority;
use filrouge_http::limits::LimitSettings;
use filrouge_http::{ListenError, bind};
use filrouge_search::SearchSettings;
use filrouge_search::embed::Embedder;
use filrouge_search::feed::Indexer;
use filrouge_search::ledger::LedgerFeed;
use filrouge_server::{App, McpSettings, Prices, serve};
use filrouge_sources::Library;
use filrouge_store::{Durability, Ledger};
use filrouge_types::SystemClock;

use super::index_open::indexes;
use crate::config::sources::open as open_sources;
use crate::config::{Config, HotUrl, SourceName, StoreUrl};
use crate::exit::Usage;
use crate::open::{OpenStore, open_to_serve, remembers_keys, store_exists};
use crate::output::print;
use crate::projections::install_with;
use crate::similar::of_projections;
use crate::stop::StopSignals;

pub(super) async fn run(config: &Config, sources: &[SourceName]) -> anyhow::Result<()> {
    serve_histories(config, mcp_settings(config, sources)?, |_| {}).await
}

/// Serves the store and other programs' histories until a signal. Prints the address, and passes it to `ready`.
pub(super) async fn serve_histories(
    config: &Config,
    mcp_settings: McpSettings,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let address = config.listen;
    let (mut access, webhooks) = config.server_settings()?;
    let prices = prices(config)?;
    let embedder = config.search.embedder()?;
    // Without a token issuer and API keys, a server must listen only on loopback. A missing store has no API keys, so
    // the address is refused here, before the store is created.
    if access.jwt.is_none()
        && !address.ip().is_loopback()
        && !remembers_keys(config)?
        && !store_exists(config)?
    {
        return Err(listen_error(ListenError::NotLoopback(address)));
    }
    let OpenStore {
        engine,
        ledger,
        keeper,
        unanswered,
        ..
    } = open_to_serve(config).await?;
    access.had_keys = unanswered.map(|seen| seen.has_keys);
    access.kept = kept_keys(config, ledger.as_ref());
    let authority = Authority::start(engine.clone(), Arc::new(SystemClock), access)
        .await
        .map_err(|e| Usage::new(format!("[jwt]: {e}")))?;
    let listener = bind(address, &authority).await.map_err(listen_error)?;
    let address = listener.local_addr()?;
    let mut signals = StopSignals::install()?;
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
    warn_if_hot_memory_is_not_shared(config);
    warn_if_hot_is_unavailable(config, &engine).await;
    tracing::info!(store = %config.store, hot = %config.hot.url, %address, "ready");
    if let Err(error) = print(|out| writeln!(out, "listening on http://{address}")) {
        tracing::warn!(%error, "stdout is closed");
    }
    ready(address);
    let limits = LimitSettings {
        unread_folder: Some(config.spool.directory.clone()),
        ..config.limits.clone()
    };
    raise_descriptor_limit(limits.connections);
    std::panic::set_hook(Box::new(report_panic));
    let projections = install_with(config, &engine, embedder.as_ref())?;
    let mut search_settings = search_settings(config, &engine, &mcp_settings, embedder);
    search_settings.similar_turns = of_projections(&projections);
    let indexer = search_settings
        .indexes
        .clone()
        .map(Indexer::start)
        .transpose()?;
    let feed = search_settings.feed.clone();
    let app = App::new(
        engine,
        authority,
        keeper,
        limits,
        mcp_settings,
        search_settings,
    )
    .with_projections(projections)
    .with_prices(prices);
    let feed_task = feed.map(|feed| {
        let stopping = app.stopping();
        tokio::spawn(async move { feed.run(stopping).await })
    });
    serve(listener, app, webhooks, stop).await?;
    drop(indexer);
    if let Some(feed_task) = feed_task {
        feed_task.await?;
    }
    #[cfg(feature = "otel")]
    crate::telemetry::finish().await;
    Ok(())
}

/// The file in which API keys are kept, next to the anchor. Only PostgreSQL may not answer when a server starts.
fn kept_keys(config: &Config, ledger: &dyn Ledger) -> Option<KeptKeys> {
    let max_age = config.access.kept_keys;
    let is_used = matches!(config.store, StoreUrl::Postgres(_)) && !max_age.is_zero();
    let keyring = ledger.keyring().clone();
    is_used.then(|| KeptKeys::new(&config.anchor, ledger.store_id(), keyring, max_age))
}

/// The settings of searches: the ledger's index, and the indexes of the histories that `--source` names.
fn search_settings(
    config: &Config,
    engine: &Arc<Engine>,
    mcp_settings: &McpSettings,
    embedder: Option<Arc<dyn Embedder>>,
) -> SearchSettings {
    let enabled = config.search.index.enabled;
    let index = engine.index_feed.index().filter(|_| enabled);
    let feed = index.map(|index| {
        let feed = LedgerFeed::new(engine.clone(), index.clone(), Arc::new(SystemClock));
        Arc::new(feed.with_embedder(embedder.clone()))
    });
    SearchSettings {
        feed,
        indexes: indexes(config, mcp_settings.library.sources(), true),
        embedder,
        similar_turns: None,
    }
}

/// The settings of `/mcp`, which serves the ledger as each caller may see it, and the histories that `--source` names.
/// Histories that only the setting `sources` names are personal. They are not served, because a forgotten setting must
/// not expose them to every caller.
fn mcp_settings(config: &Config, sources: &[SourceName]) -> anyhow::Result<McpSettings> {
    let hosts = config.mcp_hosts.clone();
    if sources.is_empty() {
        let library = Library::new(Vec::new(), 0);
        return Ok(McpSettings { library, hosts });
    }
    if sources.iter().any(SourceName::is_ledger) {
        return Err(Usage::new("serve --source ledger: the ledger is served anyway").into());
    }
    let library = open_sources(config, sources)?;
    tracing::warn!("everybody who may call this server can read the histories named by --source");
    Ok(McpSettings { library, hosts })
}

/// The prices of models: those of the file that the settings name, if they name one.
fn prices(config: &Config) -> anyhow::Result<Prices> {
    let Some(path) = &config.prices else {
        return Ok(Prices::none());
    };
    let refused = |why: String| Usage::new(format!("pages.prices: {path}: {why}"));
    let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
    Ok(Prices::parse(&text).map_err(|e| refused(e.to_string()))?)
}

/// Warns if ephemeral sessions are in this server's memory while other servers may share the store: those servers do
/// not see these sessions.
fn warn_if_hot_memory_is_not_shared(config: &Config) {
    let is_shared = matches!(config.store, StoreUrl::Postgres(_));
    let has_ephemeral = config.hot.durable == DurablePolicy::Authenticated;
    if is_shared && has_ephemeral && config.hot.url == HotUrl::Memory {
        tracing::warn!(
            "sessions without an identity are in this server's memory; several servers need hot = redis://…"
        );
    }
}

/// Pings a remote hot store once: a server starts without it, but the operator gets a warning.
async fn warn_if_hot_is_unavailable(config: &Config, engine: &Engine) {
    let Some(tiers) = engine.tiers() else { return };
    if config.hot.url == HotUrl::Memory {
        return;
    }
    let hot = tiers.hot_health().await;
    if let Some(why) = hot.unavailable.or(hot.refuses_writes) {
        tracing::warn!(hot = %config.hot.url, why, "the hot store cannot be used at the moment; sessions in the ledger work without it");
    }
}

fn listen_error(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::NotLoopback(_) => Usage::new(error.to_string())
            .with_hint("listen on 127.0.0.1 or [::1], or create a key first: filrouge keys create --role service")
            .into(),
        ListenError::Io { .. } => anyhow::Error::new(error),
    }
}

/// Logs the location of a panic, but not its message, which may quote a user's text.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    tracing::error!(place, "the program panicked; this is a bug");
}

/// Raises the limit of open descriptors to the number that the allowed connections need. Warns if the system's hard
/// limit is lower.
fn raise_descriptor_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// The number of descriptors for everything else, such as the store and the log.
    const OTHER_DESCRIPTORS: u64 = 256;
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let new_limit = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let new_limits = Rlimit {
        current: Some(new_limit),
        maximum: limit.maximum,
    };
    if new_limit < needed || setrlimit(Resource::Nofile, new_limits).is_err() {
        let got = getrlimit(Resource::Nofile).current;
        tracing::warn!(
            needed,
            got,
            "the system allows fewer open descriptors than limits.connections needs"
        );
    }
}
