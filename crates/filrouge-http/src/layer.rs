//! The state that the HTTP layer shares with the routes of every wire.

use std::ops::Deref;
use std::sync::Arc;

use filrouge_engine::Engine;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::access::Authority;
use crate::limits::{LimitSettings, Limits};
use crate::metrics::Metrics;

/// The state of the HTTP layer. Clones are handles to the same state. It dereferences to the engine.
#[derive(Clone)]
pub struct HttpLayer(Arc<Shared>);

struct Shared {
    engine: Arc<Engine>,
    authority: Authority,
    limits: Limits,
    metrics: Arc<Metrics>,
    stopping: watch::Sender<bool>,
}

impl Deref for HttpLayer {
    type Target = Engine;

    /// The engine, which provides the services.
    fn deref(&self) -> &Engine {
        &self.0.engine
    }
}

impl HttpLayer {
    /// Builds the layer from the engine, the authentication, and the limits for callers.
    pub fn new(engine: Arc<Engine>, authority: Authority, limits: LimitSettings) -> Self {
        let metrics = Arc::new(Metrics::default());
        Self(Arc::new(Shared {
            engine,
            authority,
            limits: Limits::new(limits, metrics.clone()),
            metrics,
            stopping: watch::Sender::new(false),
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// The authentication.
    pub fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The limits for callers.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Returns a flag that becomes true when the server begins to stop. Streams must end then; their clients can resume
    /// at their position on another server. A request that is still in progress 10 s later is cut off.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// Waits until the server begins to stop.
    pub async fn wait_until_stopping(&self) {
        // The wait fails if the sender was dropped; the server stops in that case, too.
        let _ = self.stopping().wait_for(|stopping| *stopping).await;
    }

    /// Begins to stop the server: it accepts no new connections, and each open one ends after the request in progress.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// All metrics as OpenMetrics text: the layer's, and after them those of `other`.
    ///
    /// # Errors
    /// If a metric cannot be encoded.
    pub fn scrape(&self, other: &Registry) -> Result<String, std::fmt::Error> {
        let body_bytes = self.limits().bodies.used();
        self.metrics()
            .encode(body_bytes, self.authority().refused(), other)
    }
}
