//! The process group of an agent. Its leader is a small shell, which kills the group, itself included, as soon as this
//! process has ended.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdin, Command};

/// The leader's script. It ignores other signals, prints an empty line to report that it runs, and waits for the end of
/// its stdin, which means that this process has ended. Then it kills the group.
const LEADER: &str = "trap '' TERM INT HUP QUIT TSTP TTIN TTOU; echo; read -r line; kill -s KILL 0";

/// A process group with its leader. The group's id is the leader's process id, which the system does not reuse until
/// the leader is reaped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    /// The leader's stdin, which is closed when this process ends.
    _stdin: Option<ChildStdin>,
    pid: Pid,
    /// Whether the group was killed and must not be signaled again.
    killed: bool,
}

impl Group {
    /// Starts the leader, and waits until it runs.
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
        let mut group = Self {
            _stdin: leader.stdin.take(),
            pid: pid.ok_or_else(|| io::Error::other("/bin/sh has no process id"))?,
            killed: false,
            leader,
        };
        if let Some(mut stdout) = group.leader.stdout.take() {
            stdout.read_u8().await?;
        }
        Ok(group)
    }

    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Asks all processes to end with SIGTERM, which the leader ignores. SIGCONT wakes stopped processes so that they
    /// receive it.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Kills all processes, including the leader.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills all remaining processes, and reaps the leader.
    pub(super) async fn end(&mut self) {
        self.kill();
        self.killed = true;
        if let Err(error) = self.leader.wait().await {
            tracing::warn!(%error, "waiting for the leader of an agent's process group failed");
        }
    }

    /// Sends a signal to the group. A failure is only logged. The group always contains its leader, so a failure means
    /// that this process may not signal a member; nothing more can be done then.
    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.pid, signal) {
            tracing::warn!(%error, "an agent's processes were not signaled");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.killed {
            self.kill();
        }
    }
}
