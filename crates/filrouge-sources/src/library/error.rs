//! Errors of queries.

use filrouge_types::Failure;

use crate::ReadError;

/// The result of a query.
pub(super) type Result<T, E = LibraryError> = std::result::Result<T, E>;

/// The reason why a query failed; [`Self::hint`] advises the caller.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LibraryError {
    /// No source has a session of this id.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// The query is invalid; the text names the parameter and the problem.
    #[error("{0}")]
    Invalid(String),
    /// The session, given by its id, exists but cannot be read.
    #[error("session {0:?} cannot be read: {1}")]
    Unreadable(String, ReadError),
    /// The ledger or an index does not answer.
    #[error("{0}")]
    Unavailable(Failure),
    /// The caller has disconnected or cancelled.
    #[error("the query was cancelled")]
    Cancelled,
}

impl LibraryError {
    /// The stable code of the error: `session_not_found`, `invalid_argument`, `session_unreadable`, `cancelled`; for
    /// [`Self::Unavailable`], the failure's own code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSession(_) => "session_not_found",
            Self::Invalid(_) => "invalid_argument",
            Self::Unreadable(..) => "session_unreadable",
            Self::Unavailable(why) => why.code.as_str(),
            Self::Cancelled => "cancelled",
        }
    }

    /// Advice for the caller.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoSession(_) => "list_sessions lists the existing sessions",
            Self::Invalid(_) => "see the description of the parameter",
            Self::Unreadable(..) => {
                "the file named may be incomplete because it is still being written; try again"
            }
            Self::Unavailable(_) | Self::Cancelled => "try again",
        }
    }
}
