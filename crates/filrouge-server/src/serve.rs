//! Binding, serving, and stopping without dropping a request.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use filrouge_engine::Engine;
use filrouge_engine::anchor::AnchorKeeper;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::access::Authority;
use crate::limits::{LimitSettings, Limits};
use crate::mcp::{McpSettings, Mounted};
use crate::metrics::Metrics;
use crate::observe;
use crate::recordings::Recordings;
use crate::routes::router;
use crate::routes::technical_status::Lately;
use crate::search::SearchSettings;
use crate::transport::{self, Transport};
use crate::webhooks::Webhooks;

/// How often callers that were silent are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(10);
/// How often turns are looked for whose streams nobody records any more.
const SWEEP_STREAMS_EVERY: Duration = Duration::from_secs(5);
/// How often silent turns are looked for, too: after so many looks for streams.
const SWEEP_EVERY: u32 = 6;
/// How long recordings may take to write their ends once no connection is left: longer than a store is waited for.
const RECORDINGS_WITHIN: Duration = Duration::from_secs(15);

/// What the routes work with.
#[derive(Clone)]
pub struct App(Arc<Parts>);

struct Parts {
    engine: Arc<Engine>,
    authority: Authority,
    anchor: Option<AnchorKeeper>,
    limits: Limits,
    metrics: Arc<Metrics>,
    recordings: Recordings,
    mcp: Mounted,
    search: SearchSettings,
    statuses: Lately,
    stopping: watch::Sender<bool>,
}

impl App {
    /// The engine, who is let in, the anchor's keeper, the bounds of what
    /// callers may take, what agents are answered from over MCP, and what searches are answered with.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        authority: Authority,
        anchor: Option<AnchorKeeper>,
        limits: LimitSettings,
        mcp: McpSettings,
        search: SearchSettings,
    ) -> Self {
        let metrics = Arc::new(Metrics::default());
        Self(Arc::new(Parts {
            engine,
            authority,
            anchor,
            limits: Limits::new(limits, metrics.clone()),
            recordings: Recordings::new(&metrics),
            mcp: Mounted::new(mcp),
            search,
            metrics,
            statuses: Lately::default(),
            stopping: watch::Sender::new(false),
        }))
    }

    /// The bounds of what callers may take.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// What the server counts.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The provider streams that are being recorded.
    pub(crate) fn recordings(&self) -> &Recordings {
        &self.0.recordings
    }

    /// What agents are answered from.
    pub(crate) fn mcp(&self) -> &Mounted {
        &self.0.mcp
    }

    /// What searches are answered with.
    pub(crate) fn search(&self) -> &SearchSettings {
        &self.0.search
    }

    /// Why the ledger's index is not kept in step.
    pub(crate) fn search_failure(&self) -> Option<String> {
        let failure = self.0.search.feed.as_ref()?.failure()?;
        Some(failure.detail)
    }

    /// What was said lately of how tenants do.
    pub(crate) fn statuses(&self) -> &Lately {
        &self.0.statuses
    }

    /// Turns true when the server stops: streams end then, with a place to go on from. Whoever ignores it is
    /// cut off 10 s later.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        // A sender that is gone means the same.
        let _ = self.stopping().wait_for(|stopping| *stopping).await;
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.0.authority
    }

    pub(crate) fn anchor_failure(&self) -> Option<String> {
        self.0.anchor.as_ref().and_then(AnchorKeeper::failure)
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Without keys only this machine may be answered (DESIGN §8).
    #[error(
        "{0} is not a loopback address, and without API keys filrouge answers this machine only"
    )]
    NotLoopback(SocketAddr),
    /// The system refuses.
    #[error("cannot listen on {address}: {source}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Takes the address; one that is not this machine's alone only when every request needs credentials.
///
/// # Errors
/// [`ListenError`].
pub async fn bind(address: SocketAddr, authority: &Authority) -> Result<TcpListener, ListenError> {
    if !address.ip().is_loopback() && !authority.requires_credentials() {
        return Err(ListenError::NotLoopback(address));
    }
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError::Io { address, source })
}

/// Serves, and sends what `webhooks` ask for, until `stop` is done, then finishes what is under way and closes the ledger.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    app: App,
    webhooks: Webhooks,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let sweeper = tokio::spawn(sweep(app.clone()));
    let forgetter = tokio::spawn(forget(app.clone()));
    let telling = app.clone();
    let teller = tokio::spawn(async move {
        stop.await;
        telling.0.stopping.send_replace(true);
    });
    let transport = Transport {
        router: observed(&app),
        settings: app.limits().settings().clone(),
        metrics: app.metrics().clone(),
        stopping: app.stopping(),
    };
    let ledger = app.engine().shared_ledger();
    let mut deliveries = webhooks.start(&ledger, app.metrics(), &app.stopping());
    transport::run(listener, transport).await;
    app.0.stopping.send_replace(true);
    while deliveries.join_next().await.is_some() {}
    let ended = app.recordings().ended();
    if tokio::time::timeout(RECORDINGS_WITHIN, ended)
        .await
        .is_err()
    {
        tracing::warn!("streams are still being recorded; they are left to who looks after them");
    }
    for task in [sweeper, forgetter, teller] {
        task.abort();
    }
    app.engine().upkeep.close().await;
    Ok(())
}

/// All routes, each request observed and bounded.
fn observed(app: &App) -> Router {
    let layer = from_fn_with_state(app.clone(), observe::request);
    router(app.clone()).layer(layer)
}

async fn forget(app: App) {
    loop {
        tokio::time::sleep(FORGET_EVERY).await;
        app.limits().shrink();
    }
}

async fn sweep(app: App) {
    for round in (0..SWEEP_EVERY).cycle() {
        let engine = app.engine();
        let swept = match round {
            0 => engine.upkeep.sweep().await,
            _ => engine.upkeep.sweep_streams().await,
        };
        match swept {
            Ok(0) => {}
            Ok(turns) => tracing::info!(turns, "silent turns were marked as interrupted"),
            Err(error) => tracing::error!(%error, "silent turns cannot be looked for"),
        }
        tokio::time::sleep(SWEEP_STREAMS_EVERY).await;
    }
}
