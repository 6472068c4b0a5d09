//! Sessions as MCP resources: `session://{id}` is a session as Markdown, cut at a maximum length.

use std::time::Instant;

use filrouge_sources::library::export::Form;
use filrouge_sources::library::history::MAX_CHARS;
use filrouge_sources::library::list::{ListRequest, Row, list};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ListResourcesResult, Resource, ResourceContents, ResourceTemplate};

use crate::call::Call;
use crate::refusal::{Refusal, Result};
use crate::text::{format_time, log_load, provenance, quoted};
use crate::tools::export_page;

const SCHEME: &str = "session://";
/// The only variable of [`TEMPLATE`].
pub(crate) const ID: &str = "id";
/// The URI template of a session.
pub(crate) const TEMPLATE: &str = "session://{id}";
const MARKDOWN: &str = "text/markdown";
/// The maximum number of completions that the protocol allows in one response.
const COMPLETIONS_MAX: usize = 100;

/// The characters of an id that are percent-encoded in a URI: all but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the URI of a session.
pub(crate) fn session_uri(id: &str) -> String {
    format!("{SCHEME}{}", utf8_percent_encode(id, RESERVED))
}

/// Returns the id of the session that a URI names; `None` if the URI is not that of a session.
fn id_from_uri(uri: &str) -> Option<String> {
    let encoded = uri.strip_prefix(SCHEME)?;
    let id = percent_decode_str(encoded).decode_utf8().ok()?;
    // The decoder leaves a percent sign without two hex digits unchanged. Each valid encoding shortens the text by two
    // bytes, so the lengths differ by two per percent sign only if all are valid.
    let is_valid = encoded.len() - id.len() == 2 * encoded.matches('%').count();
    (is_valid && !id.is_empty()).then(|| id.into_owned())
}

/// Returns the description of [`TEMPLATE`] for clients.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "session")
        .with_title("A recorded session")
        .with_description(
            "The messages of a session, as Markdown; a long one is cut and says how to continue",
        )
        .with_mime_type(MARKDOWN)
}

/// Returns a page of the list of sessions, the last changed first.
///
/// # Errors
/// [`Refusal`] for an invalid cursor.
pub(crate) fn list_page(call: &Call<'_>, cursor: Option<String>) -> Result<ListResourcesResult> {
    let request = ListRequest {
        cursor,
        mask: true,
        ..ListRequest::default()
    };
    let page = list(call.library, &request)?;
    let all = page.sessions.iter().map(resource).collect();
    let mut result = ListResourcesResult::with_all_items(all);
    result.next_cursor = page.next_cursor;
    Ok(result)
}

fn resource(header: &Row) -> Resource {
    let description = format!(
        "{} session, updated {}",
        header.source,
        format_time(header.updated)
    );
    let resource = Resource::new(session_uri(&header.id), header.id.clone())
        .with_description(description)
        .with_mime_type(MARKDOWN);
    match &header.title {
        Some(title) => resource.with_title(title),
        None => resource,
    }
}

/// Reads the session that `uri` names: the complete blocks of the first [`MAX_CHARS`] characters, and if the session is
/// longer, how to continue.
///
/// # Errors
/// [`Refusal`]: `session_not_found` if the URI names no session, or an error of the library.
pub(crate) fn read_session(call: &Call<'_>, uri: &str) -> Result<ResourceContents> {
    let Some(id) = id_from_uri(uri) else {
        let message = format!("{uri:?} is not the address of a session");
        return Err(Refusal::new("session_not_found", message, TEMPLATE));
    };
    let started_at = Instant::now();
    let mut page = export_page(call, &id, Some(Form::Markdown), None, MAX_CHARS)?;
    page.drop_last_block();
    let mut text = format!("{}\n\n{}", provenance(&page.source), page.content);
    if let Some(cursor) = &page.next_cursor {
        let (id, cursor, total) = (quoted(&id), quoted(cursor), page.total_chars);
        let chars = page.content.chars().count();
        text.push_str(&format!(
            "\n\nCut after character {chars} of {total}; continue with the tool export_session, sessionID {id}, cursor {cursor}.\n"
        ));
    }
    log_load("resource", &page, text.len(), started_at);
    Ok(ResourceContents::text(text, uri).with_mime_type(MARKDOWN))
}

/// Returns the first [`COMPLETIONS_MAX`] ids that begin with `start`, those of the last changed sessions first, and the
/// number of all ids that begin with it.
pub(crate) fn completions(call: &Call<'_>, start: &str) -> (Vec<String>, usize) {
    let catalog = call.library.catalog();
    let headers = catalog.entries.iter().map(|entry| &entry.header);
    let mut matching: Vec<_> = headers
        .filter(|header| header.id.starts_with(start))
        .collect();
    matching.sort_unstable_by(|a, b| (b.updated, &a.id).cmp(&(a.updated, &b.id)));
    let ids = matching.iter().take(COMPLETIONS_MAX);
    (
        ids.map(|header| header.id.to_string()).collect(),
        matching.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_is_restored_from_its_uri() {
        for id in ["ses_1", "a b/c%:ü", "../..", "会話"] {
            let uri = session_uri(id);
            assert!(uri.is_ascii(), "{uri}");
            assert_eq!(id_from_uri(&uri).as_deref(), Some(id));
        }
        for bad in [
            "session://",
            "file:///etc/passwd",
            "session://%4",
            "session://%zz",
            "session://%ff",
        ] {
            assert_eq!(id_from_uri(bad), None, "{bad}");
        }
    }
}
