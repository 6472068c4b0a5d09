//! A private PgBouncer in transaction mode.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::{command, pgbouncer};
use crate::folder::{self, Folder, GracePeriod};
use crate::postgres_server::free_port;
use crate::{Address, USER};

/// The number of ports tried before PgBouncer is considered unable to start.
const PORT_ATTEMPTS: usize = 5;

/// PgBouncer in front of a server: a client keeps a backend for one transaction only. Debian's version is 1.18, which
/// does not support prepared statements in this mode. PgBouncer ends when this value is dropped, or when the test
/// process ends in any way.
#[derive(Debug)]
pub struct PgBouncer {
    folder: Folder,
    port: u16,
    child: Child,
}

impl PgBouncer {
    /// Starts PgBouncer in front of `server`, with at most `pool_size` backends for each database, on a free loopback
    /// port and a socket.
    pub fn before(server: impl Into<Address>, pool_size: u32) -> Self {
        Self::with_settings(server, pool_size, &[])
    }

    /// Like [`PgBouncer::before`], with additional settings for `pgbouncer.ini`, which override this crate's. All
    /// others have PgBouncer's defaults: after a failed login to the server it waits 15 s (`server_login_retry`).
    pub fn with_settings(
        server: impl Into<Address>,
        pool_size: u32,
        settings: &[(&str, &str)],
    ) -> Self {
        let server: Address = server.into();
        // Called first, because the installation may create the user that servers run as.
        pgbouncer();
        let folder = Folder::new(GracePeriod::None, &folder::lock_exclusively("lock"));
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port();
            configure(&folder, port, &server, pool_size, settings);
            if let Some(child) = start(&folder, port) {
                return Self {
                    folder,
                    port,
                    child,
                };
            }
        }
        panic!("PgBouncer does not start:\n{}", log(&folder));
    }

    /// The URL of `database` through the pool, over loopback.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        Address::from(self.tcp()).url(database)
    }

    /// The URL of `database` through the pool, over PgBouncer's socket.
    #[must_use]
    pub fn socket_url(&self, database: &str) -> String {
        let host = self.folder.path().display().to_string();
        let port = self.port;
        Address { host, port }.url(database)
    }

    /// PgBouncer's loopback address.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Freezes PgBouncer (`SIGSTOP`): connections stay open, but nothing answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Undoes [`PgBouncer::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills PgBouncer, which loses every connection, and restarts it on the same port and socket.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.child = start(&self.folder, self.port)
            .unwrap_or_else(|| panic!("PgBouncer does not start again:\n{}", log(&self.folder)));
    }

    fn kill(&mut self) {
        self.child.kill().expect("a child process");
        self.child.wait().expect("a child process");
        std::fs::remove_file(self.folder.path().join("pgbouncer.pid")).expect("its pid file");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("a child process");
    }
}

impl From<&PgBouncer> for Address {
    /// PgBouncer's loopback address.
    fn from(pool: &PgBouncer) -> Self {
        pool.tcp().into()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // If this fails, the folder's watchdog ends the process; the test has already failed.
            let killed = self.child.kill().and_then(|()| self.child.wait());
            drop(killed);
        } else {
            self.kill();
        }
    }
}

fn configure(
    folder: &Folder,
    port: u16,
    server: &Address,
    pool_size: u32,
    settings: &[(&str, &str)],
) {
    let path = folder.path().display();
    let mut text = format!(
        "[databases]\n\
         * = host={host} port={upstream}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir = {path}\n\
         unix_socket_mode = 0777\n\
         auth_type = trust\n\
         auth_file = {path}/users.txt\n\
         pidfile = {path}/pgbouncer.pid\n\
         logfile = {path}/log\n\
         pool_mode = transaction\n\
         max_client_conn = 1000\n\
         default_pool_size = {pool_size}\n",
        host = server.host,
        upstream = server.port,
    );
    for (name, value) in settings {
        text.push_str(&format!("{name} = {value}\n"));
    }
    let users = format!("\"{USER}\" \"\"\n");
    folder::write(&folder.path().join("users.txt"), &users);
    folder::write(&folder.path().join("pgbouncer.ini"), &text);
}

/// Starts PgBouncer; returns its process once it accepts connections, or `None` if it exits before.
fn start(folder: &Folder, port: u16) -> Option<Child> {
    let mut child = command(pgbouncer())
        .arg("-q")
        .arg(folder.path().join("pgbouncer.ini"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pgbouncer");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if child.try_wait().expect("a child process").is_some() {
            return None;
        }
        // PgBouncer writes this file after it opened its sockets. The file shows that the listener on the port is
        // PgBouncer.
        let has_pid_file = folder.path().join("pgbouncer.pid").exists();
        if has_pid_file && TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(child);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("a child process");
    child.wait().expect("a child process");
    panic!("PgBouncer accepts no connections:\n{}", log(folder));
}

fn log(folder: &Folder) -> String {
    std::fs::read_to_string(folder.path().join("log")).unwrap_or_else(|e| format!("no log: {e}"))
}
