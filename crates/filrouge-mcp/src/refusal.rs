//! The error of a tool, which the calling model reads: a code, the cause, and how to correct the call.

use std::io::ErrorKind;

use filrouge_sources::{LibraryError, library::export::ExportError};
use serde::Serialize;

/// The result of a tool.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// The error of a tool. It is serialized as the tool's result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Refusal {
    /// A stable code.
    pub(crate) code: &'static str,
    /// The cause.
    pub(crate) message: String,
    /// How to correct the call.
    pub(crate) hint: String,
}

impl Refusal {
    pub(crate) fn new(
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// A refusal with the code `invalid_argument`.
    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new("invalid_argument", message, hint)
    }

    /// A refusal with the code `internal`.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self::new("internal", message, "this is a fault of filrouge")
    }

    /// The text for the model: a JSON object of code, message and hint.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|_| self.message.clone())
    }
}

impl From<LibraryError> for Refusal {
    fn from(error: LibraryError) -> Self {
        Self::new(error.code(), error.to_string(), error.hint())
    }
}

impl From<ExportError> for Refusal {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Library(error) => error.into(),
            ExportError::Io(error) if error.kind() == ErrorKind::BrokenPipe => {
                LibraryError::Cancelled.into()
            }
            ExportError::Io(error) => {
                Self::new("internal", error.to_string(), "the fault is not yours")
            }
        }
    }
}
