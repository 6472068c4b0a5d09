//! Serving, and stopping without dropping a request.

use std::future::Future;
use std::time::Duration;

use filrouge_http::{HttpLayer, mount};
use tokio::net::TcpListener;

use crate::app::App;
use crate::routes;
use crate::webhooks::Webhooks;

/// How often turns are looked for whose streams nobody records any more.
const SWEEP_STREAMS_EVERY: Duration = Duration::from_secs(5);
/// How often silent turns are looked for, too: after so many looks for streams.
const SWEEP_EVERY: u32 = 6;
/// How long recordings may take to write their ends once no connection is left: longer than a store is waited for.
const RECORDINGS_WITHIN: Duration = Duration::from_secs(15);

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
    let telling = app.clone();
    let teller = tokio::spawn(async move {
        stop.await;
        telling.stop();
    });
    let wires = vec![
        routes::wire(app.clone()),
        filrouge_openai::wire(HttpLayer::clone(&app)),
    ];
    let router = mount(&app, wires, "/openapi.json shows all routes");
    let ledger = app.engine().shared_ledger();
    let mut deliveries = webhooks.start(&ledger, app.metrics(), &app.stopping());
    filrouge_http::serve(listener, router, HttpLayer::clone(&app)).await;
    app.stop();
    while deliveries.join_next().await.is_some() {}
    let ended = app.recordings.ended();
    if tokio::time::timeout(RECORDINGS_WITHIN, ended)
        .await
        .is_err()
    {
        tracing::warn!("streams are still being recorded; they are left to who looks after them");
    }
    for task in [sweeper, teller] {
        task.abort();
    }
    app.upkeep.close().await;
    Ok(())
}

async fn sweep(app: App) {
    for round in (0..SWEEP_EVERY).cycle() {
        let swept = match round {
            0 => app.upkeep.sweep().await,
            _ => app.upkeep.sweep_streams().await,
        };
        match swept {
            Ok(0) => {}
            Ok(turns) => tracing::info!(turns, "silent turns were marked as interrupted"),
            Err(error) => tracing::error!(%error, "silent turns cannot be looked for"),
        }
        tokio::time::sleep(SWEEP_STREAMS_EVERY).await;
    }
}
