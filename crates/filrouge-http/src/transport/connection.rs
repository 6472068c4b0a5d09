//! One connection from its first to its last request.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
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
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// The slowest that an answer may be taken, after a grace of twice the time that a write may stall: what is not
/// taken is held.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// How long all of an answer may take; `None` for a stream, which has no length.
fn out_within(body: &Body, write_stall: Duration) -> Option<Duration> {
    let bytes = body.size_hint().exact()?;
    Some(write_stall.saturating_mul(2) + Duration::from_secs(bytes.div_ceil(BYTES_PER_SECOND)))
}

pub(super) async fn serve(stream: TcpStream, transport: &Transport) {
    let (settings, metrics) = (transport.http.limits().settings(), transport.http.metrics());
    metrics.connections.inc();
    let phase = Phase::default();
    let socket = Socket::new(stream, phase.clone(), settings, metrics.clone());
    let write_stall = settings.write_stall;
    let service = service_fn(|request: Request<Incoming>| {
        phase.begin();
        let awaits_continue = request.headers().contains_key(EXPECT);
        let (head, body) = request.into_parts();
        let (asked, rest) = Asked::new(body, phase.clone());
        let asked = Request::from_parts(head, Body::new(asked));
        let mut router = transport.router.clone();
        let phase = phase.clone();
        async move {
            let mut response: Response<Body> = router.call(asked).await?;
            if !rest.read_away(awaits_continue).await {
                response.headers_mut().insert(CONNECTION, CLOSE);
            }
            if let Some(time) = out_within(response.body(), write_stall) {
                phase.out_within(time);
            }
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
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = transport.http.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Whatever a peer does to its connection is its own affair; what was dropped is counted elsewhere.
        tracing::trace!(%error, "a connection broke off");
    }
    metrics.connections.dec();
}
