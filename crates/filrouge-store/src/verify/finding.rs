//! What a verification finds.

use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

/// One thing that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// The session, when it is about one.
    pub session_id: Option<String>,
    /// The first seq concerned.
    pub seq: Option<u64>,
    /// The error code.
    pub code: &'static str,
    /// What is wrong.
    pub what: String,
}

impl Finding {
    pub(super) fn of(code: ErrorCode, session_id: Option<String>, what: String) -> Self {
        Self {
            session_id,
            seq: None,
            code: code.as_str(),
            what,
        }
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self {
            session_id: failure.place.as_ref().map(|p| p.session_id.clone()),
            seq: failure.place.as_ref().and_then(|p| p.seq),
            code: failure.code.as_str(),
            what: failure.detail,
        }
    }
}
