//! `filrouge mcp`

use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use filrouge_http::ListenError;
use filrouge_mcp::{Corpus, Histories, McpServer, Own, serve_stdio};
use filrouge_search::feed::Indexer;
use filrouge_server::serve_mcp;
use filrouge_types::SystemClock;
use tokio::net::TcpListener;

use super::index_open::indexes;
use crate::config::sources::open_with_ledger;
use crate::config::{Config, SourceName};
use crate::exit::Usage;
use crate::open::Index;
use crate::output::print;
use crate::stop::Stop;

/// The environment variable with the id of the session in which the calling agent works, if the agent's program sets
/// it.
const OWN_SESSION: &str = "FILROUGE_SESSION_ID";

pub(super) async fn run(
    config: &Config,
    sources: &[SourceName],
    listen: Option<SocketAddr>,
) -> anyhow::Result<()> {
    if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
        return Err(not_started(ListenError::NotLoopback(address)));
    }
    let opened = open_with_ledger(config, sources, Index::IfExists).await?;
    for note in &opened.found.notes {
        tracing::warn!("{note}");
    }
    let indexes = indexes(&config.search.index, &opened.found.sources, true);
    let indexer = indexes.clone().map(Indexer::start).transpose()?;
    let corpus = Corpus {
        searcher: opened
            .searcher(config, indexes.as_ref())
            .with_embedder(config.search.embedder()?),
        library: opened.library.clone(),
    };
    let served = match listen {
        None => {
            let server = McpServer::new(Histories::All(Box::new(corpus)), own());
            serve_stdio(server).await.map_err(anyhow::Error::from)
        }
        Some(address) => over_http(address, corpus).await,
    };
    // Dropping the indexer stops it. It leaves no partial write.
    drop(indexer);
    // Closed even when serving failed, so that an open ledger is closed properly.
    opened.close().await;
    served
}

/// The session of the agent that started this process, and the agent's working folder.
fn own() -> Own {
    let folder = env::current_dir().and_then(|folder| folder.canonicalize());
    Own {
        session_id: env::var(OWN_SESSION).ok().filter(|id| !id.is_empty()),
        folder: folder.ok(),
        clock: Some(Arc::new(SystemClock)),
    }
}

async fn over_http(address: SocketAddr, corpus: Corpus) -> anyhow::Result<()> {
    let bound = TcpListener::bind(address).await;
    let listener = bound.map_err(|source| not_started(ListenError::Io { address, source }))?;
    let mut stop = Stop::install()?;
    let address = listener.local_addr()?;
    if let Err(error) = print(|out| writeln!(out, "listening on http://{address}/mcp")) {
        tracing::warn!(%error, "stdout is closed");
    }
    let served = serve_mcp(listener, corpus, async move { stop.requested().await }).await;
    served.map_err(not_started)
}

fn not_started(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::NotLoopback(address) => Usage::new(format!(
            "{address} is not a loopback address, and `filrouge mcp` authenticates no one"
        ))
        .with_hint("listen on 127.0.0.1 or [::1]; for other machines use `filrouge serve` with keys, whose /mcp requires one")
        .into(),
        ListenError::Io { .. } => anyhow::Error::new(error),
    }
}
