//! Successful answers: JSON, and for writes how durable they are (P1).

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use filrouge_types::ErrorCode;
use serde::Serialize;

use crate::problem::Problem;
use crate::serve::App;

pub(crate) const DURABILITY: HeaderName = HeaderName::from_static("filrouge-durability");
/// How many credentials were masked in what was written (DESIGN §8).
const MASKED: HeaderName = HeaderName::from_static("filrouge-masked");

/// What a list answers.
#[derive(Serialize)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response<Body>, Problem> {
    let text =
        serde_json::to_vec(value).map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

/// The answer of a write, with what it has survived: 201 when it changed something, 200 when it repeats an answer.
pub(crate) fn written<T: Serialize>(
    app: &App,
    status: StatusCode,
    value: &T,
) -> Result<Response<Body>, Problem> {
    let mut response = json(status, value)?;
    response.headers_mut().insert(
        DURABILITY,
        HeaderValue::from_static(app.engine().ledger().durability().as_str()),
    );
    Ok(response)
}

/// The answer of a write in which credentials may have been masked: it tells how many, if there were any.
pub(crate) fn masked(mut response: Response<Body>, count: u64) -> Response<Body> {
    if count > 0 {
        response
            .headers_mut()
            .insert(MASKED, HeaderValue::from(count));
    }
    response
}

pub(crate) const fn created(new: bool) -> StatusCode {
    if new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
