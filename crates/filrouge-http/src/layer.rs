//! The state of the HTTP layer.

use std::ops::Deref;
use std::sync::Arc;

use filrouge_engine::Engine;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::access::Authority;
use crate::limits::{LimitSettings, Limits};
use crate::metrics::Metrics;

/// What the layer and the routes of every wire work with. A handle; all clones are one.
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

    /// The services.
    fn deref(&self) -> &Engine {
        &self.0.engine
    }
}

impl HttpLayer {
    /// Over the engine, who is let in, and the bounds of what callers may take.
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

    /// Who is let in.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The bounds of what callers may take.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Turns true when the server stops: streams end then, with a place to go on from. Whoever ignores it is
    /// cut off 10 s later.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// Waits until the server stops.
    pub async fn stopped(&self) {
        // A sender that is gone means the same.
        let _ = self.stopping().wait_for(|stopping| *stopping).await;
    }

    /// Stops the server: no new connection is accepted, and those that are open end after their request.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// All metrics as OpenMetrics text, `more` after those of the layer.
    ///
    /// # Errors
    /// When a metric cannot be written.
    pub fn scrape(&self, more: &Registry) -> Result<String, std::fmt::Error> {
        let held = self.limits().body_bytes_in_flight();
        self.metrics()
            .encode(held, self.authority().refused(), more)
    }
}
