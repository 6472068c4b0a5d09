//! One Redis process, with its folder and its port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::resp;
use crate::binaries::{command, redis};
use crate::folder;
use crate::postgres_server::free_port;

#[derive(Debug)]
pub(super) struct Node {
    path: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    child: Mutex<Option<Child>>,
}

impl Node {
    /// A node that does not run yet, with its data in `path`.
    pub(super) fn new(path: &Path, settings: &[(&str, &str)]) -> Self {
        folder::create_for_servers(path);
        Self {
            path: path.to_owned(),
            port: free_node_port(),
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            child: Mutex::new(None),
        }
    }

    /// Starts the process, which may not answer yet.
    pub(super) fn spawn(&self) {
        let mut server = command(redis());
        // The watchdog identifies the process by its working folder.
        server
            .current_dir(&self.path)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(&self.path)
            .arg("--unixsocket")
            .arg(self.socket())
            .args(["--unixsocketperm", "777", "--daemonize", "no"])
            .arg("--logfile")
            .arg(self.path.join("log"))
            .args(["--save", "", "--appendonly", "no"])
            .args(["--appendfsync", "no", "--repl-diskless-sync-delay", "0"]);
        for (name, value) in &self.settings {
            server.arg(format!("--{name}"));
            server.args(value.split(' '));
        }
        let child = server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server");
        *self.child.lock().expect("a child") = Some(child);
    }

    /// Waits until the node answers; returns `false` if its process exited instead.
    pub(super) fn wait_until_ready(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            {
                let mut child = self.child.lock().expect("a child");
                let status = child.as_mut().map(Child::try_wait);
                if !matches!(status, Some(Ok(None))) {
                    *child = None;
                    return false;
                }
            }
            // An error counts as an answer, except while Redis loads the dump.
            match resp::run_command(&self.socket(), &["PING"]) {
                Ok(Err(error)) if error.starts_with("LOADING") => {}
                Ok(_) => return true,
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("Redis does not answer within 30 s:\n{}", self.log());
    }

    pub(super) fn spawn_and_wait(&self) -> bool {
        self.spawn();
        self.wait_until_ready()
    }

    pub(super) fn try_cli(&self, command: &[&str]) -> Result<String, String> {
        resp::run_command(&self.socket(), command)
            .unwrap_or_else(|e| panic!("{command:?}: {e}\n{}", self.log()))
    }

    pub(super) fn cli(&self, command: &[&str]) -> String {
        self.try_cli(command)
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    pub(super) fn kill(&self) {
        let child = self.child.lock().expect("a child").take();
        if let Some(mut child) = child {
            child.kill().expect("a child process");
            child.wait().expect("a child process");
        }
    }

    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("a running server");
        kill_process(pid, signal).expect("a child process");
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.lock().expect("a child").as_ref().map(Child::id)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }

    pub(super) fn tcp(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.path.join("log")).unwrap_or_else(|e| format!("no log: {e}"))
    }
}

/// An upper bound for the port of a node: its bus port is 10,000 above, and must stay below the ports that the system
/// assigns to outgoing connections (32,768 and above).
const MAX_PORT: u16 = 22_700;

/// Returns a free port for a node.
fn free_node_port() -> u16 {
    std::iter::repeat_with(free_port)
        .find(|&port| port < MAX_PORT)
        .expect("a free port")
}

impl Drop for Node {
    fn drop(&mut self) {
        // If this fails, the folder's watchdog ends the process.
        let child = self.child.get_mut().ok().and_then(Option::take);
        if let Some(mut child) = child {
            let killed = child.kill().and_then(|()| child.wait());
            drop(killed);
        }
    }
}
