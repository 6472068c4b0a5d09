//! A private PostgreSQL server.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::binaries;
use crate::folder::{self, Folder, GracePeriod};
use crate::postgres_server::PostgresServer;
use crate::psql::sql;
use crate::{Address, Row};

/// The options that a [`Server`] is started with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether a commit is on disk when it is answered: sets `fsync` and `full_page_writes`.
    pub durable: bool,
    /// Additional settings of `postgresql.conf`, which override this crate's; values without quotes.
    pub settings: Vec<(String, String)>,
}

/// A PostgreSQL server that its test may kill or pause. The server ends when this value is dropped, or when the test
/// process ends in any way.
#[derive(Debug)]
pub struct Server {
    postgres: PostgresServer,
}

impl Server {
    /// Starts a server on a free loopback port and a socket. It accepts connections when this returns.
    #[must_use]
    pub fn start(options: Options) -> Self {
        // Called first, because the installation may create the user that servers run as.
        binaries::postgres();
        let folder = Folder::new(GracePeriod::None, &folder::lock_exclusively("lock"));
        let postgres = PostgresServer::start(folder, options.durable, &options.settings);
        Self { postgres }
    }

    /// Creates an empty database; returns its name.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("test_{:016x}", RandomState::new().hash_one(()));
        self.sql(
            "postgres",
            &format!("CREATE DATABASE {name} TEMPLATE template0"),
        );
        name
    }

    /// The URL of `database` over the server's socket, whose folder is the percent-encoded host.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.postgres.socket().url(database)
    }

    /// The URL of `database` over loopback.
    #[must_use]
    pub fn tcp_url(&self, database: &str) -> String {
        Address::from(self.postgres.tcp()).url(database)
    }

    /// The server's loopback address.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        self.postgres.tcp()
    }

    /// Runs statements in `database` as the superuser, each in its own transaction unless they begin one; returns the
    /// rows of all of them, in order.
    ///
    /// # Panics
    /// If a statement fails, with the output of `psql`; the later statements do not run.
    pub fn sql(&self, database: &str, statements: &str) -> Vec<Row> {
        sql(&self.postgres.socket(), database, statements)
    }

    /// Writes a file in the server's data folder, such as `pg_hba.conf`, a certificate or its key; only the server can
    /// read it. It takes effect after [`Server::reload`].
    pub fn put(&self, name: &str, contents: &str) {
        self.postgres.put(name, contents);
    }

    /// Makes the server reload its configuration, `pg_hba.conf` and certificates; they apply to connections opened
    /// after this returns.
    pub fn reload(&self) {
        let load_time = || self.sql("postgres", "SELECT pg_conf_load_time()");
        let before = load_time();
        self.sql("postgres", "SELECT pg_reload_conf()");
        let begun = Instant::now();
        while load_time() == before {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the configuration was not reloaded within 60 s"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `pg_ctl stop -m immediate`: every process ends at once, and the next start recovers.
    pub fn stop_immediate(&self) {
        self.postgres.stop_immediate();
    }

    /// Starts the server after a stop, on the same port and socket. It has recovered when this returns.
    pub fn restart(&self) {
        self.postgres.restart();
    }

    /// Freezes every process of the server (`SIGSTOP`): connections stay open, but nothing answers.
    pub fn pause(&self) {
        // The postmaster is stopped first, so that it starts no more children.
        let postmaster = self.pid();
        signal(postmaster, Signal::STOP);
        for child in child_pids(postmaster) {
            signal(child, Signal::STOP);
        }
    }

    /// Undoes [`Server::pause`].
    pub fn resume(&self) {
        let postmaster = self.pid();
        for child in child_pids(postmaster) {
            signal(child, Signal::CONT);
        }
        signal(postmaster, Signal::CONT);
    }

    /// The process id of the postmaster.
    ///
    /// # Panics
    /// If the server is stopped.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.postgres.pid().expect("a running server")
    }
}

impl From<&Server> for Address {
    /// The server's socket.
    fn from(server: &Server) -> Self {
        server.postgres.socket()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The folder's watchdog ends a server that cannot be stopped here.
        let Some(_running) = self.postgres.pid() else {
            return;
        };
        if std::thread::panicking() {
            let stopped = std::panic::catch_unwind(|| self.resume_and_stop());
            drop(stopped);
        } else {
            self.resume_and_stop();
        }
    }
}

impl Server {
    fn resume_and_stop(&self) {
        self.resume();
        self.stop_immediate();
    }
}

/// Sends a signal; ignores a process that has exited in the meantime.
fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match kill_process(pid.expect("a process"), signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(e) => panic!("{signal:?}: {e}"),
    }
}

/// Returns the child processes of `parent`.
fn child_pids(parent: u32) -> Vec<u32> {
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The line is `PID (NAME) STATE PARENT …`, and the name may contain any characters.
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok()
    };
    std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| parent_of(pid) == Some(parent))
        .collect()
}
