//! Sessions as MCP resources: `session://{id}` is a session as Markdown, cut at a maximum length.

use filrouge_sources::library::export::Form;
use filrouge_sources::library::history::MAX_CHARS;
use filrouge_sources::library::list::{Ask, Row, Sessions, list};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ListResourcesResult, Resource, ResourceContents, ResourceTemplate};

use crate::call::Call;
use crate::refusal::Refusal;
use crate::text::{moment, provenance, quoted};
use crate::tools::page;

const SCHEME: &str = "session://";
/// The only variable of [`TEMPLATE`].
pub(crate) const ID: &str = "id";
/// The URI template of a session.
pub(crate) const TEMPLATE: &str = "session://{id}";
const MARKDOWN: &str = "text/markdown";
/// The maximum number of completions that the protocol allows in one response.
const COMPLETIONS: usize = 100;

/// The characters of an id that are percent-encoded in a URI: all but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The URI of a session.
fn address(id: &str) -> String {
    format!("{SCHEME}{}", utf8_percent_encode(id, RESERVED))
}

/// The id of the session that a URI names; `None` if the URI is not that of a session.
fn id_of(address: &str) -> Option<String> {
    let encoded = address.strip_prefix(SCHEME)?;
    let id = percent_decode_str(encoded).decode_utf8().ok()?;
    // The decoder leaves a percent sign without two hex digits unchanged. Each valid encoding shortens the text by two
    // bytes, so the lengths differ by two per percent sign only if all are valid.
    let is_valid = encoded.len() - id.len() == 2 * encoded.matches('%').count();
    (is_valid && !id.is_empty()).then(|| id.into_owned())
}

/// The description of [`TEMPLATE`] for clients.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "session")
        .with_title("A recorded session")
        .with_description(
            "The messages of a session, as Markdown; a long one is cut and says how to continue",
        )
        .with_mime_type(MARKDOWN)
}

/// A page of the list of sessions, the last changed first.
///
/// # Errors
/// [`Refusal`] for an invalid cursor.
pub(crate) fn page_of_sessions(
    call: &Call<'_>,
    cursor: Option<String>,
) -> Result<ListResourcesResult, Refusal> {
    let ask = Ask {
        cursor,
        mask: true,
        ..Ask::default()
    };
    let Sessions {
        sessions,
        next_cursor,
        ..
    } = list(call.library, &ask)?;
    let all = sessions.iter().map(resource).collect();
    let mut result = ListResourcesResult::with_all_items(all);
    result.next_cursor = next_cursor;
    Ok(result)
}

fn resource(row: &Row) -> Resource {
    let described = format!("{} session, updated {}", row.source, moment(row.updated));
    let resource = Resource::new(address(&row.id), row.id.clone())
        .with_description(described)
        .with_mime_type(MARKDOWN);
    match &row.title {
        Some(title) => resource.with_title(title),
        None => resource,
    }
}

/// Reads the session that the URI `address` names: the first [`MAX_CHARS`] characters, and if the session is longer,
/// how to continue.
///
/// # Errors
/// [`Refusal`]: `session_not_found` if the URI names no session, or an error of the library.
pub(crate) fn read(call: &Call<'_>, address: &str) -> Result<ResourceContents, Refusal> {
    let Some(id) = id_of(address) else {
        let message = format!("{address:?} is not the address of a session");
        return Err(Refusal::new("session_not_found", message, TEMPLATE));
    };
    let page = page(call, &id, Some(Form::Markdown), None, MAX_CHARS)?;
    let mut text = format!("{}\n\n{}", provenance(&page.source), page.content);
    if let Some(cursor) = &page.next_cursor {
        let (id, cursor, total) = (quoted(&id), quoted(cursor), page.total_chars);
        text.push_str(&format!(
            "\n\nCut after character {MAX_CHARS} of {total}; continue with the tool export_session, sessionID {id}, cursor {cursor}.\n"
        ));
    }
    Ok(ResourceContents::text(text, address).with_mime_type(MARKDOWN))
}

/// The first [`COMPLETIONS`] ids that begin with `start`, those of the last changed sessions first, and the number of
/// all such ids.
pub(crate) fn completions(call: &Call<'_>, start: &str) -> (Vec<String>, usize) {
    let catalog = call.library.catalog();
    let headers = catalog.entries.iter().map(|entry| &entry.header);
    let mut matching: Vec<_> = headers
        .filter(|header| header.id.starts_with(start))
        .collect();
    matching.sort_unstable_by(|a, b| (b.updated, &a.id).cmp(&(a.updated, &b.id)));
    let ids = matching.iter().take(COMPLETIONS);
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
            let address = address(id);
            assert!(address.is_ascii(), "{address}");
            assert_eq!(id_of(&address).as_deref(), Some(id));
        }
        for bad in [
            "session://",
            "file:///etc/passwd",
            "session://%4",
            "session://%zz",
            "session://%ff",
        ] {
            assert_eq!(id_of(bad), None, "{bad}");
        }
    }
}
