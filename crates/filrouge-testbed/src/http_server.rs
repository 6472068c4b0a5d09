//! A server with an HTTP interface, which all test processes of this user share, or which one test has for itself.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::binaries::{command, run};
use crate::folder::{self, Folder, GracePeriod};
use crate::postgres_server::free_port;

/// The number of ports tried before a server is considered unable to start.
const PORT_ATTEMPTS: usize = 5;
/// The time within which a server must answer, on a machine that other tests keep busy.
const START_SECONDS: u64 = 180;

/// A command that runs a server with its data in a folder, on the first of its ports.
type StartCommand = dyn Fn(&Path, u16) -> Command + Send + Sync;

/// What is started.
pub(crate) struct Program {
    /// Its name, also that of the folder with its data, by which the watchdog finds its process.
    pub(crate) name: &'static str,
    /// The number of consecutive ports that it uses. The first one is that of HTTP.
    pub(crate) ports: u16,
    /// The path of an HTTP request that succeeds once the server is ready.
    pub(crate) ready: &'static str,
    /// Returns the command that runs the server in the foreground, with its data in a folder, on the first port. Called
    /// again for a restart, with the same folder.
    pub(crate) command: Box<StartCommand>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct HttpServer {
    // Declared before the folder, so that it is dropped first.
    own: Option<OwnProcess>,
    folder: Folder,
    port: u16,
}

/// The process of a server that no other test uses; killed when dropped.
#[derive(Debug)]
struct OwnProcess {
    program: Program,
    child: Mutex<Child>,
}

impl OwnProcess {
    fn kill(&self) {
        let mut child = self.child.lock().expect("a child");
        child.kill().expect("a child process");
        child.wait().expect("a child process");
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        // If this fails, the folder's watchdog ends the process.
        if let Ok(child) = self.child.get_mut() {
            let killed = child.kill().and_then(|()| child.wait());
            drop(killed);
        }
    }
}

impl HttpServer {
    /// Joins the shared server, or starts it. It runs at least as long as this value.
    pub(crate) fn join_or_start(program: &Program) -> Self {
        // The file names the running server; its own lock excludes processes that start another one.
        let current = folder::root().join(format!("current-{}", program.name));
        let _starting = folder::lock_exclusively(&format!("lock-{}", program.name));
        let text = std::fs::read_to_string(&current).unwrap_or_default();
        Self::join_named(&text, program).unwrap_or_else(|| {
            let (folder, port, child) = start(program, GracePeriod::Seconds20);
            folder::wait_on_thread(child);
            let server = Self {
                own: None,
                folder,
                port,
            };
            let line = format!("{} {}\n", server.port, server.folder.path().display());
            folder::write(&current, &line);
            server
        })
    }

    /// Starts a server that no other test uses. It ends when this value is dropped, or when the test process ends in any
    /// way.
    pub(crate) fn private(program: Program) -> Self {
        let (folder, port, child) = start(&program, GracePeriod::None);
        let child = Mutex::new(child);
        Self {
            own: Some(OwnProcess { program, child }),
            folder,
            port,
        }
    }

    /// Joins the server that a line of the file names; `None` if it does not run.
    fn join_named(line: &str, program: &Program) -> Option<Self> {
        let (port, path) = line.trim_end().split_once(' ')?;
        let port = port.parse().ok()?;
        let folder = Folder::join(&PathBuf::from(path), &folder::lock_exclusively("lock"))?;
        is_ready(port, program.ready).then_some(Self {
            own: None,
            folder,
            port,
        })
    }

    fn own(&self) -> &OwnProcess {
        self.own.as_ref().expect("a private server")
    }

    /// Kills a private server (`SIGKILL`).
    pub(crate) fn kill(&self) {
        self.own().kill();
    }

    /// Starts a private server after [`Self::kill`], on the same ports, with the data that it had. It is ready when this
    /// returns.
    pub(crate) fn restart(&self) {
        let own = self.own();
        let data = self.folder.path().join(own.program.name);
        let child = spawn_and_wait(&own.program, &data, self.port);
        let child = child.unwrap_or_else(|| {
            panic!(
                "{} does not restart:\n{}",
                own.program.name,
                read_log(&data)
            )
        });
        *own.child.lock().expect("a child") = child;
    }

    pub(crate) fn tcp(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The folder of the server's data and log.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Starts a server in a new folder, on free ports.
fn start(program: &Program, grace_period: GracePeriod) -> (Folder, u16, Child) {
    let lock = folder::lock_exclusively("lock");
    let folder = Folder::new(grace_period, &lock);
    drop(lock);
    let data = folder.path().join(program.name);
    for _ in 0..PORT_ATTEMPTS {
        // The ports may be taken while the server starts; it then exits.
        let port = free_ports(program.ports);
        run(command(Path::new("rm")).arg("-rf").arg(&data));
        folder::create_for_servers(&data);
        if let Some(child) = spawn_and_wait(program, &data, port) {
            return (folder, port, child);
        }
    }
    panic!(
        "{} does not start in {PORT_ATTEMPTS} attempts:\n{}",
        program.name,
        read_log(&data)
    );
}

/// Starts the process; `None` if it exits before it is ready.
fn spawn_and_wait(program: &Program, data: &Path, port: u16) -> Option<Child> {
    let output = File::options().create(true).append(true).open(log(data));
    let output = output.expect("a log");
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
        read_log(data)
    );
}

/// The file with what a server reports.
fn log(data: &Path) -> PathBuf {
    data.join("log")
}

fn read_log(data: &Path) -> String {
    std::fs::read_to_string(log(data)).unwrap_or_else(|e| format!("no log: {e}"))
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
