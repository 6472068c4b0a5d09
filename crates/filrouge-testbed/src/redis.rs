//! A private Redis server.

mod cluster;
mod node;
mod resp;

use std::net::SocketAddr;

pub use cluster::RedisCluster;
use node::Node;

use crate::binaries;
use crate::folder::{self, Folder, GracePeriod};

/// The number of ports tried before a server is considered unable to start.
const PORT_ATTEMPTS: usize = 5;

/// A Redis server that its test may kill or pause. The server ends when this value is dropped, or when the test process
/// ends in any way.
///
/// By default it writes nothing to disk: after a kill it starts empty, unless a dump was saved or `appendonly` is set.
#[derive(Debug)]
pub struct Redis {
    // Declared before the folder, so that it is dropped first.
    node: Node,
    _folder: Folder,
}

impl Redis {
    /// Starts a server on a free loopback port and a socket. It accepts connections when this returns.
    #[must_use]
    pub fn start() -> Self {
        Self::with_settings(&[])
    }

    /// Like [`Redis::start`], with additional settings of `redis.conf`, which override this crate's.
    #[must_use]
    pub fn with_settings(settings: &[(&str, &str)]) -> Self {
        binaries::redis();
        let folder = Folder::new(GracePeriod::None, &folder::lock_exclusively("lock"));
        let path = folder.path().join("redis");
        for _ in 0..PORT_ATTEMPTS {
            // Another process may have taken the port.
            let node = Node::new(&path, settings);
            if node.spawn_and_wait() {
                return Self {
                    node,
                    _folder: folder,
                };
            }
        }
        panic!("Redis does not start in {PORT_ATTEMPTS} attempts");
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.node.tcp())
    }

    /// `redis+unix:///…`, over the server's socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.node.socket().display())
    }

    /// The server's loopback address.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        self.node.tcp()
    }

    /// Runs a command like `redis-cli --raw`: returns the answer's texts and numbers, one per line; nil is an empty
    /// line.
    ///
    /// # Panics
    /// If the command fails, with Redis's error.
    pub fn cli(&self, command: &[&str]) -> String {
        self.node.cli(command)
    }

    /// Like [`Redis::cli`]; `Err` is Redis's error, which begins with its code.
    ///
    /// # Errors
    /// When Redis answers with an error.
    pub fn try_cli(&self, command: &[&str]) -> Result<String, String> {
        self.node.try_cli(command)
    }

    /// Kills the server (`SIGKILL`).
    pub fn kill(&self) {
        self.node.kill();
    }

    /// Starts the server after [`Redis::kill`], on the same port and socket, with the last saved dump, if any.
    pub fn restart(&self) {
        assert!(self.node.spawn_and_wait(), "Redis does not restart");
    }

    /// Freezes the server (`SIGSTOP`): connections stay open, but nothing answers.
    pub fn pause(&self) {
        self.node.pause();
    }

    /// Undoes [`Redis::pause`].
    pub fn resume(&self) {
        self.node.resume();
    }

    /// Makes the server write its dump, and returns the dump.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.cli(&["SAVE"]);
        std::fs::read(self.node.path().join("dump.rdb")).expect("a dump")
    }

    /// Kills the server and starts it with `dump`, such as an older one.
    pub fn start_from(&self, dump: &[u8]) {
        self.kill();
        folder::write_secret(&self.node.path().join("dump.rdb"), dump);
        self.restart();
    }

    /// Writes a file that the server can read, such as a certificate; returns its path.
    pub fn put(&self, name: &str, contents: &str) -> std::path::PathBuf {
        let path = self.node.path().join(name);
        folder::write_secret(&path, contents.as_bytes());
        path
    }

    /// The server's process id.
    ///
    /// # Panics
    /// If the server does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.node.pid().expect("a running server")
    }
}
