//! Serves requests, and stops in order: requests, deliveries and recordings in progress may finish.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use filrouge_http::{HttpLayer, mount};
use filrouge_projections::Projector;
use filrouge_store::OsEntropy;
use filrouge_types::SystemClock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

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

/// Serves requests, delivers webhooks and feeds projections until `stop` completes; then finishes work in progress, and closes the ledger.
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
    let stopping_app = app.clone();
    let stopper = tokio::spawn(async move {
        stop.await;
        stopping_app.stop();
    });
    let status = ServerStatus::new(app.clone(), webhooks.feeds());
    let wires = vec![
        routes::wire(app.clone()),
        filrouge_openai::wire(HttpLayer::clone(&app)),
        filrouge_pages::wire(app.pages(Arc::new(status))),
    ];
    let router = mount(&app, wires, "/openapi.json shows all routes");
    let ledger = app.engine().shared_ledger();
    let mut deliveries = webhooks.start(&ledger, app.metrics(), &app.stopping());
    let mut projectors = start_projectors(&app);
    filrouge_http::serve(listener, router, HttpLayer::clone(&app)).await;
    app.stop();
    while deliveries.join_next().await.is_some() {}
    while projectors.join_next().await.is_some() {}
    let recordings_ended = app.recordings.wait_until_ended();
    if tokio::time::timeout(RECORDINGS_TIMEOUT, recordings_ended)
        .await
        .is_err()
    {
        tracing::warn!("streams are still being recorded; the sweep will interrupt their turns");
    }
    for task in [sweeper, stopper] {
        task.abort();
    }
    app.upkeep.close().await;
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
