//! Parameters in paths and headers, as types for `params(…)` in the annotations.

use filrouge_types::{SessionId, TenantId};
use utoipa::IntoParams;

/// The session of the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "the fields are read by the derive")]
pub(crate) struct SessionPath {
    /// The session; percent-encoded, so that an id may contain `/`.
    session_id: SessionId,
}

/// The tenant of the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "the fields are read by the derive")]
pub(crate) struct TenantPath {
    /// The caller's own tenant; `default` where none is configured.
    #[param(example = "default")]
    tenant_id: TenantId,
}

/// The turn of the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "the fields are read by the derive")]
pub(crate) struct TurnPath {
    /// The session; percent-encoded, so that an id may contain `/`.
    session_id: SessionId,
    /// The turn's id, as the response to its start returned it.
    #[param(value_type = String, format = "uuid")]
    turn_id: String,
}

/// A condition on the state of the session to change.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the fields are read by the derive")]
pub(crate) struct IfMatch {
    /// The `ETag` that the session must still have.
    #[param(rename = "If-Match", value_type = Option<String>, example = "\"5b1d0a52c4e84f6f9a7e3c21d8b06f94\"")]
    if_match: Option<String>,
}

/// The position at which a stream continues.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the fields are read by the derive")]
pub(crate) struct LastEventId {
    /// For a stream: the seq that the client received last.
    #[param(rename = "Last-Event-ID", value_type = Option<String>, example = "2")]
    last_event_id: Option<String>,
}
