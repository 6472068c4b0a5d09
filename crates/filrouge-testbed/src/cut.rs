//! A network that fails.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is lost when [`Cut::cut_after`] closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The bytes themselves: the server never sees the piece that completes them.
    Request,
    /// The connection, right after the server was sent them: it may have done what they ask, or not.
    Connection,
    /// The answer alone: the server has answered that it is ready and in no transaction (`ReadyForQuery`, `I`), and
    /// nothing of its answer arrives.
    Answer,
    /// The same of a server that answers with one piece, whatever it says.
    FirstAnswer,
}

/// `ReadyForQuery` outside of a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// A TCP proxy on loopback that passes everything on until it is told to lose something. Everything closes with this value.
#[derive(Debug)]
pub struct Cut {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: bool,
    ended: bool,
    accepted: usize,
    open: Vec<Arc<Pair>>,
    rule: Option<(Vec<u8>, Loss)>,
    cuts: usize,
}

/// A connection through the proxy.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// Set once its request has gone through: nothing that comes from the server is passed on any more.
    muted: AtomicBool,
    /// Set with it: the first piece that comes is the whole answer.
    one_piece: AtomicBool,
}

impl Pair {
    fn close(&self) {
        for side in [&self.client, &self.server] {
            // A side that has closed by itself is as closed as it should be.
            let closed = side.shutdown(Shutdown::Both);
            drop(closed);
        }
    }
}

impl Cut {
    /// A proxy in front of `server`, on a free loopback port. A connection it cannot pass on, for the server is not there,
    /// closes at once.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let own = shared.clone();
        let accepting = std::thread::spawn(move || own.accept(&listener));
        Self {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Where clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `database` through the proxy.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        crate::Address::from(self.address).url(database)
    }

    /// Closes every connection now; how many there were. New ones go through.
    pub fn cut(&self) -> usize {
        let mut state = self.shared.state();
        let open = std::mem::take(&mut state.open);
        state.cuts += open.len();
        open.iter().for_each(|pair| pair.close());
        self.shared.changed.notify_all();
        open.len()
    }

    /// Once: closes the connection on which a client has sent `needle`, in one piece or more, and loses what `loss` says.
    /// Takes the place of an order that was not carried out yet.
    pub fn cut_after(&self, needle: &[u8], loss: Loss) {
        assert!(!needle.is_empty());
        self.shared.state().rule = Some((needle.to_vec(), loss));
    }

    /// Passes nothing on, in either direction, and takes no new connection through, until [`Cut::release`].
    pub fn hold(&self) {
        self.shared.state().held = true;
    }

    /// Undoes [`Cut::hold`]: what was sent meanwhile arrives.
    pub fn release(&self) {
        self.shared.state().held = false;
        self.shared.changed.notify_all();
    }

    /// How many connections have come, until now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().accepted
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.state().open.len()
    }

    /// How many connections the proxy has closed of its own, until now.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.shared.state().cuts
    }

    /// Waits until the proxy has closed `cuts` connections of its own, since it began.
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
        assert!(state.cuts >= cuts, "{} cuts of {cuts}", state.cuts);
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
        // So that accepting comes to see that it has ended.
        let woken = TcpStream::connect(self.address);
        drop(woken);
        let ended = self.accepting.take().map(JoinHandle::join);
        assert!(!matches!(ended, Some(Err(_))) || std::thread::panicking());
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the proxy is held.
    fn passing(&self) -> MutexGuard<'_, State> {
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
            let own = self.clone();
            std::thread::spawn(move || own.pass(client));
        }
    }

    /// Lives as long as one connection.
    fn pass(&self, client: TcpStream) {
        self.state().accepted += 1;
        drop(self.passing());
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
        });
        {
            let mut state = self.state();
            if state.ended {
                return pair.close();
            }
            state.open.push(pair.clone());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.requests(&pair));
            self.answers(&pair);
        });
        self.state().open.retain(|other| !Arc::ptr_eq(other, &pair));
    }

    fn requests(&self, pair: &Pair) {
        let mut recent = Vec::new();
        while let Some(piece) = self.read(&pair.client) {
            let loss = self.rule_met(&mut recent, &piece);
            if loss == Some(Loss::Request) {
                self.cut_one(pair);
                break;
            }
            if matches!(loss, Some(Loss::Answer | Loss::FirstAnswer)) {
                let one_piece = loss == Some(Loss::FirstAnswer);
                pair.one_piece.store(one_piece, Ordering::SeqCst);
                // Before the server can answer.
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
        // What the server still answers arrives.
        let closed = pair.server.shutdown(Shutdown::Write);
        drop(closed);
    }

    fn answers(&self, pair: &Pair) {
        let mut lost = Vec::new();
        while let Some(piece) = self.read(&pair.server) {
            if pair.muted.load(Ordering::SeqCst) {
                lost.extend_from_slice(&piece);
                if pair.one_piece.load(Ordering::SeqCst) || contains(&lost, READY) {
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

    /// The next bytes, when they may pass; `None` at the end of the connection.
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
        drop(self.passing());
        Some(piece)
    }

    /// Whether this piece completes what is waited for; then it is waited for no longer. `recent` holds the end of what
    /// this connection has sent before.
    fn rule_met(&self, recent: &mut Vec<u8>, piece: &[u8]) -> Option<Loss> {
        let mut state = self.state();
        recent.extend_from_slice(piece);
        let met = matches!(&state.rule, Some((needle, _)) if contains(recent, needle));
        let longest = state
            .rule
            .as_ref()
            .map_or(0, |(needle, _)| needle.len() - 1);
        recent.drain(..recent.len().saturating_sub(longest));
        if met {
            state.rule.take().map(|(_, loss)| loss)
        } else {
            None
        }
    }

    fn cut_one(&self, pair: &Pair) {
        // Counted before anybody can notice.
        self.state().cuts += 1;
        pair.close();
        self.changed.notify_all();
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
