//! Why a question has no answer.

use filrouge_types::Failure;

use crate::ReadError;

/// Why a question has no answer; each with a hint for who asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LibraryError {
    /// No source has a session of this id.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// What was asked makes no sense; the text says what and where.
    #[error("{0}")]
    Invalid(String),
    /// The session is there and cannot be read.
    #[error("session {0:?} cannot be read: {1}")]
    Unreadable(String, ReadError),
    /// What is asked does not answer.
    #[error("{0}")]
    Unavailable(Failure),
    /// Nobody waits for the answer any more.
    #[error("the question was given up")]
    GivenUp,
}

impl LibraryError {
    /// The stable word of its kind: `session_not_found`, `invalid_argument`, `session_unreadable`, `cancelled`; of what does
    /// not answer its own.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSession(_) => "session_not_found",
            Self::Invalid(_) => "invalid_argument",
            Self::Unreadable(..) => "session_unreadable",
            Self::Unavailable(why) => why.code.as_str(),
            Self::GivenUp => "cancelled",
        }
    }

    /// What the caller can do.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoSession(_) => "list_sessions names the sessions there are",
            Self::Invalid(_) => "see the description of the parameter",
            Self::Unreadable(..) => "the file named may be torn or still being written; try again",
            Self::Unavailable(_) | Self::GivenUp => "ask again",
        }
    }
}
