//! One connection from its first to its last request.

use std::convert::Infallible;
use std::pin::pin;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower_service::Service;

use super::Transport;
use super::bodies::{Answered, Asked};
use super::phase::Phase;
use super::socket::Socket;

/// Bytes that a request's head may always have, that are read at once, and that wait to be written. A head is
/// refused when this much has come without its end, so that none is twice as large.
const HEAD_MAX: usize = 32 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 100;

pub(super) async fn serve(stream: TcpStream, transport: &Transport) {
    transport.metrics.connections.inc();
    let phase = Phase::default();
    let socket = Socket::new(
        stream,
        phase.clone(),
        &transport.settings,
        transport.metrics.clone(),
    );
    let service = service_fn(|request: Request<Incoming>| {
        phase.begin();
        let asked = request.map(|body| Body::new(Asked::new(body, phase.clone())));
        let mut router = transport.router.clone();
        let phase = phase.clone();
        async move {
            let response: Response<Body> = router.call(asked).await?;
            Ok::<_, Infallible>(response.map(|body| Answered::new(body, phase)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The socket bounds it itself: there idle time and the time of a head are two things.
        .header_read_timeout(None)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let mut stopping = transport.stopping.clone();
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = super::told(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Whatever a peer does to its connection is its own affair; what was dropped is counted elsewhere.
        tracing::trace!(%error, "a connection broke off");
    }
    transport.metrics.connections.dec();
}
