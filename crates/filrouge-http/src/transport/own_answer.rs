//! Answers to what never became a request: no room, a head that is too slow, too large or no HTTP at all.

use filrouge_types::{ErrorCode, Failure};
use hyper::body::Bytes;
use tokio::net::TcpStream;

use crate::problem::written_with;
use crate::request_id::HttpRequestId;

fn problem(status: u16, code: ErrorCode, detail: &str) -> Bytes {
    let (media_type, body) = written_with(&Failure::new(code, detail), status);
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

/// The head of a request did not arrive in time.
pub(super) fn too_slow() -> Bytes {
    let code = ErrorCode::RequestTimeout;
    let detail = "the head of the request did not arrive in time";
    problem(code.status(), code, detail)
}

/// What the protocol's own refusal is told as; `None` when `answer` is not the beginning of one.
pub(super) fn instead_of(answer: &[u8]) -> Option<Bytes> {
    let status = answer.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let (status, detail) = match status {
        b"400" => (400, "this is no HTTP request"),
        b"414" => (414, "the request's target is too long"),
        b"431" => (431, "the request's head is too large"),
        _ => return None,
    };
    Some(problem(status, ErrorCode::BadRequest, detail))
}

/// Tells a peer that there is no room. Nothing is waited for and nothing is kept.
pub(super) fn refuse(stream: &TcpStream) {
    let code = ErrorCode::Overloaded;
    let text = problem(code.status(), code, "there are too many connections");
    // What is unread when the socket is closed would make the system throw the answer away.
    let _ = stream.try_read(&mut [0; 4096]);
    // A peer that takes no answer gets none.
    let _ = stream.try_write(&text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_refusals_of_the_protocol_are_told_otherwise() {
        for other in [
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 404 Not Found",
            "HTTP",
            "data",
        ] {
            assert!(instead_of(other.as_bytes()).is_none(), "{other}");
        }
        let text = instead_of(b"HTTP/1.1 431 Request Header Fields Too Large\r\n").unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&body["status"], &body["code"]),
            (&json!(431), &json!("bad_request"))
        );
    }
}
