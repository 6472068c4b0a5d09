//! Successful answers: JSON, and for writes how durable they are (P1).

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use filrouge_engine::Written;
use filrouge_store::Durability;
use filrouge_types::ErrorCode;

use serde::Serialize;

use crate::problem::Problem;

/// What a write has survived.
pub const DURABILITY: HeaderName = HeaderName::from_static("filrouge-durability");
/// How many credentials were masked in what was written (DESIGN §8).
pub(crate) const MASKED: HeaderName = HeaderName::from_static("filrouge-masked");
/// Where an answer comes from that the ledger could not confirm: `hot` (DESIGN §7).
pub(crate) const SOURCE: HeaderName = HeaderName::from_static("filrouge-source");
/// The session's newest seq as such an answer knows it.
pub(crate) const AS_OF_SEQ: HeaderName = HeaderName::from_static("filrouge-as-of-seq");

/// What a list answers.
#[derive(Serialize)]
pub struct Page<T> {
    /// Its rows.
    pub data: Vec<T>,
    /// Where the next page begins; none behind the last one.
    pub next_cursor: Option<String>,
}

/// What a route answers.
pub type Answer = Result<Response<Body>, Problem>;

/// 200 with a value.
///
/// # Errors
/// `internal` for what cannot be written.
pub fn json<T: Serialize>(value: &T) -> Answer {
    let text =
        serde_json::to_vec(value).map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    Ok(json_text(text))
}

/// No answer: somebody else is at work, and the caller wants none then.
pub fn no_content() -> Response<Body> {
    StatusCode::NO_CONTENT.into_response()
}

/// 200 with JSON that is written already.
pub fn json_text(text: Vec<u8>) -> Response<Body> {
    self::text("application/json", text)
}

/// 200 with a text of this media type.
pub fn text(media_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

/// The answer of a write: where it went (P1), and how many credentials were masked in it, if there were any. 202 when it
/// waits in the spool: nothing of it is in the ledger yet, and what the answer does not know is null.
///
/// # Errors
/// `internal` for what cannot be written.
pub fn written<T: Serialize>(written: &Written<T>) -> Answer {
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

/// As [`written`], and 201 when something is new.
///
/// # Errors
/// `internal` for what cannot be written.
pub fn created<T: Serialize>(new: bool, value: &Written<T>) -> Answer {
    let mut response = written(value)?;
    if new && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// 200 with a file of this name and media type, never kept and never taken for anything else.
pub fn attachment(media_type: &'static str, name: &str, body: Body) -> Response<Body> {
    let named = format!("attachment; filename=\"{name}\"");
    let bounds = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let file = text(media_type, body);
    (bounds, [(header::CONTENT_DISPOSITION, named)], file).into_response()
}

/// The media types that `Accept` names, in lower case, in its order.
pub fn accepted(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let accepts = headers.get_all(header::ACCEPT).iter();
    let ranges = accepts
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    ranges.map(|range| {
        let essence = range.split(';').next().unwrap_or("").trim();
        essence.to_ascii_lowercase()
    })
}

/// Says that an answer is the hot store's alone, and which state of the session it tells.
pub fn as_of(mut response: Response<Body>, seq: u64) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(SOURCE, HeaderValue::from_static("hot"));
    headers.insert(AS_OF_SEQ, HeaderValue::from(seq));
    response
}
