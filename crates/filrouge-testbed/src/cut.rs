//! A TCP proxy that simulates network failures.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The data that is lost when [`Cut::cut_after`] closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The request: the proxy does not forward the piece that completes the needle.
    Request,
    /// The connection, right after the request was sent to the server, which may or may not have executed it.
    Connection,
    /// The answer alone: the server has answered that it is ready and in no transaction (`ReadyForQuery`, `I`), and the
    /// client receives nothing of its answer.
    Answer,
    /// Like `Answer`, for a server that sends each answer in one piece, whatever its content.
    FirstAnswer,
}

/// `ReadyForQuery` outside a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// A TCP proxy on loopback that forwards everything until a test requests a loss. Its drop closes all connections.
#[derive(Debug)]
pub struct Cut {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether forwarding is suspended.
    held: bool,
    /// Set when the proxy is dropped.
    ended: bool,
    /// The number of connections accepted so far.
    accepted: usize,
    open: Vec<Arc<Pair>>,
    /// The pending order of [`Cut::cut_after`]: the needle, and the loss.
    order: Option<(Vec<u8>, Loss)>,
    /// The number of connections that the proxy has closed so far.
    cuts: usize,
}

/// A connection through the proxy: its two sockets.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// Set when the request has passed: from then on, nothing from the server is forwarded.
    muted: AtomicBool,
    /// Set together with `muted`: the server's first piece is its entire answer.
    one_piece: AtomicBool,
    /// Whether the proxy has cut this connection.
    cut: AtomicBool,
}

impl Pair {
    fn close(&self) {
        for side in [&self.client, &self.server] {
            // A side that has already closed reports an error, which is harmless.
            let closed = side.shutdown(Shutdown::Both);
            drop(closed);
        }
    }
}

