//! Successful answers: JSON, and for writes how durable they are (P1).

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use filrouge_engine::Written;
use filrouge_store::Durability;
use filrouge_types::ErrorCode;

use serde::Serialize;

use crate::problem::Problem;

/// What a write has survived.
pub const DURABILITY: HeaderName = HeaderName::from_static("filrouge-durability");
/// How many credentials were masked in what was written (DESIGN §8).
const MASKED: HeaderName = HeaderName::from_static("filrouge-masked");
/// Where an answer comes from that the ledger could not confirm: `hot` (DESIGN §7).
const SOURCE: HeaderName = HeaderName::from_static("filrouge-source");
/// The session's newest seq as such an answer knows it.
const AS_OF_SEQ: HeaderName = HeaderName::from_static("filrouge-as-of-seq");

/// What a list answers.
#[derive(Serialize)]
pub struct Page<T> {
    /// Its rows.
    pub data: Vec<T>,
    /// Where the next page begins; none behind the last one.
    pub next_cursor: Option<String>,
}

/// An answer.
///
/// # Errors
/// `internal` for what cannot be written.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response<Body>, Problem> {
    let text =
        serde_json::to_vec(value).map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    Ok(json_text(status, text))
}

/// No answer: somebody else is at work, and the caller wants none then.
pub fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// An answer that is JSON already.
pub fn json_text(status: StatusCode, text: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// The answer of a write: where it went (P1), and how many credentials were masked in it, if there were any. 202 when it
/// waits in the spool: nothing of it is in the ledger yet, and what the answer does not know is null.
///
/// # Errors
/// `internal` for what cannot be written.
pub fn written<T: Serialize>(
    status: StatusCode,
    written: &Written<T>,
) -> Result<Response<Body>, Problem> {
    let status = match written.durability {
        Durability::Spooled => StatusCode::ACCEPTED,
        _ => status,
    };
    let mut response = json(status, &written.value)?;
    let headers = response.headers_mut();
    let durability = written.durability.as_str();
    headers.insert(DURABILITY, HeaderValue::from_static(durability));
    if written.masked > 0 {
        headers.insert(MASKED, HeaderValue::from(written.masked));
    }
    Ok(response)
}

/// Says that an answer is the hot store's alone, and which state of the session it tells.
pub fn as_of(mut response: Response<Body>, seq: u64) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(SOURCE, HeaderValue::from_static("hot"));
    headers.insert(AS_OF_SEQ, HeaderValue::from(seq));
    response
}

/// The status of a write that changed something, or repeats an answer.
#[must_use]
pub const fn created(new: bool) -> StatusCode {
    if new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
