//! An agent at work: a subprocess that is given a prompt and whose output is its answer (DESIGN §11).
//!
//! The prompt goes to stdin, or to where `{prompt}` stands in the arguments. Agent and all that it starts are one process
//! group, whose leader is a small shell that waits for this process: when this process ends, however it ends (`kill -9`
//! included), the shell kills the group. (A parent-death signal would need `unsafe`, is of Linux alone, and reaches no
//! grandchild.) Only a process that leaves the group on purpose, as daemons do, lives on.

mod exit;
mod group;
mod stderr;
mod text;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::record::AgentError;
use crate::team::{Command, PROMPT};
pub use exit::Ended;
use group::Group;
use stderr::Tail;
use text::Decoder;

/// How agents are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentSettings {
    /// From the friendly signal to the one that kills.
    pub grace: Duration,
    /// When an agent has ended and something that it started holds its output open, so long is waited for more.
    pub linger: Duration,
    /// So much of the end of stderr is kept.
    pub stderr_bytes: usize,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(2),
            linger: Duration::from_secs(2),
            stderr_bytes: 4 << 10,
        }
    }
}

/// Further off than any timeout.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// So much is read at once.
const READ_BYTES: usize = 16 << 10;

/// A running agent. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub struct Agent {
    group: Group,
    child: Child,
    stdout: Option<ChildStdout>,
    read: Box<[u8]>,
    decoder: Decoder,
    status: Option<io::Result<ExitStatus>>,
    timed_out: bool,
    told: Duration,
    deadline: Instant,
    settings: AgentSettings,
    prompt: Option<JoinHandle<()>>,
    stderr: Tail,
}

impl Agent {
    /// Starts an agent. Whatever the prompt's size, it is written while the answer is read.
    ///
    /// # Errors
    /// `agent_not_started`: the program or its folder is not there, may not be run, or the prompt is too long for an argument.
    pub async fn start(
        command: &Command,
        prompt: String,
        settings: AgentSettings,
    ) -> Result<Self, AgentError> {
        let mut group = Group::new().await.map_err(|error| exit::no_group(&error))?;
        let mut process = tokio::process::Command::new(&*command.program);
        let in_argument = command.takes_argument();
        for argument in &command.arguments {
            if argument.contains(PROMPT) {
                process.arg(argument.replace(PROMPT, &prompt.replace('\0', "\u{fffd}")));
            } else {
                process.arg(&**argument);
            }
        }
        for (name, value) in &command.environment {
            process.env(&**name, &**value);
        }
        if let Some(folder) = &command.folder {
            process.current_dir(&**folder);
        }
        process
            .process_group(group.id())
            .stdin(if in_argument {
                Stdio::null()
            } else {
                Stdio::piped()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match process.spawn() {
            Ok(child) => child,
            Err(error) => {
                group.end().await;
                return Err(exit::not_started(command, &error));
            }
        };
        let now = Instant::now();
        let stdin = child.stdin.take();
        Ok(Self {
            group,
            stdout: child.stdout.take(),
            stderr: Tail::of(child.stderr.take(), settings.stderr_bytes),
            prompt: stdin.map(|stdin| tokio::spawn(write(stdin, prompt))),
            child,
            read: vec![0; READ_BYTES].into(),
            decoder: Decoder::default(),
            status: None,
            timed_out: false,
            told: command.timeout,
            deadline: now.checked_add(command.timeout).unwrap_or(now + NEVER),
            settings,
        })
    }

    /// The process; `None` when it has ended.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it says next: UTF-8 without terminal controls. `None`: it has ended, or its time is up. Dropping this future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if self.timed_out || self.stdout.is_none() && self.status.is_some() {
                let rest = self.decoder.finish();
                return (!rest.is_empty()).then_some(rest);
            }
            let until = self.deadline;
            tokio::select! {
                read = read(self.stdout.as_mut(), &mut self.read), if self.stdout.is_some() => {
                    let bytes = self.read.get(..read).unwrap_or_default();
                    if bytes.is_empty() {
                        self.stdout = None;
                    }
                    let text = self.decoder.push(bytes);
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                status = self.child.wait(), if self.status.is_none() => {
                    self.status = Some(status);
                    self.deadline = Instant::now() + self.settings.linger;
                }
                () = sleep_until(until) => {
                    self.timed_out = self.status.is_none();
                    self.stdout = None;
                }
            }
        }
    }

    /// Ends what is left of it, and says how it has ended. To be called when [`next`](Self::next) gave `None`.
    pub async fn end(mut self) -> Ended {
        let why = match self.status.take() {
            Some(status) => exit::exited(status),
            None => {
                self.terminate().await;
                self.timed_out.then(|| exit::timed_out(self.told))
            }
        };
        self.group.end().await;
        Ended::of(why, &self.stderr.take().await, self.decoder.replaced())
    }

    /// Ends it now, with all that it started: asked first, killed after [`grace`](AgentSettings::grace).
    pub async fn kill(mut self) -> Ended {
        self.stdout = None;
        self.timed_out = false;
        self.status = None;
        self.end().await
    }

    async fn terminate(&mut self) {
        self.group.terminate();
        // Past the grace it is killed, which is waited for.
        if timeout(self.settings.grace, self.child.wait())
            .await
            .is_err()
        {
            self.group.kill();
            let _ = self.child.wait().await;
        }
    }
}

/// What came; 0 at the end, and when the pipe cannot be read, which ends it as well.
async fn read(stdout: Option<&mut ChildStdout>, buffer: &mut [u8]) -> usize {
    match stdout {
        Some(stdout) => stdout.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// An agent may know enough, or end, before it has read its whole prompt: a closed pipe is no error, and what else happens to
/// the pipe shows in what the agent makes of it.
async fn write(mut stdin: ChildStdin, prompt: String) {
    if let Err(error) = stdin.write_all(prompt.as_bytes()).await
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::warn!(%error, "an agent's prompt was not written as a whole");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(prompt) = &self.prompt {
            prompt.abort();
        }
    }
}
