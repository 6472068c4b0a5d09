//! A TCP proxy that simulates network failures.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

mod hold;

use hold::{PendingHold, SentRequests};

/// The data that is lost when [`FaultProxy::cut_after`] closes a connection.
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
const READY_FOR_QUERY: &[u8] = b"Z\0\0\0\x05I";

/// A TCP proxy on loopback that forwards everything until a test requests a loss. Its drop closes all connections.
#[derive(Debug)]
pub struct FaultProxy {
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
    is_held: bool,
    /// Set when the proxy is dropped.
    has_ended: bool,
    /// The number of connections accepted so far.
    accepted: usize,
    open: Vec<Arc<ProxiedConnection>>,
    /// The pending loss that [`FaultProxy::cut_after`] requested, with its needle.
    pending_loss: Option<(Vec<u8>, Loss)>,
    /// The pending hold that [`FaultProxy::hold_after`] requested.
    pending_hold: Option<PendingHold>,
    /// The number of connections that the proxy has closed so far.
    cuts: usize,
}

/// A connection through the proxy: its two sockets.
#[derive(Debug)]
struct ProxiedConnection {
    client: TcpStream,
    server: TcpStream,
    /// Set when the request has passed: from then on, nothing from the server is forwarded.
    discards_answer: AtomicBool,
    /// Set together with `discards_answer`: the first piece from the server is its entire answer.
    answer_is_one_piece: AtomicBool,
    /// Whether the proxy has cut this connection.
    was_cut: AtomicBool,
}

impl ProxiedConnection {
    fn close(&self) {
        for socket in [&self.client, &self.server] {
            // A socket that has already closed reports an error, which is harmless.
            let closed = socket.shutdown(Shutdown::Both);
            drop(closed);
        }
    }
}

