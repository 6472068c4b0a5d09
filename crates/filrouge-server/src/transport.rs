//! Connections: accepting a bounded number, giving up slow ones, stopping without dropping a request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::limits::LimitSettings;
use crate::metrics::Metrics;

mod bodies;
mod connection;
mod own_answer;
mod phase;
mod socket;

/// How long requests under way may take once the server is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing is accepted after the system refused, such as for want of descriptors.
const REST: Duration = Duration::from_millis(100);

/// What connections work with.
pub(crate) struct Transport {
    pub(crate) router: Router,
    pub(crate) settings: LimitSettings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: watch::Receiver<bool>,
}

/// Serves until told to stop, and then until what is under way is answered, or 10 s have passed.
pub(crate) async fn run(listener: TcpListener, transport: Transport) {
    let total = transport.settings.connections.clamp(1, 1 << 24);
    let places = Arc::new(Semaphore::new(total));
    let transport = Arc::new(transport);
    let mut stopping = transport.stopping.clone();
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => admit(stream, &transport, &places),
                Err(error) => rest(&error, &transport.metrics).await,
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = told(&mut stopping) => {}
    }
    drop(listener);
    let all = u32::try_from(total).unwrap_or(u32::MAX);
    let late = tokio::time::timeout(STOP_WITHIN, places.acquire_many(all)).await;
    if late.is_err() {
        tracing::warn!("requests are still under way; they are cut off");
    }
}

/// Done when the server is told to stop, or there is nobody left who could tell.
async fn told(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

fn admit(stream: TcpStream, transport: &Arc<Transport>, places: &Arc<Semaphore>) {
    let Ok(place) = places.clone().try_acquire_owned() else {
        transport.metrics.connection_refused("full");
        own_answer::refuse(&stream);
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let transport = transport.clone();
    tokio::spawn(async move {
        connection::serve(stream, &transport).await;
        drop(place);
    });
}

/// A peer that was gone before it was accepted is its own affair; anything else does not get better at once.
async fn rest(error: &io::Error, metrics: &Metrics) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    ) {
        return;
    }
    metrics.connection_refused("system");
    tracing::warn!(%error, "no connection can be accepted");
    tokio::time::sleep(REST).await;
}
