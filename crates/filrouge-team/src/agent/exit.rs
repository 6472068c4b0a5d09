//! How an agent ended, and the errors of agents.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use crate::message::Cut;
use crate::record::AgentError;
use crate::team::Command;

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentExit {
    /// The reason why its answer is incomplete. `None` if it succeeded or was stopped by
    /// [`Agent::kill`](super::Agent::kill).
    pub error: Option<AgentError>,
    /// How many malformed pieces of its output were replaced by U+FFFD.
    pub replaced: u64,
    /// The last text that it wrote to stderr, without terminal controls.
    pub stderr: Box<str>,
}

/// The reason why an agent failed: an error code and a description.
pub(super) type FailureReason = (&'static str, String);

impl AgentExit {
    pub(super) fn new(failure: Option<FailureReason>, stderr: &str, replaced: u64) -> Self {
        let stderr = stderr.trim();
        Self {
            error: failure.map(|(code, detail)| agent_error(code, &detail, stderr)),
            replaced,
            stderr: stderr.into(),
        }
    }
}

/// Returns the failure of an agent whose process exited before it was stopped; `None` if it succeeded.
pub(super) fn exit_failure(status: io::Result<ExitStatus>) -> Option<FailureReason> {
    let status = match status {
        Ok(status) if status.success() => return None,
        Ok(status) => status,
        Err(error) => return Some(("agent_exit", format!("its exit status is unknown: {error}"))),
    };
    Some(match (status.code(), status.signal()) {
        (Some(code), _) => ("agent_exit", format!("it ended with exit code {code}")),
        (None, Some(signal)) => ("agent_signal", format!("signal {signal} ended it")),
        (None, None) => ("agent_exit", format!("it ended with {status}")),
    })
}

/// The error of an agent, with the end of stderr in its detail.
fn agent_error(code: &'static str, description: &str, stderr: &str) -> AgentError {
    let detail = match stderr {
        "" => description.to_owned(),
        stderr => format!("{description}; stderr: {stderr}"),
    };
    AgentError {
        code,
        detail: detail.into(),
        cut: Cut::Failed,
    }
}

/// The error if the leader of the agent's process group does not start.
pub(super) fn group_start_error(error: io::Error) -> AgentError {
    let reason = format!(
        "/bin/sh, which kills an agent's processes when filrouge ends, does not run: {error}"
    );
    agent_error("agent_not_started", &reason, "")
}

/// The error for a program that does not start, with advice.
pub(super) fn program_start_error(command: &Command, error: &io::Error) -> AgentError {
    let program = &*command.program;
    let folder = command
        .folder
        .as_deref()
        .filter(|folder| !Path::new(folder).is_dir());
    let program_exists = program.contains('/') && Path::new(program).exists();
    let reason = match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            "the prompt is too long for an argument: without {prompt} in args it goes to stdin"
                .to_owned()
        }
        io::ErrorKind::NotFound if folder.is_some() => {
            format!("its folder {:?} does not exist", folder.unwrap_or_default())
        }
        io::ErrorKind::NotFound if program_exists => {
            format!("{program:?} names an interpreter that does not exist")
        }
        io::ErrorKind::NotFound if program.contains(char::is_whitespace) => {
            format!(
                "{program:?} does not exist: command is the program alone, arguments go into args"
            )
        }
        io::ErrorKind::NotFound => {
            format!("{program:?} does not exist: install it, or write its path into command")
        }
        io::ErrorKind::PermissionDenied => format!("{program:?} may not be run: {error}"),
        _ => format!("{program:?} does not start: {error}"),
    };
    agent_error("agent_not_started", &reason, "")
}