impl FaultProxy {
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
        open.iter().for_each(|connection| connection.close());
        self.shared.changed.notify_all();
        open.len()
    }

    /// Requests the loss of one connection: the next one on which a client sends `needle`, in one piece or several, is
    /// closed and loses the data that `loss` names. The loss happens once, and replaces a pending one.
    pub fn cut_after(&self, needle: &[u8], loss: Loss) {
        assert!(!needle.is_empty(), "the needle is empty");
        self.shared.state().pending_loss = Some((needle.to_vec(), loss));
    }

    /// Stops forwarding in both directions, and delays new connections, until [`FaultProxy::release`].
    pub fn hold(&self) {
        self.shared.state().is_held = true;
    }

    /// Requests a hold in the middle of a client's requests: once a client has sent `needle` and then this number of
    /// statements of PostgreSQL's extended protocol, nothing else is forwarded in either direction, on any connection,
    /// until [`FaultProxy::release`]. With 0 statements, the message that contains the needle stays incomplete. The hold
    /// happens once, and replaces a pending one.
    pub fn hold_after(&self, needle: &[u8], statements: usize) {
        assert!(!needle.is_empty(), "the needle is empty");
        let needle = needle.to_vec();
        self.shared.state().pending_hold = Some(PendingHold { needle, statements });
    }

    /// Whether forwarding is suspended.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.shared.state().is_held
    }

    /// Undoes [`FaultProxy::hold`]: data sent in the meantime is forwarded.
    pub fn release(&self) {
        self.shared.state().is_held = false;
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
        let is_waiting = |state: &mut State| state.cuts < cuts;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, limit, is_waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            state.cuts >= cuts,
            "{} of {cuts} cuts within {limit:?}",
            state.cuts
        );
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.has_ended = true;
            state.is_held = false;
            state.open.iter().for_each(|connection| connection.close());
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
        let waited = self.changed.wait_while(state, |state| state.is_held);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let (client, _) = listener.accept().expect("a listener");
            if self.state().has_ended {
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
        for socket in [&client, &server] {
            socket.set_nodelay(true).expect("a socket");
        }
        let connection = Arc::new(ProxiedConnection {
            client,
            server,
            discards_answer: AtomicBool::new(false),
            answer_is_one_piece: AtomicBool::new(false),
            was_cut: AtomicBool::new(false),
        });
        {
            let mut state = self.state();
            if state.has_ended {
                return connection.close();
            }
            state.open.push(connection.clone());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.forward_requests(&connection));
            self.forward_answers(&connection);
        });
        self.state()
            .open
            .retain(|other| !Arc::ptr_eq(other, &connection));
    }

    /// Forwards the client's data, until a pending loss applies or either side ends.
    fn forward_requests(&self, connection: &ProxiedConnection) {
        let (mut recent, mut sent) = (Vec::new(), SentRequests::default());
        while let Some(piece) = self.read(&connection.client) {
            let loss = self.match_pending_loss(&mut recent, &piece);
            if loss == Some(Loss::Request) {
                self.cut_connection(connection);
                break;
            }
            if loss.is_some() {
                let answer_is_one_piece = loss == Some(Loss::FirstAnswer);
                connection
                    .answer_is_one_piece
                    .store(answer_is_one_piece, Ordering::SeqCst);
                // Set before the request is forwarded, so that no part of the answer passes.
                connection.discards_answer.store(true, Ordering::SeqCst);
            }
            if self.send(&connection.server, &piece, &mut sent).is_err() {
                break;
            }
            if loss == Some(Loss::Connection) {
                self.cut_connection(connection);
                break;
            }
        }
        // The server's remaining answers are still forwarded.
        let closed = connection.server.shutdown(Shutdown::Write);
        drop(closed);
    }

    /// Forwards a piece of a client's data. If a pending hold is in it, forwards the bytes before the hold, and the others
    /// after the release. `sent` is what the client has sent before.
    fn send(
        &self,
        mut server: &TcpStream,
        piece: &[u8],
        sent: &mut SentRequests,
    ) -> std::io::Result<()> {
        let mut state = self.state();
        let hold = state.pending_hold.as_ref();
        let preceding = hold.map(|hold| sent.add(piece, hold));
        let Some(Some(preceding)) = preceding else {
            if preceding.is_none() {
                *sent = SentRequests::default();
            }
            drop(state);
            return server.write_all(piece);
        };
        *sent = SentRequests::default();
        let (before, after) = piece.split_at(preceding);
        state.pending_hold = None;
        state.is_held = true;
        // Sent before the state is unlocked: whoever sees the hold knows that these bytes have been forwarded.
        server.write_all(before)?;
        drop(state);
        drop(self.wait_while_held());
        server.write_all(after)
    }

    /// Forwards the server's data. Once `discards_answer` is set, it discards one answer and cuts the connection.
    fn forward_answers(&self, connection: &ProxiedConnection) {
        let mut discarded = Vec::new();
        while let Some(piece) = self.read(&connection.server) {
            if connection.discards_answer.load(Ordering::SeqCst) {
                discarded.extend_from_slice(&piece);
                if connection.answer_is_one_piece.load(Ordering::SeqCst)
                    || contains(&discarded, READY_FOR_QUERY)
                {
                    break;
                }
            } else if (&connection.client).write_all(&piece).is_err() {
                break;
            }
        }
        if connection.discards_answer.load(Ordering::SeqCst) {
            self.cut_connection(connection);
        }
        connection.close();
    }

    /// Reads the next piece, and waits until it may be forwarded; `None` at the end of the connection.
    fn read(&self, mut stream: &TcpStream) -> Option<Vec<u8>> {
        let mut piece = vec![0; 16 * 1024];
        let length = loop {
            match stream.read(&mut piece) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return None,
                Ok(length) => break length,
            }
        };
        piece.truncate(length);
        drop(self.wait_while_held());
        Some(piece)
    }

    /// Returns the pending loss if this piece completes the needle, and clears it. `recent` is the end of the
    /// data that this client has sent before, up to one byte less than the needle.
    fn match_pending_loss(&self, recent: &mut Vec<u8>, piece: &[u8]) -> Option<Loss> {
        let mut state = self.state();
        recent.extend_from_slice(piece);
        let is_complete =
            matches!(&state.pending_loss, Some((needle, _)) if contains(recent, needle));
        let kept_bytes = state
            .pending_loss
            .as_ref()
            .map_or(0, |(needle, _)| needle.len() - 1);
        recent.drain(..recent.len().saturating_sub(kept_bytes));
        if is_complete {
            state.pending_loss.take().map(|(_, loss)| loss)
        } else {
            None
        }
    }

    /// Cuts a connection, on the first call only: each of its threads may call this.
    fn cut_connection(&self, connection: &ProxiedConnection) {
        if connection.was_cut.swap(true, Ordering::SeqCst) {
            return;
        }
        // The count grows before a client or server can notice the cut.
        self.state().cuts += 1;
        connection.close();
        self.changed.notify_all();
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
