//! The id of an HTTP request. It is returned to the caller, and every log line about the request contains it.
//!
//! It is unrelated to the `request_id` of a turn, which is an idempotency key.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

/// The response header with the request's id.
pub(crate) const FILROUGE_REQUEST_ID: HeaderName = HeaderName::from_static("filrouge-request-id");
/// The header in which proxies send a request's id; the id is accepted, and returned in the same header.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of an accepted id in bytes.
const LENGTH_MAX: usize = 128;

/// An id of 1 to 128 visible ASCII characters.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequestId(HeaderValue);

impl HttpRequestId {
    /// Returns the id in the request's headers if there is exactly one and it is valid; otherwise a new id.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(&X_REQUEST_ID).iter();
        match (values.next(), values.next()) {
            (Some(id), None) if is_valid(id.as_bytes()) => Self(id.clone()),
            _ => Self::new(),
        }
    }

    /// Creates an id of 32 hexadecimal digits.
    pub(crate) fn new() -> Self {
        let value = HeaderValue::try_from(Uuid::now_v7().simple().to_string());
        Self(value.unwrap_or(const { HeaderValue::from_static("none") }))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(FILROUGE_REQUEST_ID, self.0.clone());
        headers.insert(X_REQUEST_ID, self.0.clone());
    }
}

fn is_valid(text: &[u8]) -> bool {
    (1..=LENGTH_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted_or_new(values: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        HttpRequestId::from_headers(&headers).as_str().to_owned()
    }

    #[test]
    fn valid_ids_are_kept_and_others_replaced() {
        let long = "x".repeat(LENGTH_MAX);
        for good in ["a", "trace-1/2:3", &long] {
            assert_eq!(accepted_or_new(&[good.as_bytes()]), good);
        }
        let longer = "x".repeat(LENGTH_MAX + 1);
        let bad: [&[&[u8]]; 6] = [
            &[],
            &[b""],
            &[b"a b"],
            &[b"\xc3\xa9"],
            &[longer.as_bytes()],
            &[b"a", b"b"],
        ];
        for values in bad {
            let generated = accepted_or_new(values);
            assert_eq!(generated.len(), 32, "{values:?}");
            assert!(generated.bytes().all(|b| b.is_ascii_hexdigit()));
        }
        assert_ne!(accepted_or_new(&[]), accepted_or_new(&[]));
    }
}
