//! A running agent: a subprocess that receives a prompt and whose output is its answer (DESIGN §11).
//!
//! The prompt goes to stdin, or replaces `{prompt}` in the arguments. The agent and every process that it starts form
//! one process group. The group's leader is a small shell that waits for this process: when this process ends in any
//! way (`kill -9` included), the shell kills the group. (A parent-death signal would need `unsafe`, exists only on
//! Linux, and does not reach grandchildren.) Only a process that leaves the group on purpose, as daemons do, survives.

mod exit;
mod group;
mod stderr;
mod text;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::record::AgentError;
use crate::team::{Command, PROMPT_PLACEHOLDER};
pub use exit::AgentExit;
use group::Group;
use stderr::StderrTail;
use text::Decoder;

/// The settings for stopping agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentSettings {
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The maximum time to continue reading after an agent has ended, while a process that it started keeps its output
    /// open.
    pub linger: Duration,
    /// The maximum number of bytes that are kept of the end of stderr.
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

/// The time limit of an agent whose timeout is too large to compute a deadline: ten years.
const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Size of the read buffer, in bytes.
const READ_BYTES: usize = 16 << 10;

/// A running agent. Dropping it kills it and every process that it started.
#[derive(Debug)]
pub struct Agent {
    group: Group,
    child: Child,
    stdout: Option<ChildStdout>,
    /// The buffer into which output is read.
    buffer: Box<[u8]>,
    decoder: Decoder,
    /// The exit status of the process; `None` while it runs.
    status: Option<io::Result<ExitStatus>>,
    timed_out: bool,
    timeout: Duration,
    /// The time at which the agent times out; once its process has ended, the time at which reading stops.
    deadline: Instant,
    settings: AgentSettings,
    /// The task that writes the prompt to stdin; empty if the prompt is in an argument.
    _prompt: JoinSet<()>,
    stderr: StderrTail,
}

impl Agent {
    /// Starts an agent. The prompt is written while the answer is read, so it can have any size.
    ///
    /// # Errors
    /// `agent_not_started`: the program or its folder does not exist, the program may not be run, the prompt is too
    /// long for an argument, or `/bin/sh`, which leads the process group, does not start.
    pub async fn start(
        command: &Command,
        prompt: String,
        settings: AgentSettings,
    ) -> Result<Self, AgentError> {
        let mut group = Group::new().await.map_err(exit::group_start_error)?;
        let mut process = tokio::process::Command::new(&*command.program);
        for argument in &command.arguments {
            if argument.contains(PROMPT_PLACEHOLDER) {
                process
                    .arg(argument.replace(PROMPT_PLACEHOLDER, &prompt.replace('\0', "\u{fffd}")));
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
            .stdin(match command.has_prompt_argument() {
                true => Stdio::null(),
                false => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match process.spawn() {
            Ok(child) => child,
            Err(error) => {
                group.end().await;
                return Err(exit::program_start_error(command, &error));
            }
        };
        let now = Instant::now();
        let stdin = child.stdin.take();
        Ok(Self {
            group,
            stdout: child.stdout.take(),
            stderr: StderrTail::start(child.stderr.take(), settings.stderr_bytes),
            _prompt: JoinSet::from_iter(stdin.map(|stdin| write(stdin, prompt))),
            child,
            buffer: vec![0; READ_BYTES].into(),
            decoder: Decoder::default(),
            status: None,
            timed_out: false,
            timeout: command.timeout,
            deadline: now.checked_add(command.timeout).unwrap_or(now + NO_TIMEOUT),
            settings,
        })
    }

    /// The process id; `None` once the process has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The next piece of the agent's output: UTF-8 without terminal controls. `None` once the output has ended or the
    /// agent has timed out. Cancel-safe: dropping this future loses nothing.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if self.timed_out || self.stdout.is_none() && self.status.is_some() {
                let remaining = self.decoder.finish();
                return (!remaining.is_empty()).then_some(remaining);
            }
            let deadline = self.deadline;
            tokio::select! {
                count = read(self.stdout.as_mut(), &mut self.buffer), if self.stdout.is_some() => {
                    let bytes = self.buffer.get(..count).unwrap_or_default();
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
                () = sleep_until(deadline) => {
                    self.timed_out = self.status.is_none();
                    self.stdout = None;
                }
            }
        }
    }

    /// Stops any remaining processes and returns the exit of the agent. Call it after [`next`](Self::next) returned
    /// `None`.
    pub async fn end(mut self) -> AgentExit {
        let failure = match self.status.take() {
            Some(status) => exit::exit_failure(status),
            None => {
                self.terminate().await;
                let reason = || format!("it did not end within {} s", self.timeout.as_secs());
                self.timed_out.then(|| ("agent_timeout", reason()))
            }
        };
        self.group.end().await;
        AgentExit::new(failure, &self.stderr.text().await, self.decoder.replaced)
    }

    /// Stops the agent now, with every process that it started: SIGTERM first, SIGKILL after
    /// [`grace`](AgentSettings::grace). The result states no error.
    pub async fn kill(mut self) -> AgentExit {
        self.stdout = None;
        self.timed_out = false;
        self.status = None;
        self.end().await
    }

    /// Asks the group to end, and kills it after the grace period.
    async fn terminate(&mut self) {
        self.group.terminate();
        let ended = timeout(self.settings.grace, self.child.wait()).await;
        if ended.is_err() {
            self.group.kill();
            let _ = self.child.wait().await;
        }
    }
}

/// Reads output into `buffer`; returns the number of bytes. Returns 0 at the end of the output, and if the pipe cannot
/// be read, which counts as the end. Without a pipe it never returns.
async fn read(stdout: Option<&mut ChildStdout>, buffer: &mut [u8]) -> usize {
    match stdout {
        Some(stdout) => stdout.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Writes the prompt to the agent's stdin, and closes it. An agent may answer or end before it has read its entire
/// prompt, so a closed pipe is no error. Any other failure is logged, and the agent answers with what it has received.
async fn write(mut stdin: ChildStdin, prompt: String) {
    if let Err(error) = stdin.write_all(prompt.as_bytes()).await
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::warn!(%error, "an agent's prompt was not written completely");
    }
}
