//! Serves requests, and stops in order: requests, deliveries and recordings in progress may finish.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use filrouge_http::{HttpLayer, mount};
use filrouge_projections::Projector;
use filrouge_search::feed::Indexer;
use filrouge_store::OsEntropy;
use filrouge_types::SystemClock;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::app::App;
use crate::routes;
use crate::status::ServerStatus;
use crate::webhooks::Webhooks;

/// How often the sweep checks for turns with abandoned streams.
const SWEEP_STREAMS_EVERY: Duration = Duration::from_secs(5);
/// In one of this many checks, the sweep searches for all abandoned turns, not only for those with streams.
const SWEEP_EVERY: u32 = 6;
/// How long recordings may take to end after the last connection was closed. This is longer than a write waits for a
/// store that does not answer.
const RECORDINGS_TIMEOUT: Duration = Duration::from_secs(15);

/// The mounted routes, and the tasks that run beside them: the sweep, webhooks, projections and search indexes.
pub struct RunningServer {
    app: App,
    router: Router,
    sweeper: JoinHandle<()>,
    deliveries: JoinSet<()>,
    projectors: JoinSet<()>,
    search_feed: Option<JoinHandle<()>>,
    indexer: Option<Indexer>,
}

impl RunningServer {
    /// Mounts all wires, and starts the tasks. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start(app: App, webhooks: Webhooks) -> std::io::Result<Self> {
        let indexes = app.search.indexes.clone();
        let indexer = indexes.map(Indexer::start).transpose()?;
        let status = ServerStatus::new(app.clone(), webhooks.feeds());
        let wires = vec![
            routes::wire(app.clone()),
            filrouge_openai::wire(HttpLayer::clone(&app)),
            filrouge_pages::wire(app.pages(Arc::new(status))),
        ];
        let router = mount(&app, wires, "/openapi.json shows all routes");
        let ledger = app.engine().shared_ledger();
        let search_feed = app.search.feed.clone().map(|feed| {
            let stopping = app.stopping();
            tokio::spawn(async move { feed.run(stopping).await })
        });
        Ok(Self {
            router,
            sweeper: tokio::spawn(sweep(app.clone())),
            deliveries: webhooks.start(&ledger, app.metrics(), &app.stopping()),
            projectors: start_projectors(&app),
            search_feed,
            indexer,
            app,
        })
    }

    /// The routes of all wires, with everything that [`mount`] adds.
    pub const fn router(&self) -> &Router {
        &self.router
    }

    /// Begins to stop: streams end, and no new recording of a stream begins.
    pub fn begin_to_stop(&self) {
        self.app.stop();
    }

    /// Stops in order, and closes the ledger. No request may be in progress any more.
    pub async fn close(mut self) {
        self.app.stop();
        while self.deliveries.join_next().await.is_some() {}
        while self.projectors.join_next().await.is_some() {}
        let recordings_ended = self.app.recordings.wait_until_ended();
        if tokio::time::timeout(RECORDINGS_TIMEOUT, recordings_ended)
            .await
            .is_err()
        {
            tracing::warn!(
                "streams are still being recorded; the sweep will interrupt their turns"
            );
        }
        self.sweeper.abort();
        self.app.upkeep.close().await;
        drop(self.indexer);
        for task in [Some(self.sweeper), self.search_feed].into_iter().flatten() {
            // The sweeper was aborted. A panic was logged when it happened.
            drop(task.await);
        }
    }
}

/// Serves requests, delivers webhooks and feeds projections until `stop` completes; then finishes work in progress, and closes the ledger.
///
/// # Errors
/// If the system cannot create a thread.
pub async fn serve(
    listener: TcpListener,
    app: App,
    webhooks: Webhooks,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let server = RunningServer::start(app.clone(), webhooks)?;
    let http = HttpLayer::clone(&app);
    let stopper = tokio::spawn(async move {
        stop.await;
        app.stop();
    });
    filrouge_http::serve(listener, server.router().clone(), http).await;
    server.close().await;
    stopper.abort();
    Ok(())
}

/// Starts one task per projection, which feeds it until the server stops.
fn start_projectors(app: &App) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for projection in app.projections.iter() {
        let (engine, clock) = (app.engine().clone(), Arc::new(SystemClock));
        match Projector::new(projection.clone(), engine, clock, Arc::new(OsEntropy)) {
            Ok(projector) => {
                tasks.spawn(projector.run(app.stopping()));
            }
            Err(failure) => {
                tracing::error!(projection = %projection.name, %failure, "the projection is not fed");
            }
        }
    }
    tasks
}

async fn sweep(app: App) {
    for counter in (0..SWEEP_EVERY).cycle() {
        let result = match counter {
            0 => app.upkeep.sweep().await,
            _ => app.upkeep.sweep_streams().await,
        };
        match result {
            Ok(0) => {}
            Ok(turns) => tracing::info!(turns, "silent turns were marked as interrupted"),
            Err(error) => tracing::error!(%error, "silent turns cannot be swept"),
        }
        tokio::time::sleep(SWEEP_STREAMS_EVERY).await;
    }
}
