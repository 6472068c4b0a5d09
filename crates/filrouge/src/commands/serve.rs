//! `filrouge serve`

use std::io::Write;
use std::net::SocketAddr;

use filrouge_http::{ListenError, bind};
use filrouge_server::McpSettings;
use filrouge_sources::Library;

use crate::config::sources::open as open_sources;
use crate::config::{Config, SourceName};
use crate::exit::Usage;
use crate::open::{remembers_keys, store_exists};
use crate::output::print;
use crate::service::{Service, ServiceSettings};
use crate::stop::StopSignals;

pub(super) async fn run(config: &Config, sources: &[SourceName]) -> anyhow::Result<()> {
    serve_histories(config, mcp_settings(config, sources)?, |_| {}).await
}

/// Serves the store and other programs' histories until a signal. Prints the address, and passes it to `ready`.
pub(super) async fn serve_histories(
    config: &Config,
    mcp_settings: McpSettings,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let address = config.listen;
    let settings = ServiceSettings::read(config, mcp_settings)?;
    // Without a token issuer and API keys, a server must listen only on loopback. A missing store has no API keys, so
    // the address is refused here, before the store is created.
    if !settings.has_issuer()
        && !address.ip().is_loopback()
        && !remembers_keys(config)?
        && !store_exists(config)?
    {
        return Err(listen_error(ListenError::NotLoopback(address)));
    }
    let service = Service::open(config, settings).await?;
    let listener = bind(address, service.authority())
        .await
        .map_err(listen_error)?;
    let address = listener.local_addr()?;
    let mut signals = StopSignals::install()?;
    let stop = async move {
        signals.requested().await;
        tracing::info!("stopping");
    };
    tracing::info!(store = %config.store, hot = %config.hot.url, %address, "ready");
    if let Err(error) = print(|out| writeln!(out, "listening on http://{address}")) {
        tracing::warn!(%error, "stdout is closed");
    }
    ready(address);
    raise_descriptor_limit(config.limits.connections);
    std::panic::set_hook(Box::new(report_panic));
    service.serve(listener, stop).await?;
    #[cfg(feature = "otel")]
    crate::telemetry::finish().await;
    Ok(())
}

/// The settings of `/mcp`, which serves the ledger as each caller may see it, and the histories that `--source` names.
/// Histories that only the setting `sources` names are personal. They are not served, because a forgotten setting must
/// not expose them to every caller.
fn mcp_settings(config: &Config, sources: &[SourceName]) -> anyhow::Result<McpSettings> {
    let hosts = config.mcp_hosts.clone();
    if sources.is_empty() {
        let library = Library::new(Vec::new(), 0);
        return Ok(McpSettings { library, hosts });
    }
    if sources.iter().any(SourceName::is_ledger) {
        return Err(Usage::new("serve --source ledger: the ledger is served anyway").into());
    }
    let library = open_sources(config, sources)?;
    tracing::warn!("everybody who may call this server can read the histories named by --source");
    Ok(McpSettings { library, hosts })
}

fn listen_error(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::NotLoopback(_) => Usage::new(error.to_string())
            .with_hint("listen on 127.0.0.1 or [::1], or create a key first: filrouge keys create --role service")
            .into(),
        ListenError::Io { .. } => anyhow::Error::new(error),
    }
}

/// Logs the location of a panic, but not its message, which may quote a user's text.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    tracing::error!(place, "the program panicked; this is a bug");
}

/// Raises the limit of open descriptors to the number that the allowed connections need. Warns if the system's hard
/// limit is lower.
fn raise_descriptor_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// The number of descriptors for everything else, such as the store and the log.
    const OTHER_DESCRIPTORS: u64 = 256;
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let new_limit = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let new_limits = Rlimit {
        current: Some(new_limit),
        maximum: limit.maximum,
    };
    if new_limit < needed || setrlimit(Resource::Nofile, new_limits).is_err() {
        let got = getrlimit(Resource::Nofile).current;
        tracing::warn!(
            needed,
            got,
            "the system allows fewer open descriptors than limits.connections needs"
        );
    }
}
