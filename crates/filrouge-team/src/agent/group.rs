//! The process group of an agent, and its leader, which outlives this process only for as long as it takes to kill the rest.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdin, Command};

/// The leader reports with an empty line that it runs, then waits for the end of its stdin, which means that this process has
/// ended.
const LEADER: &str = "trap '' TERM INT HUP QUIT TSTP TTIN TTOU; echo; read -r line; kill -s KILL 0";

/// Until the leader is reaped, its process id, which is the group's id, is not reused.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    _alive: Option<ChildStdin>,
    pid: Pid,
    ended: bool,
}

impl Group {
    pub(super) async fn new() -> io::Result<Self> {
        let mut leader = Command::new("/bin/sh")
            .args(["-c", LEADER])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let raw = leader.id().and_then(|id| i32::try_from(id).ok());
        let pid = raw.and_then(Pid::from_raw);
        let group = Self {
            _alive: leader.stdin.take(),
            pid: pid.ok_or_else(|| io::Error::other("/bin/sh has no process id"))?,
            ended: false,
            leader,
        };
        group.ready().await
    }

    async fn ready(mut self) -> io::Result<Self> {
        if let Some(mut stdout) = self.leader.stdout.take() {
            stdout.read_u8().await?;
        }
        Ok(self)
    }

    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Asks all processes but the leader to end; SIGCONT wakes stopped ones so that they receive the signal.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills every remaining process.
    pub(super) async fn end(&mut self) {
        self.kill();
        self.ended = true;
        if let Err(error) = self.leader.wait().await {
            tracing::warn!(%error, "waiting for the leader of an agent's process group failed");
        }
    }

    /// A failure is only logged: the group always has its leader, and a process that may not be signaled is out of reach.
    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.pid, signal) {
            tracing::warn!(%error, "an agent's processes were not signaled");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
        }
    }
}
