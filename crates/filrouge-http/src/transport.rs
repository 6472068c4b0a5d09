//! Accepts a limited number of connections, drops slow ones, and lets requests in progress finish when the server
//! stops.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use filrouge_store::{FairSlots, SlotBounds, WorkSize};
use tokio::net::{TcpListener, TcpStream};

use crate::access::Authority;
use crate::layer::HttpLayer;
use crate::metrics::Metrics;

mod bodies;
mod connection;
mod own_response;
mod phase;
mod socket;

/// How long requests in progress may take once the server begins to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long no connections are accepted after the operating system failed to accept one, for example for lack of
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The interval at which the rate limits forget idle callers.
const FORGET_EVERY: Duration = Duration::from_secs(10);

/// The shared state of connections.
struct Transport {
    router: Router,
    http: HttpLayer,
}

/// Why the server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Other machines can reach the address, but while the server needs no credentials, only this machine may call
    /// (DESIGN §8).
    #[error(
        "{0} is not a loopback address, and without API keys filrouge answers this machine only"
    )]
    NotLoopback(SocketAddr),
    /// The operating system refused the address.
    #[error("cannot listen on {address}: {source}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// Listens on the address. An address that other machines can reach is refused unless every request needs credentials.
///
/// # Errors
/// [`ListenError`].
pub async fn bind(address: SocketAddr, authority: &Authority) -> Result<TcpListener, ListenError> {
    if !address.ip().is_loopback() && !authority.requires_credentials() {
        return Err(ListenError::NotLoopback(address));
    }
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError::Io { address, source })
}

/// Serves the router of [`crate::mount`] until [`HttpLayer::stop`] is called. Then waits until the requests in progress
/// are answered, but at most 10 s.
pub async fn serve(listener: TcpListener, router: Router, http: HttpLayer) {
    let total = http.limits().settings().connections;
    let slots = FairSlots::new(SlotBounds {
        total,
        share: total - total / 16,
        reserve: 0,
    });
    let transport = Arc::new(Transport { router, http });
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => start_connection(stream, peer.ip(), &transport, &slots),
                Err(error) => pause_after_error(&error, transport.http.metrics()).await,
            }
        }
    };
    let forgetting = async {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            transport.http.limits().rates.forget_idle();
        }
    };
    tokio::select! {
        () = accepting => {}
        () = forgetting => {}
        () = transport.http.wait_until_stopping() => {}
    }
    drop(listener);
    let finished = tokio::time::timeout(STOP_TIMEOUT, slots.wait_until_all_released());
    if finished.await.is_err() {
        tracing::warn!("requests are still under way; they are cut off");
    }
}

/// The part of an address that one peer can hardly vary: for IPv6 the first 64 bits, the prefix of a network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        address => address,
    }
}

fn start_connection(
    stream: TcpStream,
    peer: IpAddr,
    transport: &Arc<Transport>,
    slots: &FairSlots,
) {
    let Some(slot) = slots.try_acquire(&(network(peer), ()), WorkSize::Small) else {
        transport.http.metrics().count_refused_connection("full");
        own_response::refuse_connection(&stream);
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let transport = transport.clone();
    tokio::spawn(async move {
        connection::serve(stream, &transport).await;
        drop(slot);
    });
}

/// Handles an error of accepting a connection. Ignores that a peer disconnected too early. Pauses after any other
/// error, because it is likely to recur at once.
async fn pause_after_error(error: &io::Error, metrics: &Metrics) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    ) {
        return;
    }
    metrics.count_refused_connection("system");
    tracing::warn!(%error, "no connection can be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2::7"), network("2001:db8:1:2:3:4:5:6"));
        assert_ne!(network("2001:db8:1:2::7"), network("2001:db8:1:3::7"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}
