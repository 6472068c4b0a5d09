//! Every request names exactly one host, in the header `Host` (RFC 9112 §3.2), and at most one origin: programs that
//! choose among several can choose differently.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response, header};
use axum::middleware::Next;
use filrouge_types::{ErrorCode, Host};

use crate::problem::Problem;

/// The host that a request names; `None` if it names none or several, or if the header is malformed.
fn named_host(headers: &HeaderMap) -> Option<Host<'_>> {
    let mut values = headers.get_all(header::HOST).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().and_then(Host::parse),
        _ => None,
    }
}

/// A layer that refuses a request whose target names a host, that does not name exactly one in `Host`, or that names
/// several origins. [`mount`] adds it to all wires.
///
/// [`mount`]: crate::mount
///
/// # Errors
/// `bad_request`.
pub async fn check_host(request: Request, next: Next) -> Result<Response<Body>, Problem> {
    let detail = if request.uri().authority().is_some() {
        "the target names a host; send a path"
    } else if named_host(request.headers()).is_none() {
        "the request does not name one host; send the header Host once, as NAME or NAME:PORT"
    } else if request.headers().get_all(header::ORIGIN).iter().count() > 1 {
        "the request names several origins; send the header Origin at most once"
    } else {
        return Ok(next.run(request).await);
    };
    Err(Problem::new(ErrorCode::BadRequest, detail))
}
