//! Builds successful responses. The response to a write also says how durable the write is (P1).

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use filrouge_engine::Written;
use filrouge_store::Durability;
use filrouge_store::verify::Finding;
use filrouge_types::{ErrorCode, Result};

use serde::Serialize;

use crate::problem::Problem;

/// The header with the durability of a write.
pub const DURABILITY: HeaderName = HeaderName::from_static("filrouge-durability");
/// The header with the number of credentials that were masked in a write (DESIGN §8).
pub(crate) const MASKED: HeaderName = HeaderName::from_static("filrouge-masked");
/// The header with the source of a response that the ledger could not confirm: `hot`, the hot store (DESIGN §7).
pub(crate) const SOURCE: HeaderName = HeaderName::from_static("filrouge-source");
/// The header that accompanies [`SOURCE`]: the newest seq that the response takes into account.
pub(crate) const AS_OF_SEQ: HeaderName = HeaderName::from_static("filrouge-as-of-seq");

/// The body of a response that lists rows.
#[derive(Serialize)]
pub struct Page<T> {
    /// The rows of this page.
    pub data: Vec<T>,
    /// The next page's cursor; `None` on the last page.
    pub next_cursor: Option<String>,
    /// The damaged sessions that the page leaves out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// The result of a route.
pub type RouteResult = Result<Response<Body>, Problem>;

/// Returns 200 with a value as JSON.
///
/// # Errors
/// `internal` when the value cannot be serialized.
pub fn json<T: Serialize>(value: &T) -> RouteResult {
    Ok(text("application/json", json_bytes(value)?))
}

/// Returns a value as JSON.
///
/// # Errors
/// `internal` when the value cannot be serialized.
pub fn json_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, Problem> {
    let json = serde_json::to_vec(value);
    json.map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))
}

/// Returns 204: another caller is answering the turn, and the request asks for an empty response in that case.
pub fn no_content() -> Response<Body> {
    StatusCode::NO_CONTENT.into_response()
}

/// Returns 200 with a body of this media type.
pub fn text(media_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

/// Returns the response to a write, with the write's durability (P1) and, if any credentials were masked, their number.
/// The status is 200, or 202 if the write is in the spool; then values that only the ledger can assign are null.
///
/// # Errors
/// `internal` when the value cannot be serialized.
pub fn write_response<T: Serialize>(written: &Written<T>) -> RouteResult {
    let mut response = json(&written.value)?;
    if written.durability == Durability::Spooled {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    let headers = response.headers_mut();
    let durability = written.durability.as_str();
    headers.insert(DURABILITY, HeaderValue::from_static(durability));
    if written.masked > 0 {
        headers.insert(MASKED, HeaderValue::from(written.masked));
    }
    Ok(response)
}

/// Like [`write_response`], but with the status 201 instead of 200 if `new`.
///
/// # Errors
/// `internal` when the value cannot be serialized.
pub fn create_response<T: Serialize>(new: bool, value: &Written<T>) -> RouteResult {
    let mut response = write_response(value)?;
    if new && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// Waits for a write, and returns the response to it.
///
/// # Errors
/// The failure of the write; `internal` when the value cannot be serialized.
pub async fn written<T: Serialize>(write: impl Future<Output = Result<Written<T>>>) -> RouteResult {
    write_response(&write.await?)
}

/// Like [`written`], but with the status 201 instead of 200 if the value is new.
///
/// # Errors
/// The failure of the write; `internal` when the value cannot be serialized.
pub async fn created<T: Serialize>(write: impl Future<Output = Result<Written<T>>>) -> RouteResult {
    let value = write.await?;
    create_response(!value.replayed, &value)
}

/// Waits for the rows of a page and the cursor of the next one, and returns 200 with the page.
///
/// # Errors
/// The failure of the read; `internal` when a row cannot be serialized.
pub async fn page<T: Serialize>(
    read: impl Future<Output = Result<(Vec<T>, Option<String>)>>,
) -> RouteResult {
    let (data, next_cursor) = read.await?;
    json(&Page {
        data,
        next_cursor,
        findings: Vec::new(),
    })
}

/// Returns 200 with a file of this name and media type. Clients must not cache it, and must not guess another type.
pub fn attachment(media_type: &'static str, name: &str, body: Body) -> Response<Body> {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let file = text(media_type, body);
    (headers, [(header::CONTENT_DISPOSITION, disposition)], file).into_response()
}

/// Returns the media types in the header `Accept`, in their order, in lower case and without parameters.
pub fn accepted_media_types(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let accepts = headers.get_all(header::ACCEPT).iter();
    let ranges = accepts
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    ranges.map(|range| {
        let essence = range.split(';').next().unwrap_or("").trim();
        essence.to_ascii_lowercase()
    })
}

/// Marks a response as coming from the hot store without confirmation by the ledger. `seq` is the newest seq that it
/// takes into account.
pub fn mark_hot(mut response: Response<Body>, seq: u64) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(SOURCE, HeaderValue::from_static("hot"));
    headers.insert(AS_OF_SEQ, HeaderValue::from(seq));
    response
}
