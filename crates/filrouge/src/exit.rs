//! Exit codes and how failures are told.
//!
//! 0 done · 1 failed, or `verify` found something broken · 2 wrong usage, or `verify` cannot tell.

use std::io::{self, Write};
use std::process::ExitCode;

use filrouge_types::{ErrorCode, Failure};

/// Something is wrong with how the command was called or configured.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Usage {
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
}

impl Usage {
    pub(crate) fn new(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Tells a failure on stderr, with its hint on a line of its own, and gives the exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let failure = error.downcast_ref::<Failure>();
    let usage = error.downcast_ref::<Usage>();
    let hint = failure
        .and_then(|f| f.hint.as_deref())
        .or(usage.and_then(|u| u.hint.as_deref()));
    let detail = failure.map_or_else(|| format!("{error:#}"), |f| f.detail.clone());
    let code = failure.map_or(if usage.is_some() { "usage" } else { "failed" }, |f| {
        f.code.as_str()
    });
    let mut stderr = io::stderr().lock();
    // There is nowhere left to tell of a stderr that is gone.
    let _ = if json {
        writeln!(
            stderr,
            "{}",
            serde_json::json!({ "code": code, "detail": detail, "hint": hint })
        )
    } else {
        let hint = hint.map_or_else(String::new, |h| format!("\nhint: {h}"));
        writeln!(stderr, "error[{code}]: {detail}{hint}")
    };
    let wrong_usage = usage.is_some() || failure.is_some_and(|f| f.code == ErrorCode::Invalid);
    if wrong_usage {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
