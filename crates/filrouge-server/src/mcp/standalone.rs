//! One person's histories over HTTP on this machine: `filrouge mcp --listen`.

use std::future::Future;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::from_fn;
use axum::routing::any;
use filrouge_mcp::{CallerSession, Corpus, Histories, HttpService, McpServer};
use tokio::net::TcpListener;

use filrouge_http::{ListenError, check_host};

/// Serves `corpus` at `/mcp` until `stop` completes. There is no authentication. Only this machine can connect, and a
/// request must name this machine as its host; one that does not name exactly one host gets 400.
///
/// # Errors
/// [`ListenError::NotLoopback`] for a listener that other machines can reach, [`ListenError::Io`] when the listener
/// fails.
pub async fn serve_mcp(
    listener: TcpListener,
    corpus: Corpus,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ListenError> {
    let address = listener.local_addr();
    let listen_error = |address, source| ListenError::Io { address, source };
    let address = address.map_err(|e| listen_error(([127, 0, 0, 1], 0).into(), e))?;
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    let hosts = vec![address.ip().to_string()];
    // The calling agents may work in different folders: all of them see the same histories.
    let server = McpServer::new(
        Histories::Shared(Box::new(corpus)),
        CallerSession::default(),
    );
    let service = HttpService::new(server, hosts);
    let handler = async move |request: Request| service.handle(request).await.map(Body::new);
    let router = Router::new()
        .route("/mcp", any(handler))
        .layer(from_fn(check_host));
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop);
    serving.await.map_err(|e| listen_error(address, e))
}
