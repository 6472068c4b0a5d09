//! A Redis server of one's own.

mod cluster;
mod node;
mod resp;

use std::net::SocketAddr;

pub use cluster::RedisCluster;
use node::Node;

use crate::binaries;
use crate::folder::{self, Folder, Grace};

/// How many ports are tried before a server counts as unable to start.
const PORTS: usize = 5;

/// A Redis server that its test may hurt. It ends with this value, or with its process, however that ends.
///
/// It keeps nothing on disk by itself: what was killed starts empty, unless a dump was saved or `appendonly` is set.
#[derive(Debug)]
pub struct Redis {
    // Before its folder: it ends first.
    node: Node,
    _folder: Folder,
}

impl Redis {
    /// Starts one, on a free loopback port and a socket. It takes connections when this returns.
    #[must_use]
    pub fn start() -> Self {
        Self::with_settings(&[])
    }

    /// [`Redis::start`] with settings of `redis.conf` that come after the others.
    #[must_use]
    pub fn with_settings(settings: &[(&str, &str)]) -> Self {
        binaries::redis();
        let folder = Folder::new(Grace::None, &folder::exclusive("lock"));
        let path = folder.path().join("redis");
        for _ in 0..PORTS {
            // The port may be another's by now.
            let node = Node::new(&path, settings);
            if node.spawn_and_wait() {
                return Self {
                    node,
                    _folder: folder,
                };
            }
        }
        panic!("Redis does not start");
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

    /// Runs a command as one of `redis-cli --raw`: the answer's texts and numbers, one a line; nothing is an empty line.
    ///
    /// # Panics
    /// With what Redis said, when it fails.
    pub fn cli(&self, command: &[&str]) -> String {
        self.node.cli(command)
    }

    /// [`Redis::cli`]; `Err` is what Redis said, which begins with the error's code.
    ///
    /// # Errors
    /// When Redis answers with an error.
    pub fn try_cli(&self, command: &[&str]) -> Result<String, String> {
        self.node.try_cli(command)
    }

    /// Kills it (`SIGKILL`).
    pub fn kill(&self) {
        self.node.kill();
    }

    /// Starts it after [`Redis::kill`], on the same port and socket, with the dump that was last saved, if any.
    pub fn start_again(&self) {
        assert!(self.node.spawn_and_wait(), "Redis does not start again");
    }

    /// Stops it in its tracks (`SIGSTOP`): connections stay, nothing answers.
    pub fn pause(&self) {
        self.node.pause();
    }

    /// Undoes [`Redis::pause`].
    pub fn resume(&self) {
        self.node.resume();
    }

    /// Has the server write its dump, and returns it.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.cli(&["SAVE"]);
        std::fs::read(self.node.path().join("dump.rdb")).expect("a dump")
    }

    /// Kills the server and starts it again with `dump`, such as an older one.
    pub fn start_from(&self, dump: &[u8]) {
        self.kill();
        folder::write_secret(&self.node.path().join("dump.rdb"), dump);
        self.start_again();
    }

    /// Writes a file that the server can read, such as a certificate; its path.
    pub fn put(&self, name: &str, contents: &str) -> std::path::PathBuf {
        let path = self.node.path().join(name);
        folder::write_secret(&path, contents.as_bytes());
        path
    }

    /// The server's process.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.node.pid().expect("a running server")
    }
}
