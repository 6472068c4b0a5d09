//! `filrouge serve`

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use filrouge_server::{App, bind, serve};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, Opened, open};
use crate::output::stdout;

pub(super) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let address = config.listen.value;
    let listener = bind(address).await.map_err(|e| match e {
        filrouge_server::ListenError::NotLoopback(_) => Usage::new(e.to_string())
            .with_hint("listen on 127.0.0.1 or [::1]")
            .into(),
        filrouge_server::ListenError::Io { .. } => anyhow::Error::new(e),
    })?;
    let address = listener.local_addr()?;
    let Opened {
        engine,
        ledger,
        keeper,
        ..
    } = open(config, Need::Any).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    };
    if let Some(integrity) = ledger.health().integrity {
        tracing::error!(%integrity, "the store is not what was written; what is concerned is refused");
    }
    tracing::info!(store = %config.store.value, %address, "ready");
    if let Err(error) = announce(address) {
        tracing::warn!(%error, "nobody reads stdout");
    }
    let app = App::new(engine, config.tenant.value.clone(), keeper);
    serve(listener, app, stop).await?;
    Ok(ExitCode::SUCCESS)
}

fn announce(address: SocketAddr) -> std::io::Result<()> {
    let mut out = stdout();
    writeln!(out, "listening on http://{address}")?;
    out.flush()
}
