//! The addresses of pages. Ids are percent-encoded: they may have any characters.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are encoded in a part of a path: all except the unreserved ones of RFC 3986.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The address of a session's page.
pub(crate) fn session_path(id: &str) -> String {
    format!("/ui/sessions/{}", utf8_percent_encode(id, IN_PATH))
}

/// The address of the page of a session in another program's history.
pub(crate) fn history_path(source: &str, id: &str) -> String {
    let id = utf8_percent_encode(id, IN_PATH);
    format!("/ui/histories/{source}/{id}")
}
