//! `filrouge mcp`

use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use filrouge_http::ListenError;
use filrouge_mcp::{CallerSession, Corpus, Histories, McpServer, serve_stdio};
use filrouge_search::feed::Indexer;
use filrouge_server::serve_mcp;
use filrouge_types::SystemClock;
use tokio::net::TcpListener;

use crate::config::sources::open_with_ledger;
use crate::config::{Config, SourceName};
use crate::exit::Usage;
use crate::indexes::indexes;
use crate::open::Index;
use crate::output::print;
use crate::pdf::print_pdf;
use crate::similar;
use crate::stop::StopSignals;

/// The environment variable with the id of the session in which the calling agent works, if the agent's program sets
/// it.
const SESSION_ID_VARIABLE: &str = "FILROUGE_SESSION_ID";

pub(super) async fn run(
    config: &Config,
    sources: &[SourceName],
    listen: Option<SocketAddr>,
) -> anyhow::Result<()> {
    if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
        return Err(listen_error(ListenError::NotLoopback(address)));
    }
    let opened = open_with_ledger(config, sources, Index::IfExists).await?;
    for warning in &opened.found.warnings {
        tracing::warn!("{warning}");
    }
    let indexes = indexes(config, &opened.found.sources, true);
    let indexer = indexes.clone().map(Indexer::start).transpose()?;
    let embedder = config.search.embedder()?;
    let similar = similar::configured(config, embedder.as_ref());
    let corpus = Corpus {
        searcher: opened
            .searcher(config, indexes.as_ref())
            .with_embedder(embedder)
            .with_similar_turns(similar),
        library: opened.library.clone(),
        print_pdf: Some(Arc::new(|html: &str| {
            print_pdf(html).map_err(|error| format!("{error:#}"))
        })),
    };
    let result = match listen {
        None => {
            let server = McpServer::new(Histories::Shared(Box::new(corpus)), calling_agent());
            serve_stdio(server).await.map_err(anyhow::Error::from)
        }
        Some(address) => serve_http(address, corpus).await,
    };
    // Dropping the indexer stops it. It leaves no partial write.
    drop(indexer);
    // The histories are closed even when serving failed, because the ledger may be open.
    opened.close().await;
    result
}

/// The session of the agent that started this process, and the agent's working folder.
fn calling_agent() -> CallerSession {
    let folder = env::current_dir().and_then(|folder| folder.canonicalize());
    CallerSession {
        session_id: env::var(SESSION_ID_VARIABLE)
            .ok()
            .filter(|id| !id.is_empty()),
        folder: folder.ok(),
        clock: Some(Arc::new(SystemClock)),
    }
}

async fn serve_http(address: SocketAddr, corpus: Corpus) -> anyhow::Result<()> {
    let bound = TcpListener::bind(address).await;
    let listener = bound.map_err(|source| listen_error(ListenError::Io { address, source }))?;
    let mut stop = StopSignals::install()?;
    let address = listener.local_addr()?;
    if let Err(error) = print(|out| writeln!(out, "listening on http://{address}/mcp")) {
        tracing::warn!(%error, "stdout is closed");
    }
    let result = serve_mcp(listener, corpus, async move { stop.requested().await }).await;
    result.map_err(listen_error)
}

fn listen_error(error: ListenError) -> anyhow::Error {
    match error {
        ListenError::NotLoopback(address) => Usage::new(format!(
            "{address} is not a loopback address, and `filrouge mcp` authenticates no one"
        ))
        .with_hint("listen on 127.0.0.1 or [::1]; for other machines use `filrouge serve` with keys, whose /mcp requires one")
        .into(),
        ListenError::Io { .. } => anyhow::Error::new(error),
    }
}
