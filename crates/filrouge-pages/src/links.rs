//! The addresses of pages. Ids are percent-encoded: they may have any characters.

use std::borrow::Borrow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use filrouge_types::SessionId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The audit of the tenant.
pub(crate) const AUDIT: &str = "/ui/audit";
/// The verification of an uploaded bundle.
pub(crate) const INTEGRITY: &str = "/ui/integrity";

/// The characters of an id that a path contains as they are: the unreserved ones of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// An id as a segment of a path.
pub(crate) fn segment(id: &str) -> String {
    match id {
        // As segments, these would name other paths.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        id => utf8_percent_encode(id, SEGMENT).to_string(),
    }
}

/// The path of a session's page.
pub(crate) fn session_path<T: Borrow<str> + ?Sized>(id: &T) -> String {
    format!("/ui/sessions/{}", segment(id.borrow()))
}

/// The path of the page of a session in the history of a program.
pub(crate) fn history_path(source: &str, id: &str) -> String {
    format!("/ui/histories/{}/{}", segment(source), segment(id))
}

/// The path of an item on its session's page.
pub(crate) fn item_path(id: &SessionId, seq: u64) -> String {
    format!("{}?at={seq}#seq-{seq}", session_path(id))
}

/// A path with these parameters; empty ones are left out.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Sends the browser to a page of this server, after a form was accepted.
pub(crate) fn see_other(path: &str) -> Response<Body> {
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_a_path() {
        for (id, expected) in [
            ("a-b.c_d~1", "a-b.c_d~1"),
            ("a/b?c#d", "a%2Fb%3Fc%23d"),
            ("..", "%2E%2E"),
            ("é\"<", "%C3%A9%22%3C"),
        ] {
            assert_eq!(segment(id), expected, "{id}");
        }
    }
}
