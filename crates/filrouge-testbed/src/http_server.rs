//! A server with an HTTP interface that all test processes of this user share.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::binaries::{command, run};
use crate::folder::{self, Folder, GracePeriod};
use crate::postgres_server::free_port;

/// The number of ports tried before a server is considered unable to start.
const PORT_ATTEMPTS: usize = 5;
/// The time within which a server must answer, on a machine that other tests keep busy.
const START_SECONDS: u64 = 180;

/// What is started.
pub(crate) struct Program<'a> {
    /// Its name, also that of the folder with its data, by which the watchdog finds its process.
    pub(crate) name: &'static str,
    /// The number of consecutive ports that it uses. The first one is that of HTTP.
    pub(crate) ports: u16,
    /// The path of an HTTP request that succeeds once the server is ready.
    pub(crate) ready: &'static str,
    /// Returns the command that runs the server in the foreground, with its data in a folder, on the first port.
    pub(crate) command: &'a dyn Fn(&Path, u16) -> Command,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct HttpServer {
    folder: Folder,
    port: u16,
}

impl HttpServer {
    /// Joins the shared server, or starts it. It runs at least as long as this value.
    pub(crate) fn join_or_start(program: &Program<'_>) -> Self {
        // The file names the running server; its own lock excludes processes that start another one.
        let current = folder::root().join(format!("current-{}", program.name));
        let _starting = folder::lock_exclusively(&format!("lock-{}", program.name));
        let text = std::fs::read_to_string(&current).unwrap_or_default();
        Self::join_named(&text, program).unwrap_or_else(|| {
            let server = Self::start(program);
            let line = format!("{} {}\n", server.port, server.folder.path().display());
            folder::write(&current, &line);
            server
        })
    }

    /// Joins the server that a line of the file names; `None` if it does not run.
    fn join_named(line: &str, program: &Program<'_>) -> Option<Self> {
        let (port, path) = line.trim_end().split_once(' ')?;
        let port = port.parse().ok()?;
        let folder = Folder::join(&PathBuf::from(path), &folder::lock_exclusively("lock"))?;
        is_ready(port, program.ready).then_some(Self { folder, port })
    }

    fn start(program: &Program<'_>) -> Self {
        let lock = folder::lock_exclusively("lock");
        let folder = Folder::new(GracePeriod::Seconds20, &lock);
        drop(lock);
        let data = folder.path().join(program.name);
        let log = data.join("log");
        for _ in 0..PORT_ATTEMPTS {
            // The ports may be taken while the server starts; it then exits.
            let port = free_ports(program.ports);
            run(command(Path::new("rm")).arg("-rf").arg(&data));
            folder::create_for_servers(&data);
            if let Some(child) = spawn_and_wait(program, &data, port, &log) {
                folder::wait_on_thread(child);
                return Self { folder, port };
            }
        }
        panic!(
            "{} does not start in {PORT_ATTEMPTS} attempts:\n{}",
            program.name,
            read_log(&log)
        );
    }

    pub(crate) fn tcp(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The folder of the server's data and log.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Starts the process; `None` if it exits before it is ready.
fn spawn_and_wait(program: &Program<'_>, data: &Path, port: u16, log: &Path) -> Option<Child> {
    let output = File::create(log).expect("a log");
    let mut child = (program.command)(data, port)
        // The watchdog identifies the process by its working folder.
        .current_dir(data)
        // So that it survives an interrupted test run that other runs share it with.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a log"))
        .stderr(output)
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", program.name));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(START_SECONDS) {
        if child.try_wait().expect("a child process").is_some() {
            return None;
        }
        if is_ready(port, program.ready) {
            return Some(child);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // The panic matters more than why the process cannot be stopped.
    let _ = child.kill().and_then(|()| child.wait());
    panic!(
        "{} is not ready within {START_SECONDS} s:\n{}",
        program.name,
        read_log(log)
    );
}

fn read_log(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_else(|e| format!("no log: {e}"))
}

/// Whether an HTTP request succeeds.
fn is_ready(port: u16, path: &str) -> bool {
    let request = || -> std::io::Result<bool> {
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        connection.set_read_timeout(Some(Duration::from_secs(30)))?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        connection.write_all(head.as_bytes())?;
        let mut status = [0; "HTTP/1.1 200".len()];
        connection.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    request().unwrap_or(false)
}

/// Returns the first of `count` consecutive free ports.
fn free_ports(count: u16) -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    std::iter::repeat_with(free_port)
        .find(|&first| (first + 1..first + count).all(is_free))
        .expect("free ports")
}

/// Returns a folder with the same files that the servers' user can read: `folder`, or a copy. `version` identifies the
/// files.
pub(crate) fn readable_by_servers(folder: &Path, name: &str, version: u64) -> PathBuf {
    let listed = command(Path::new("ls")).arg(folder).output().expect("ls");
    if listed.status.success() {
        return folder.to_owned();
    }
    let copy = folder::server_folder("cache").join(format!("{name}-{version:016x}"));
    let _lock = folder::lock_exclusively(&format!("copy-{name}"));
    if !copy.exists() {
        let partial = copy.with_extension("partial");
        run(Command::new("rm").arg("-rf").arg(&partial));
        run(Command::new("cp").arg("-r").arg(folder).arg(&partial));
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&partial));
        run(Command::new("mv").arg(&partial).arg(&copy));
    }
    copy
}
