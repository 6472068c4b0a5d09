//! One PostgreSQL server: its folder, its port, and `pg_ctl`.

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

/// How many ports are tried before a server counts as unable to start.
const PORTS: usize = 5;

#[derive(Debug)]
pub(crate) struct Cluster {
    folder: Folder,
    port: u16,
}

impl Cluster {
    /// A running server with fresh data in `folder`.
    pub(crate) fn start(folder: Folder, durable: bool, settings: &[(String, String)]) -> Self {
        let data = folder.path().join("data");
        run(command(Path::new("cp"))
            .arg("-a")
            .arg(initialized())
            .arg(&data));
        let mut cluster = Self { folder, port: 0 };
        for last in 1..=PORTS {
            cluster.port = free_port();
            let text = cluster.configuration(durable, settings);
            folder::write(&data.join("postgresql.conf"), &text);
            let started = cluster.pg_ctl_start().output().expect("pg_ctl");
            if started.status.success() {
                break;
            }
            // The port may be another's by now; nothing else is expected to fail.
            assert!(
                last < PORTS,
                "PostgreSQL does not start:\n{}",
                cluster.log()
            );
        }
        cluster
    }

    /// One that another process has started, when it answers.
    pub(crate) fn join(folder: Folder, port: u16) -> Option<Self> {
        let cluster = Self { folder, port };
        let socket = cluster.path().join(format!(".s.PGSQL.{port}"));
        answers(&socket).ok().map(|()| cluster)
    }

    fn configuration(&self, durable: bool, settings: &[(String, String)]) -> String {
        let folder = self.path().display().to_string();
        let port = self.port.to_string();
        let on = |on| if on { "on" } else { "off" };
        let mut all = vec![
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", &folder),
            ("unix_socket_permissions", "0777"),
            ("max_connections", "400"),
            ("shared_buffers", "64MB"),
            ("fsync", on(durable)),
            ("full_page_writes", on(durable)),
            ("synchronous_commit", "on"),
            ("autovacuum", "on"),
            ("log_line_prefix", "%m [%p] %d "),
        ];
        all.extend(settings.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        all.iter()
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

    /// Starts it where it was; it has recovered and takes connections when this returns.
    pub(crate) fn start_again(&self) {
        let out = self.pg_ctl_start().output().expect("pg_ctl");
        assert!(out.status.success(), "{}", self.log());
    }

    /// Ends it without a checkpoint and without a word to its clients.
    pub(crate) fn stop_immediate(&self) {
        run(self
            .pg_ctl()
            .args(["stop", "-w", "-s", "-t", "120", "-m", "immediate"]));
    }

    /// The postmaster's process, when it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.path().join("data/postmaster.pid")).ok()?;
        text.lines().next()?.parse().ok()
    }

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

/// Whether a server is behind a socket: one that is ending still takes connections, but starts no backend for them.
fn answers(socket: &Path) -> std::io::Result<()> {
    let mut connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    // SSLRequest, which a backend answers with one byte.
    connection.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
    connection.read_exact(&mut [0])
}

/// The data of a server that was never started, made once for each version of PostgreSQL.
fn initialized() -> PathBuf {
    let version = run(command(&postgres().join("postgres")).arg("--version"));
    let mut name: String = version
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    // PostgreSQL takes no data of somebody else.
    let owner = identity().map_or("own".to_owned(), |identity| identity.uid.to_string());
    name.push_str(&owner);
    let data = folder::for_servers("cache").join(name);
    let _making = folder::exclusive("install");
    if !data.exists() {
        let half = data.with_extension("half");
        run(command(Path::new("rm")).arg("-rf").arg(&half));
        run(command(&postgres().join("initdb"))
            .args(["-U", crate::USER, "-A", "trust", "-E", "UTF8"])
            .args(["--locale=C", "--no-sync", "-D"])
            .arg(&half));
        run(command(Path::new("mv")).arg(&half).arg(&data));
    }
    data
}

/// A port that nobody listens on, below those that the system gives to outgoing connections: a server that is stopped
/// finds it free when it starts again.
pub(crate) fn free_port() -> u16 {
    let random = RandomState::new();
    (0u32..)
        .map(|attempt| 20_000 + u16::try_from(random.hash_one(attempt) % 12_000).expect("small"))
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("a free port")
}
