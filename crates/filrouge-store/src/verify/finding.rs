//! The findings of a verification.

use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

/// One integrity error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Finding {
    /// The session, if the finding concerns one.
    pub session_id: Option<String>,
    /// The first affected seq.
    pub seq: Option<u64>,
    /// The error code.
    pub code: &'static str,
    /// The description of the error.
    pub what: String,
}

impl Finding {
    pub(super) fn new(code: ErrorCode, session_id: Option<String>, detail: String) -> Self {
        Self {
            session_id,
            seq: None,
            code: code.as_str(),
            what: detail,
        }
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self {
            session_id: failure.location.as_ref().map(|p| p.session_id.clone()),
            seq: failure.location.as_ref().and_then(|p| p.seq),
            code: failure.code.as_str(),
            what: failure.detail,
        }
    }
}