impl Cut {
    /// Starts a proxy in front of `server`, on a free loopback port. If the server is not reachable, the proxy closes
    /// each new connection at once.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = shared.clone();
        let acceptor = std::thread::spawn(move || accepting.accept(&listener));
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `database` through the proxy.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        crate::Address::from(self.address).url(database)
    }

    /// Closes every open connection; returns their number. Later connections are forwarded.
    pub fn cut(&self) -> usize {
        let mut state = self.shared.state();
        let open = std::mem::take(&mut state.open);
        state.cuts += open.len();
        open.iter().for_each(|pair| pair.close());
        self.shared.changed.notify_all();
        open.len()
    }

    /// Orders the loss of one connection: the next one on which a client sends `needle`, in one piece or several, is
    /// closed and loses the data that `loss` names. The order applies once, and replaces a pending one.
    pub fn cut_after(&self, needle: &[u8], loss: Loss) {
        assert!(!needle.is_empty(), "the needle is empty");
        self.shared.state().order = Some((needle.to_vec(), loss));
    }

    /// Stops forwarding in both directions, and delays new connections, until [`Cut::release`].
    pub fn hold(&self) {
        self.shared.state().held = true;
    }

    /// Undoes [`Cut::hold`]: data sent in the meantime is forwarded.
    pub fn release(&self) {
        self.shared.state().held = false;
        self.shared.changed.notify_all();
    }

    /// The number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().accepted
    }

    /// The number of connections that are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.state().open.len()
    }

    /// The number of connections that the proxy itself has closed so far.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.shared.state().cuts
    }

    /// Waits until the proxy itself has closed `cuts` connections since it started.
    ///
    /// # Panics
    /// After 30 s.
    pub fn wait_for_cuts(&self, cuts: usize) {
        let state = self.shared.state();
        let limit = Duration::from_secs(30);
        let waiting = |state: &mut State| state.cuts < cuts;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, limit, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            state.cuts >= cuts,
            "{} of {cuts} cuts within {limit:?}",
            state.cuts
        );
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.ended = true;
            state.held = false;
            state.open.iter().for_each(|pair| pair.close());
        }
        self.shared.changed.notify_all();
        // Wakes the accepting thread, so that it notices the end.
        let woken = TcpStream::connect(self.address);
        drop(woken);
        let ended = self.acceptor.take().map(JoinHandle::join);
        assert!(!matches!(ended, Some(Err(_))) || std::thread::panicking());
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the proxy is on hold.
    fn wait_while_held(&self) -> MutexGuard<'_, State> {
        let state = self.state();
        let waited = self.changed.wait_while(state, |state| state.held);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let (client, _) = listener.accept().expect("a listener");
            if self.state().ended {
                return;
            }
            let shared = self.clone();
            std::thread::spawn(move || shared.forward(client));
        }
    }

    /// Forwards one connection until it ends.
    fn forward(&self, client: TcpStream) {
        self.state().accepted += 1;
        drop(self.wait_while_held());
        let Ok(server) = TcpStream::connect(self.server) else {
            return;
        };
        for side in [&client, &server] {
            side.set_nodelay(true).expect("a socket");
        }
        let pair = Arc::new(Pair {
            client,
            server,
            muted: AtomicBool::new(false),
            one_piece: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        });
        {
            let mut state = self.state();
            if state.ended {
                return pair.close();
            }
            state.open.push(pair.clone());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.forward_requests(&pair));
            self.forward_answers(&pair);
        });
        self.state().open.retain(|other| !Arc::ptr_eq(other, &pair));
    }

    /// Forwards what the client sends, until an order applies or either side ends.
    fn forward_requests(&self, pair: &Pair) {
        let mut recent = Vec::new();
        while let Some(piece) = self.read(&pair.client) {
            let loss = self.match_order(&mut recent, &piece);
            if loss == Some(Loss::Request) {
                self.cut_one(pair);
                break;
            }
            if loss.is_some() {
                let one_piece = loss == Some(Loss::FirstAnswer);
                pair.one_piece.store(one_piece, Ordering::SeqCst);
                // Set before the request is forwarded, so that no part of the answer passes.
                pair.muted.store(true, Ordering::SeqCst);
            }
            if (&pair.server).write_all(&piece).is_err() {
                break;
            }
            if loss == Some(Loss::Connection) {
                self.cut_one(pair);
                break;
            }
        }
        // The server's remaining answers are still forwarded.
        let closed = pair.server.shutdown(Shutdown::Write);
        drop(closed);
    }

    /// Forwards what the server sends. Once the connection is muted, it discards one answer and cuts the connection.
    fn forward_answers(&self, pair: &Pair) {
        let mut discarded = Vec::new();
        while let Some(piece) = self.read(&pair.server) {
            if pair.muted.load(Ordering::SeqCst) {
                discarded.extend_from_slice(&piece);
                if pair.one_piece.load(Ordering::SeqCst) || contains(&discarded, READY) {
                    break;
                }
            } else if (&pair.client).write_all(&piece).is_err() {
                break;
            }
        }
        if pair.muted.load(Ordering::SeqCst) {
            self.cut_one(pair);
        }
        pair.close();
    }

    /// Reads the next piece, and waits until it may be forwarded; `None` at the end of the connection.
    fn read(&self, mut from: &TcpStream) -> Option<Vec<u8>> {
        let mut piece = vec![0; 16 * 1024];
        let length = loop {
            match from.read(&mut piece) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return None,
                Ok(length) => break length,
            }
        };
        piece.truncate(length);
        drop(self.wait_while_held());
        Some(piece)
    }

    /// Returns the ordered loss if this piece completes the needle, and clears the order. `recent` is the end of the
    /// data that this client has sent before, up to one byte less than the needle.
    fn match_order(&self, recent: &mut Vec<u8>, piece: &[u8]) -> Option<Loss> {
        let mut state = self.state();
        recent.extend_from_slice(piece);
        let applies = matches!(&state.order, Some((needle, _)) if contains(recent, needle));
        let kept = state
            .order
            .as_ref()
            .map_or(0, |(needle, _)| needle.len() - 1);
        recent.drain(..recent.len().saturating_sub(kept));
        if applies {
            state.order.take().map(|(_, loss)| loss)
        } else {
            None
        }
    }

    /// Cuts a connection, on the first call only: each of its threads may call this.
    fn cut_one(&self, pair: &Pair) {
        if pair.cut.swap(true, Ordering::SeqCst) {
            return;
        }
        // The count grows before a client or server can notice the cut.
        self.state().cuts += 1;
        pair.close();
        self.changed.notify_all();
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
