//! A TCP proxy that delays everything that passes it, as a network between a server of filrouge and PostgreSQL does.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use filrouge_testbed::Address;

/// A proxy on loopback. After its drop it accepts no connections; open ones end with their clients.
pub(super) struct DelayProxy {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl DelayProxy {
    /// Starts a proxy in front of `server`, which delays the data of each direction by `delay`.
    pub(super) fn before(server: SocketAddr, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let acceptor = thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                // Without a connection to the server, this closes the client's, which notices it.
                drop(connect(client, server, delay));
            }
        });
        Ok(Self {
            address,
            has_ended,
            acceptor: Some(acceptor),
        })
    }

    /// The URL of `database` through the proxy.
    pub(super) fn url(&self, database: &str) -> String {
        Address::from(self.address).url(database)
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, so that it notices the end.
        drop(TcpStream::connect(self.address));
        drop(self.acceptor.take().map(JoinHandle::join));
    }
}

/// Connects `client` to `server`; threads forward the data of both directions.
fn connect(client: TcpStream, server: SocketAddr, delay: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    forward(client.try_clone()?, server.try_clone()?, delay);
    forward(server, client, delay);
    Ok(())
}

/// Starts two threads, so that data that waits does not delay the data that follows it.
fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        while let Ok((due, piece)) = receiver.recv() {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        // The other side may have closed the connection already.
        drop(to.shutdown(Shutdown::Write));
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let piece = match from.read(&mut buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => return,
                Ok(length) => buffer[..length].to_vec(),
            };
            if sender.send((Instant::now() + delay, piece)).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_delays_each_direction_and_forwards_everything() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let delay = Duration::from_millis(20);
        let proxy = DelayProxy::before(address, delay).unwrap();
        let mut client = TcpStream::connect(proxy.address).unwrap();
        let sent: Vec<u8> = (0..300_000).map(|n| (n % 251) as u8).collect();
        let start = Instant::now();
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert!(start.elapsed() >= 2 * delay);
        assert!(received == sent);
        echo.join().unwrap();
    }
}
