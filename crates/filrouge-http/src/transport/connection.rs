//! Serves one connection, from its first to its last request.

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
use super::bodies::{RequestBody, ResponseBody};
use super::phase::Phase;
use super::socket::Socket;
use crate::metrics::Counted;

/// The size in bytes of the read and the write buffer. The head of a request is refused if this much has arrived
/// without its end. A head up to this size is always accepted, and none of twice the size ever is.
const HEAD_MAX: usize = 32 << 10;
/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// The minimum rate at which a peer must read a response, because unread bytes stay in memory. In addition it has twice
/// the time `write_stall`.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Returns the time within which the peer must read the entire response; `None` for a stream, whose length is not
/// known.
fn response_time_limit(body: &Body, write_stall: Duration) -> Option<Duration> {
    let bytes = body.size_hint().exact()?;
    Some(write_stall.saturating_mul(2) + Duration::from_secs(bytes.div_ceil(BYTES_PER_SECOND)))
}

pub(super) async fn serve(stream: TcpStream, transport: &Transport) {
    let (settings, metrics) = (transport.http.limits().settings(), transport.http.metrics());
    let counted = Counted::new(&metrics.connections);
    let phase = Phase::default();
    let socket = Socket::new(stream, phase.clone(), settings, metrics.clone());
    let write_stall = settings.write_stall;
    let service = service_fn(|request: Request<Incoming>| {
        phase.begin();
        let awaits_continue = request.headers().contains_key(EXPECT);
        let (head, body) = request.into_parts();
        let (request_body, unread_part) = RequestBody::new(body, phase.clone());
        let request = Request::from_parts(head, Body::new(request_body));
        let mut router = transport.router.clone();
        let phase = phase.clone();
        async move {
            let mut response: Response<Body> = router.call(request).await?;
            if !unread_part.discard(awaits_continue).await {
                response.headers_mut().insert(CONNECTION, CLOSE);
            }
            if let Some(time) = response_time_limit(response.body(), write_stall) {
                phase.set_response_limit(time);
            }
            Ok::<_, Infallible>(response.map(|body| ResponseBody::new(body, phase)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // `Socket` limits this time instead, because it distinguishes the time that a head takes from idle time before
        // it.
        .header_read_timeout(None)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = transport.http.wait_until_stopping() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // A peer may end its connection at any time. `Socket` counts the connections that the server drops.
        tracing::trace!(%error, "a connection broke off");
    }
    drop(counted);
}
