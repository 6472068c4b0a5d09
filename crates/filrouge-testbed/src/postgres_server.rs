//! Controls one PostgreSQL server through its folder, its port and `pg_ctl`.

use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Address;
use crate::binaries::{command, identity, postgres, run};
use crate::folder::{self, Folder};

/// The number of ports tried before the server is considered unable to start.
const PORT_ATTEMPTS: usize = 5;

#[derive(Debug)]
pub(crate) struct PostgresServer {
    folder: Folder,
    port: u16,
}

impl PostgresServer {
    /// Starts a server with fresh data in `folder`.
    pub(crate) fn start(folder: Folder, durable: bool, settings: &[(String, String)]) -> Self {
        let data = folder.path().join("data");
        run(command(Path::new("cp"))
            .arg("-a")
            .arg(initialized_data())
            .arg(&data));
        let mut server = Self { folder, port: 0 };
        for attempt in 1..=PORT_ATTEMPTS {
            server.port = free_port();
            let text = server.configuration(durable, settings);
            folder::write(&data.join("postgresql.conf"), &text);
            let started = server.pg_ctl_start().output().expect("pg_ctl");
            if started.status.success() {
                break;
            }
            // Another process may have taken the port. Any other failure recurs until the attempts are used up.
            assert!(
                attempt < PORT_ATTEMPTS,
                "PostgreSQL does not start in {PORT_ATTEMPTS} attempts:\n{}",
                server.log()
            );
        }
        server
    }

    /// Connects to a server that another process has started; `None` if it does not answer.
    pub(crate) fn join_running(folder: Folder, port: u16) -> Option<Self> {
        let server = Self { folder, port };
        let socket = server.path().join(format!(".s.PGSQL.{port}"));
        check_backend_answers(&socket).ok().map(|()| server)
    }

    fn configuration(&self, durable: bool, settings: &[(String, String)]) -> String {
        let folder = self.path().display().to_string();
        let port = self.port.to_string();
        let on_or_off = |on| if on { "on" } else { "off" };
        let mut lines = vec![
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", &folder),
            ("unix_socket_permissions", "0777"),
            ("max_connections", "400"),
            ("shared_buffers", "64MB"),
            ("fsync", on_or_off(durable)),
            ("full_page_writes", on_or_off(durable)),
            ("synchronous_commit", "on"),
            ("autovacuum", "on"),
            ("log_line_prefix", "%m [%p] %d "),
        ];
        lines.extend(settings.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        lines
            .iter()
            .map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''")))
            .collect()
    }

    fn pg_ctl(&self) -> Command {
        let mut pg_ctl = command(&postgres().join("pg_ctl"));
        pg_ctl.arg("-D").arg(self.path().join("data"));
        pg_ctl
    }

    fn pg_ctl_start(&self) -> Command {
        let mut pg_ctl = self.pg_ctl();
        pg_ctl
            .args(["start", "-w", "-s", "-t", "120", "-l"])
            .arg(self.path().join("log"));
        pg_ctl
    }

    /// Starts the server on the same port; when this returns, it has recovered and accepts connections.
    pub(crate) fn restart(&self) {
        let out = self.pg_ctl_start().output().expect("pg_ctl");
        assert!(
            out.status.success(),
            "PostgreSQL does not restart:\n{}",
            self.log()
        );
    }

    /// Ends the server without a checkpoint; its next start runs crash recovery.
    pub(crate) fn stop_immediate(&self) {
        run(self
            .pg_ctl()
            .args(["stop", "-w", "-s", "-t", "120", "-m", "immediate"]));
    }

    /// Returns the postmaster's process id, if the postmaster runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.path().join("data/postmaster.pid")).ok()?;
        text.lines().next()?.parse().ok()
    }

    /// Writes a file in the data folder that only servers can read.
    pub(crate) fn put(&self, name: &str, contents: &str) {
        folder::write_secret(&self.path().join("data").join(name), contents);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("log")).unwrap_or_else(|e| format!("no log: {e}"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn socket(&self) -> Address {
        Address {
            host: self.path().display().to_string(),
            port: self.port,
        }
    }

    pub(crate) fn tcp(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }
}

/// The protocol's SSLRequest: its length, then its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Checks that a server starts a backend for a connection to `socket`. A server that is shutting down still accepts
/// connections, but starts none.
fn check_backend_answers(socket: &Path) -> std::io::Result<()> {
    let mut connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    // A backend answers this request with one byte.
    connection.write_all(&SSL_REQUEST)?;
    connection.read_exact(&mut [0])
}

/// Returns the data folder of a server that was never started, created once per version of PostgreSQL.
fn initialized_data() -> PathBuf {
    let version = run(command(&postgres().join("postgres")).arg("--version"));
    let mut name: String = version
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    // PostgreSQL refuses data that belongs to another user.
    let owner = identity().map_or("own".to_owned(), |identity| identity.uid.to_string());
    name.push_str(&owner);
    let data = folder::server_folder("cache").join(name);
    let _lock = folder::lock_exclusively("install");
    if !data.exists() {
        let partial = data.with_extension("partial");
        run(command(Path::new("rm")).arg("-rf").arg(&partial));
        run(command(&postgres().join("initdb"))
            .args(["-U", crate::USER, "-A", "trust", "-E", "UTF8"])
            .args(["--locale=C", "--no-sync", "-D"])
            .arg(&partial));
        run(command(Path::new("mv")).arg(&partial).arg(&data));
    }
    data
}

/// Returns a port without a listener, below the ports that the system assigns to outgoing connections (32,768 and
/// above), so that a stopped server finds it free when it starts again.
pub(crate) fn free_port() -> u16 {
    let random = RandomState::new();
    (0u32..)
        .map(|attempt| {
            20_000 + u16::try_from(random.hash_one(attempt) % 12_000).expect("below 12,000")
        })
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("a free port")
}
