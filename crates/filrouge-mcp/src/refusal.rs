//! Why a tool has no answer: a code, what is wrong, and what to do, for the model that called it to mend.

use std::io::ErrorKind;

use filrouge_sources::{LibraryError, library::export::ExportError};
use serde::Serialize;

/// What a tool says instead of an answer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Refusal {
    /// A stable word.
    pub(crate) code: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
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

    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new("invalid_argument", message, hint)
    }

    /// As the model reads it: one JSON object.
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
                LibraryError::GivenUp.into()
            }
            ExportError::Io(error) => {
                Self::new("internal", error.to_string(), "the fault is not yours")
            }
        }
    }
}
