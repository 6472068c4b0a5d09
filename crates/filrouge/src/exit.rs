//! Exit codes, and how failures are printed.
//!
//! The exit codes: 0 done; 1 failed, or `verify` or `doctor` found something wrong; 2 wrong usage, or `verify` cannot
//! determine whether data is unchanged.

use std::fmt::Display;
use std::io::{self, Write};
use std::str::FromStr;

use filrouge_types::{ErrorCode, Failure, controls_terminal};

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The command is done.
    pub const SUCCESS: Self = Self(0);
    /// The command failed.
    pub const FAILURE: Self = Self(1);

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        Self(number)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.0)
    }
}

/// The result of reading arguments or settings.
pub(crate) type Result<T, E = Usage> = std::result::Result<T, E>;

/// The error for a command that was called or configured wrongly.
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

/// Parses `text`.
///
/// # Errors
/// [`Usage`] when `text` is malformed.
pub(crate) fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|e: T::Err| Usage::new(e.to_string()))
}

/// Parses the value of an option, if there is one.
///
/// # Errors
/// [`Usage`] naming the option.
pub(crate) fn parse_option<T: FromStr<Err: Display>>(
    option: &str,
    text: Option<&str>,
) -> Result<Option<T>> {
    let parse = |text: &str| text.parse();
    let to_usage = |e: T::Err| Usage::new(format!("{option}: {e}"));
    text.map(parse).transpose().map_err(to_usage)
}

/// The exit code: 0 for success, else 1.
pub(crate) fn code(is_success: bool) -> ExitCode {
    match is_success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The error when the object that the command names, such as a key, does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.detail)]
pub(crate) struct NotFound(Failure);

impl NotFound {
    /// Converts the failure of a call for which [`ErrorCode::Invalid`] can only mean that the named object does
    /// not exist.
    pub(crate) fn if_invalid(failure: Failure) -> anyhow::Error {
        if failure.code == ErrorCode::Invalid {
            Self(failure).into()
        } else {
            failure.into()
        }
    }
}

/// The text of an error with its causes, and the hint. A cause that the text already quotes is not repeated.
pub(crate) fn detail_and_hint(error: &anyhow::Error) -> (String, Option<String>) {
    let not_found = error
        .downcast_ref::<NotFound>()
        .map(|not_found| &not_found.0);
    if let Some(failure) = error.downcast_ref::<Failure>().or(not_found) {
        return (failure.detail.clone(), failure.hint.clone());
    }
    let hint = error
        .downcast_ref::<Usage>()
        .and_then(|usage| usage.hint.clone());
    let mut detail = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !detail.ends_with(&cause) {
            detail = format!("{detail}: {cause}");
        }
    }
    (detail, hint)
}

/// The error code of a command's failure.
pub(crate) fn code_of(error: &anyhow::Error) -> &'static str {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        failure.code.as_str()
    } else if error.is::<Usage>() {
        "usage"
    } else if error.is::<NotFound>() {
        "not_found"
    } else {
        "failed"
    }
}

/// Prints a failure on stderr, with its hint on a separate line, and returns the exit code. If the reader of stdout
/// closed the pipe, that is no failure: prints nothing and returns 0.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let (detail, hint) = detail_and_hint(error);
    let code = code_of(error);
    let text = if json {
        serde_json::json!({ "code": code, "detail": detail, "hint": hint }).to_string()
    } else {
        let hint = hint.map_or_else(String::new, |h| format!("\nhint: {h}"));
        format!("error[{code}]: {detail}{hint}")
    };
    // An error may name recorded ids. A failed write to stderr cannot be reported.
    let shown = text.replace(controls_terminal, "\u{fffd}");
    let _ = writeln!(io::stderr().lock(), "{shown}");
    let is_wrong_usage = ["usage", ErrorCode::Invalid.as_str()].contains(&code);
    ExitCode::from(if is_wrong_usage { 2 } else { 1 })
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
