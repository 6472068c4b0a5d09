//! The state of the HTTP layer.

use std::ops::Deref;
use std::sync::Arc;

use filrouge_engine::Engine;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::access::Authority;
use crate::limits::{LimitSettings, Limits};
use crate::metrics::Metrics;

/// The shared state of the layer and the routes of every wire. Clones are handles to the same state.
#[derive(Clone)]
pub struct HttpLayer(Arc<Parts>);

struct Parts {
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
    #[must_use]
    pub fn new(engine: Arc<Engine>, authority: Authority, limits: LimitSettings) -> Self {
        let metrics = Arc::new(Metrics::default());
        Self(Arc::new(Parts {
            engine,
            authority,
            limits: Limits::new(limits, metrics.clone()),
            metrics,
            stopping: watch::Sender::new(false),
        }))
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// The authentication.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The limits for callers.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Becomes true when the server stops: streams then end, so that their clients can resume from their position. A
    /// task that ignores it is cut off 10 s later.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// Waits until the server stops.
    pub async fn stopped(&self) {
        // A dropped sender also means that the server stops.
        let _ = self.stopping().wait_for(|stopping| *stopping).await;
    }

    /// Stops the server: it accepts no new connection, and open ones end after their request.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// All metrics as OpenMetrics text, those of `more` after the layer's.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub fn scrape(&self, more: &Registry) -> Result<String, std::fmt::Error> {
        let held = self.limits().body_bytes_in_flight();
        self.metrics()
            .encode(held, self.authority().refused(), more)
    }
}
