//! Responses that do not come from the router, because there is no request yet: for a connection beyond the maximum,
//! and for a head of a request that is too slow, too large or not HTTP.

use filrouge_types::{ErrorCode, Failure};
use hyper::body::Bytes;
use tokio::net::TcpStream;

use crate::problem::format_with_status;
use crate::request_id::HttpRequestId;

fn problem_response(status: u16, code: ErrorCode, detail: &str) -> Bytes {
    let (media_type, body) = format_with_status(&Failure::new(code, detail), status);
    let reason = axum::http::StatusCode::from_u16(status)
        .ok()
        .and_then(|s| s.canonical_reason())
        .unwrap_or_default();
    let retry = if code.retry() {
        "retry-after: 1\r\n"
    } else {
        ""
    };
    let (id, length) = (HttpRequestId::new(), body.len());
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n{retry}filrouge-request-id: {}\r\nconnection: close\r\n\r\n",
        id.as_str()
    );
    Bytes::from([head.as_bytes(), &body].concat())
}

/// Returns the response to a request whose head does not arrive in time.
pub(super) fn too_slow() -> Bytes {
    let code = ErrorCode::RequestTimeout;
    let detail = "the head of the request did not arrive in time";
    problem_response(code.status(), code, detail)
}

/// Returns the response to send instead of a refusal that the HTTP library wrote itself. `library_bytes` are the first
/// bytes that the library writes; `None` if they do not begin a refusal.
pub(super) fn replacement_of(library_bytes: &[u8]) -> Option<Bytes> {
    let status = library_bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let (status, detail) = match status {
        b"400" => (400, "this is no HTTP request"),
        b"414" => (414, "the request's target is too long"),
        b"431" => (431, "the request's head is too large"),
        _ => return None,
    };
    Some(problem_response(status, ErrorCode::BadRequest, detail))
}

/// Responds that there are too many connections. Does not wait for the peer.
pub(super) fn refuse_connection(stream: &TcpStream) {
    let code = ErrorCode::Overloaded;
    let response = problem_response(code.status(), code, "there are too many connections");
    // The request is read first: if a socket is closed with unread input, the operating system discards the response.
    let _ = stream.try_read(&mut [0; 4096]);
    // If the socket's send buffer is full, the response is lost.
    let _ = stream.try_write(&response);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_refusals_of_the_http_library_are_replaced() {
        for other in [
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 404 Not Found",
            "HTTP",
            "data",
        ] {
            assert!(replacement_of(other.as_bytes()).is_none(), "{other}");
        }
        let response = replacement_of(b"HTTP/1.1 431 Request Header Fields Too Large\r\n").unwrap();
        let response = String::from_utf8(response.to_vec()).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&body["status"], &body["code"]),
            (&json!(431), &json!("bad_request"))
        );
    }
}
