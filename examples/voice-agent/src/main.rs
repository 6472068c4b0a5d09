//! An example: French appointment booking over the phone, on filrouge. See its README.

mod cache;
mod calendar;
mod calls;
mod completions;
mod config;
mod french;
mod fsm;
mod http;
mod replay;
mod store;
mod vapi;

use std::io::Write;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("LOG").unwrap_or_else(|_| "info".into()),
        )
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve())
}

async fn serve() -> anyhow::Result<()> {
    let config = config::Config::from_environment()?;
    let open_store = store::open(&config).await?;
    let listener = tokio::net::TcpListener::bind(config.listen).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}", listener.local_addr()?)?;
    stdout.flush()?;
    let calls = Arc::new(calls::Calls::new(&open_store, config));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    axum::serve(listener, http::router(calls))
        .with_graceful_shutdown(shutdown)
        .await?;
    open_store.ledger.close().await;
    drop(open_store.keeper);
    Ok(())
}
