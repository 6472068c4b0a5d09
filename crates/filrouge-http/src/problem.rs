//! Reports failures as `application/problem+json`. Their statuses and titles come from the table of error codes (DESIGN
//! §12).

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use filrouge_types::{Clock, ErrorCode, Failure, Lease, SystemClock, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

/// A failure (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// `urn:filrouge:error:` and the code.
    #[schema(format = "uri")]
    r#type: String,
    /// The meaning of the code.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The code by which programs classify failures.
    #[schema(schema_with = code_schema)]
    code: &'static str,
    /// The cause of this failure.
    detail: &'a str,
    /// What the caller can do.
    #[schema(required)]
    hint: Option<&'a str>,
    /// The newest seq, for seq_conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    actual_seq: Option<u64>,
    /// The session whose stored data is damaged, for integrity_error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    session_id: Option<&'a str>,
    /// The first damaged seq, for integrity_error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seq: Option<u64>,
    /// The session's holder, for lease_timeout and lease_held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    holder: Option<&'a str>,
    /// The end of its lease, for lease_timeout and lease_held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Timestamp)]
    expires_at: Option<Timestamp>,
}

fn code_schema() -> Object {
    let codes = ErrorCode::ALL.iter().map(|code| code.as_str());
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("The code by which programs classify failures."))
        .enum_values(Some(codes))
        .build()
}

/// A failure to report to the caller, and optionally the number of seconds after which a retry may succeed.
#[derive(Debug)]
pub struct Problem(pub Box<Failure>, Option<u32>);

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self(Box::new(failure), None)
    }
}

impl Problem {
    /// A failure with only a code and a detail.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Failure::new(code, detail)), None)
    }

    /// Adds a hint, which says what the caller can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets how many seconds the caller should wait before it retries.
    #[must_use]
    pub fn with_retry_after(self, seconds: u32) -> Self {
        Self(self.0, Some(seconds))
    }
}

/// Returns the detail and the hint for callers. The cause of a failure of the hot store is only for the operator, in
/// the log and in `/readyz`, so its detail is replaced.
pub fn detail_and_hint(failure: &Failure) -> (&str, Option<&str>) {
    match failure.code {
        ErrorCode::HotUnavailable => (
            "the hot store does not answer",
            Some("try again; the operator finds why in /readyz and in the log"),
        ),
        _ => (&failure.detail, failure.hint.as_deref()),
    }
}

/// Returns the seconds until a lease expires, rounded up, at least 1.
fn seconds_left(lease: &Lease) -> u32 {
    let end = lease.expires_at.map_or(0, |at| at.as_micros());
    let micros_left = end.saturating_sub(SystemClock.lease_now().as_micros());
    let seconds = u64::try_from(micros_left).unwrap_or(0).div_ceil(1_000_000);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}

/// The failure that a response reports: an extension of the response until the layer around all wires writes the body.
#[derive(Clone)]
pub(crate) struct ReportedFailure(pub(crate) Arc<Failure>);

/// A failure in the format of a wire's protocol: the media type and the text of the body.
pub type FailureText = (&'static str, Vec<u8>);

/// Formats a failure as `application/problem+json`.
pub(crate) fn format_problem(failure: &Failure) -> FailureText {
    format_with_status(failure, failure.code.status())
}

/// Like [`format_problem`], but with this status instead of the code's own.
pub(crate) fn format_with_status(failure: &Failure, status: u16) -> FailureText {
    let (detail, hint) = detail_and_hint(failure);
    let lease = failure.held.as_deref();
    let body = ProblemBody {
        r#type: format!("urn:filrouge:error:{}", failure.code),
        title: failure.code.title(),
        status,
        code: failure.code.as_str(),
        detail,
        hint,
        actual_seq: failure.actual_seq,
        session_id: failure.location.as_ref().map(|p| p.session_id.as_str()),
        seq: failure.location.as_ref().and_then(|p| p.seq),
        holder: lease.and_then(|lease| lease.holder.as_deref()),
        expires_at: lease.and_then(|lease| lease.expires_at),
    };
    let text = serde_json::to_vec(&body).unwrap_or_default();
    ("application/problem+json", text)
}

impl IntoResponse for Problem {
    /// A response with the status and the headers. The layer around all wires writes its body in the format of the
    /// path's protocol.
    fn into_response(self) -> Response<Body> {
        let failure = &self.0;
        if failure.code.status() >= 500 {
            tracing::error!(code = failure.code.as_str(), detail = %failure.detail, "a request failed");
        }
        let status = StatusCode::from_u16(failure.code.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        let headers = response.headers_mut();
        if failure.code == ErrorCode::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if failure.code.retry() {
            let lease = failure.held.as_deref();
            let seconds = self.1.or_else(|| lease.map(seconds_left));
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.unwrap_or(1)));
        }
        response
            .extensions_mut()
            .insert(ReportedFailure(self.0.into()));
        response
    }
}
