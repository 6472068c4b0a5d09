//! What a server runs over its open store, apart from the listener. A ledger within another program has the same.

use std::future::Future;
use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_engine::api_keys::KeptKeys;
use filrouge_engine::scopes::DurablePolicy;
use filrouge_http::access::{AccessSettings, Authority};
use filrouge_http::limits::LimitSettings;
use filrouge_search::SearchSettings;
use filrouge_search::embed::Embedder;
use filrouge_search::ledger::LedgerFeed;
use filrouge_server::{App, McpSettings, Prices, RunningServer, Webhooks};
use filrouge_store::{Durability, Ledger};
use filrouge_types::SystemClock;
use tokio::net::TcpListener;

use crate::config::{Config, HotUrl, StoreUrl};
use crate::exit::Usage;
use crate::indexes::indexes;
use crate::open::{OpenStore, open_to_serve};
use crate::projections::install_with;
use crate::similar::of_projections;

/// The callers of a service.
pub(crate) enum Callers {
    /// Those that these settings admit.
    Authenticated(Box<AccessSettings>),
    /// This process itself: its requests need no credentials, and have no rates.
    Trusted,
}

/// The settings of a service that are read before the store is opened.
pub(crate) struct ServiceSettings {
    callers: Callers,
    webhooks: Webhooks,
    prices: Prices,
    embedder: Option<Arc<dyn Embedder>>,
    mcp: McpSettings,
}

impl ServiceSettings {
    /// Reads the settings of a server.
    ///
    /// # Errors
    /// When a server refuses to start with these settings.
    pub(crate) fn read(config: &Config, mcp: McpSettings) -> anyhow::Result<Self> {
        let (access, webhooks) = config.server_settings()?;
        Ok(Self {
            callers: Callers::Authenticated(Box::new(access)),
            webhooks,
            prices: prices(config)?,
            embedder: config.search.embedder()?,
            mcp,
        })
    }

    /// The same settings, for requests of this process.
    pub(crate) fn for_trusted_callers(self) -> Self {
        Self {
            callers: Callers::Trusted,
            ..self
        }
    }

    /// Whether an issuer's tokens are accepted.
    pub(crate) const fn has_issuer(&self) -> bool {
        match &self.callers {
            Callers::Authenticated(access) => access.jwt.is_some(),
            Callers::Trusted => false,
        }
    }
}

/// An open store, and everything that serves it. Nothing runs yet beside the anchor's keeper.
pub(crate) struct Service {
    app: App,
    webhooks: Webhooks,
}

impl Service {
    /// Opens the store, and creates a missing one.
    ///
    /// # Errors
    /// Those of opening the store, and wrong settings. The store is closed then.
    pub(crate) async fn open(config: &Config, settings: ServiceSettings) -> anyhow::Result<Self> {
        let opened = open_to_serve(config).await?;
        let ledger = opened.ledger.clone();
        let service = Self::over(config, opened, settings).await;
        if service.is_err() {
            ledger.close().await;
        }
        service
    }

    async fn over(
        config: &Config,
        opened: OpenStore,
        settings: ServiceSettings,
    ) -> anyhow::Result<Self> {
        let OpenStore {
            engine,
            ledger,
            keeper,
            unanswered,
            ..
        } = opened;
        let mut limits = LimitSettings {
            unread_folder: Some(config.spool.directory.clone()),
            ..config.limits.clone()
        };
        let authority = match settings.callers {
            Callers::Authenticated(mut access) => {
                access.had_keys = unanswered.map(|seen| seen.has_keys);
                access.kept = kept_keys(config, ledger.as_ref());
                Authority::start(engine.clone(), Arc::new(SystemClock), *access)
                    .await
                    .map_err(|e| Usage::new(format!("[jwt]: {e}")))?
            }
            Callers::Trusted => {
                limits = LimitSettings {
                    rate_per_key: None,
                    rate_per_identity: None,
                    rate_per_session: None,
                    ..limits
                };
                Authority::trusting(&engine, Arc::new(SystemClock), config.tenant.clone())
            }
        };
        let projections = install_with(config, &engine, settings.embedder.as_ref())?;
        let mut search = search_settings(config, &engine, &settings.mcp, settings.embedder);
        search.similar_turns = of_projections(&projections);
        warn_of_store(config, &engine, ledger.as_ref()).await;
        let app = App::new(engine, authority, keeper, limits, settings.mcp, search)
            .with_projections(projections)
            .with_prices(settings.prices);
        Ok(Self {
            app,
            webhooks: settings.webhooks,
        })
    }

    /// The authentication of callers.
    pub(crate) fn authority(&self) -> &Authority {
        self.app.authority()
    }

    /// Serves requests until `stop` completes. Then finishes work in progress, and closes the store.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        filrouge_server::serve(listener, self.app, self.webhooks, stop).await
    }

    /// Starts everything that runs beside requests.
    ///
    /// # Errors
    /// If the system cannot create a thread. The store is closed then.
    pub(crate) async fn start(self) -> std::io::Result<RunningServer> {
        let engine = self.app.engine().clone();
        let server = RunningServer::start(self.app, self.webhooks);
        if server.is_err() {
            engine.upkeep.close().await;
        }
        server
    }
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

/// The prices of models: those of the file that the settings name, if they name one.
fn prices(config: &Config) -> anyhow::Result<Prices> {
    let Some(path) = &config.prices else {
        return Ok(Prices::none());
    };
    let refused = |why: String| Usage::new(format!("pages.prices: {path}: {why}"));
    let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
    Ok(Prices::parse(&text).map_err(|e| refused(e.to_string()))?)
}

/// Logs what an operator must know about the open store.
async fn warn_of_store(config: &Config, engine: &Engine, ledger: &dyn Ledger) {
    if let Some(integrity) = ledger.health().integrity {
        tracing::error!(%integrity, "the store differs from what was written; requests for the affected data are refused");
    }
    if ledger.backend().durability == Durability::Buffered {
        tracing::warn!(
            "PostgreSQL runs with fsync=off: what is written does not survive a power cut"
        );
    }
    warn_if_hot_memory_is_not_shared(config);
    warn_if_hot_is_unavailable(config, engine).await;
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
