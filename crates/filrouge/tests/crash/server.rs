//! Runs the built server in a hermetic home.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::disk::Faults;
use crate::image::Image;

/// The longest time that a start may take on any machine.
const START_LIMIT: Duration = Duration::from_secs(30);
const SIGKILL: i32 = 9;

/// A hermetic home folder. Store, keys and anchor are below [`Home::root`]; a test's own files are next to it.
pub(crate) struct Home {
    dir: TempDir,
    /// The store's URL; `None` if the store is a file in the home.
    store: Option<String>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self {
            dir: TempDir::with_prefix("filrouge-crash-").expect("a temporary directory"),
            store: None,
        };
        home.create_directories();
        home
    }

    /// Creates a home whose store is at `url`.
    pub(crate) fn with_store(url: &str) -> Self {
        let mut home = Self::new();
        home.store = Some(url.to_owned());
        home
    }

    /// Creates a copy of another home, as after a reboot.
    pub(crate) fn copy_of(other: &Self) -> Self {
        let home = Self::new();
        copy_tree(&other.root(), &home.root());
        home
    }

    /// Replaces the content of the root by a disk image.
    pub(crate) fn replace_by_image(&self, image: &Image) {
        let files = self.test_file("image");
        image.write(&self.root(), &files);
        fs::remove_dir_all(self.root()).expect("clear the home");
        fs::rename(files, self.root()).expect("put the image in its place");
        self.create_directories();
    }

    /// Returns the directory that represents the disk.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir
            .path()
            .canonicalize()
            .expect("the temporary directory")
            .join("home")
    }

    /// Returns the path of a file of the test itself, which a power cut does not affect.
    pub(crate) fn test_file(&self, name: &str) -> PathBuf {
        self.dir
            .path()
            .canonicalize()
            .expect("the temporary directory")
            .join(name)
    }

    /// Runs a full `filrouge verify`, which must find the store intact.
    pub(crate) fn verify(&self) {
        let output = self
            .command(&["verify", "--json"])
            .output()
            .expect("run filrouge verify");
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success(),
            "filrouge verify: {}\n{out}\n{err}",
            output.status
        );
        let report: Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("verify --json: {e}\n{out}"));
        assert_eq!(report["status"], "intact", "{report}");
    }

    fn create_directories(&self) {
        for part in ["data/filrouge", "config", "state"] {
            fs::create_dir_all(self.root().join(part)).expect("create the home's directories");
        }
    }

    /// Returns a command that runs `filrouge` with `arguments`, on this home's store and in an isolated environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        if let Some(url) = &self.store {
            return self.command_for_store(url, arguments);
        }
        let store = self.root().join("data/filrouge/filrouge.db");
        self.command_for_store(&format!("sqlite:{}", store.display()), arguments)
    }

    /// Like [`Self::command`], with the store at `url`.
    pub(crate) fn command_for_store(&self, url: &str, arguments: &[&str]) -> Command {
        let root = self.root();
        let mut command = Command::new(env!("CARGO_BIN_EXE_filrouge"));
        for (name, _) in
            std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("FILROUGE_"))
        {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .arg("--store")
            .arg(url)
            .env("HOME", &root)
            .env("XDG_DATA_HOME", root.join("data"))
            .env("XDG_CONFIG_HOME", root.join("config"))
            .env("XDG_STATE_HOME", root.join("state"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("files of the failed test: {}", self.dir.path().display());
        }
    }
}

/// Copies files and directories, without SQLite's shared memory.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create a directory");
    fs::set_permissions(to, fs::metadata(from).expect("a directory").permissions())
        .expect("set permissions");
    for entry in fs::read_dir(from).expect("read a directory") {
        let entry = entry.expect("a directory entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a file type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), target).expect("copy a file");
        }
    }
}

/// A running server. Dropping it kills it.
pub(crate) struct CrashServer {
    child: Child,
    origin: String,
    /// How long the start took.
    ready_after: Duration,
}

/// The failure of a server that exited before it was ready.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

impl NotStarted {
    /// Returns whether a SIGKILL ended the server.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(SIGKILL)
    }
}

impl CrashServer {
    /// Starts a server on a disk without faults, which must succeed.
    pub(crate) fn start(home: &Home) -> Self {
        Self::start_with_faults(home, &Faults::default())
            .unwrap_or_else(|e| panic!("the server does not start: {}\n{}", e.status, e.stderr))
    }

    /// Starts a server on a disk with `faults` and with these environment variables, which must succeed.
    pub(crate) fn start_with_env(home: &Home, faults: &Faults, variables: &[(&str, &str)]) -> Self {
        Self::start_and_wait(home, |command| {
            command.envs(faults.environment(&home.root()));
            command.envs(variables.iter().copied());
        })
        .unwrap_or_else(|e| panic!("the server does not start: {}\n{}", e.status, e.stderr))
    }

    /// Starts a server on a disk with `faults`, and waits until it is ready or has ended.
    pub(crate) fn start_with_faults(home: &Home, faults: &Faults) -> Result<Self, NotStarted> {
        Self::start_and_wait(home, |command| {
            command.envs(faults.environment(&home.root()));
        })
    }

    fn start_and_wait(
        home: &Home,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self, NotStarted> {
        let begin = Instant::now();
        let mut child = spawn(home, configure);
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            if let Some(Ok(line)) = lines.next() {
                sender.send(line).ok();
            }
            lines.for_each(drop); // so that the server can always write to the pipe
        });
        match receiver.recv_timeout(START_LIMIT) {
            Ok(line) => {
                let origin = line
                    .strip_prefix("listening on ")
                    .unwrap_or_else(|| panic!("unexpected first line of stdout: {line:?}"));
                Ok(Self {
                    origin: origin.trim_end_matches('/').to_owned(),
                    child,
                    ready_after: begin.elapsed(),
                })
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait().expect("wait for the server");
                Err(NotStarted {
                    status,
                    stderr: fs::read_to_string(home.test_file("stderr")).unwrap_or_default(),
                })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill().ok();
                panic!("the server is not ready after {START_LIMIT:?}");
            }
        }
    }

    /// Starts a server and kills it after `life`, whether or not it is ready.
    pub(crate) fn start_and_kill(home: &Home, faults: &Faults, life: Duration) {
        let mut child = spawn(home, |command| {
            command.envs(faults.environment(&home.root()));
        });
        std::thread::sleep(life);
        child.kill().expect("kill the server");
        child.wait().expect("wait for the server");
    }

    /// `http://HOST:PORT`.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns how long the start took.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Kills the server (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill the server");
        self.child.wait().expect("wait for the server");
    }

    /// Sends the signal of this name, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.child.id()))
            .status();
        assert!(sent.is_ok_and(|s| s.success()), "SIG{name} cannot be sent");
    }

    /// Whether the server has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("ask for the server's status");
        status.is_some()
    }

    /// Whether the server is frozen (SIGSTOP).
    pub(crate) fn is_frozen(&self) -> bool {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(path).unwrap_or_default();
        // The line is `PID (NAME) STATE …`, and the name may contain any characters.
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    /// Stops the server (SIGTERM), which must exit successfully.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let status = self.child.wait().expect("wait for the server");
        assert!(
            status.success(),
            "after SIGTERM the server ended with {status}"
        );
    }
}

impl Drop for CrashServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn spawn(home: &Home, configure: impl FnOnce(&mut Command)) -> Child {
    let stderr = fs::File::create(home.test_file("stderr")).expect("a file for stderr");
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    configure(&mut command);
    command.stdout(Stdio::piped()).stderr(stderr);
    command.spawn().expect("start the server")
}
