//! Parameters in headers, as types for `params(…)` in the annotations.

use utoipa::IntoParams;

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
