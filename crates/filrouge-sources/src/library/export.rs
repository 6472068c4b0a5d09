//! Writes one session as a document: `export_session`, `filrouge export`.

mod recorded;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};

use filrouge_types::Recorded;
use serde::{Deserialize, Serialize};

use super::history::{DisplayOptions, PagedContent, View, children};
use super::list::Row;
use super::{Catalog, Entry, Library, LibraryError};
use crate::Skipped;

/// The form of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Markdown.
    #[default]
    #[serde(rename = "md")]
    Markdown,
    /// One HTML file without scripts.
    Html,
    /// One JSON document: the header, and every message with its parts, nothing truncated.
    Json,
}

/// The reason why a document could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The session could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The output could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The fields of the JSON document before the messages.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DocumentHead {
    session: Row,
    /// The sessions that this one started.
    children: Vec<String>,
    total_messages: usize,
    /// The compactions in order.
    boundaries: Vec<ExportedCompaction>,
    /// The first message that the user reverted.
    #[serde(rename = "revertedAtID")]
    reverted_at: Option<String>,
    /// Records of the session that could not be read.
    skipped: Vec<Skipped>,
}

/// A compaction in the JSON document. `before` is the id of the first message that the model still sees, `created` the
/// time in milliseconds since 1970, `automatic` whether the program started the compaction without a request, and
/// `summary` the id of the message that summarizes the dropped ones.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportedCompaction {
    #[serde(rename = "beforeID")]
    before: Option<String>,
    created: i64,
    automatic: Option<bool>,
    #[serde(rename = "summaryMessageID")]
    summary: Option<String>,
}

/// Writes an entire session, including content that the model no longer sees, reverted messages, and unfinished
/// answers. `mask` masks anything with the form of a credential.
///
/// JSON is `{session, children, totalMessages, boundaries, revertedAtID, skipped, messages}`, with messages as
/// [`super::history::ShownMessage`], one per line. The other forms contain the session's turns and items. For another
/// program's session, these are those that an import would record, after a list of the records that could not be read.
/// A document marks the places where content is replaced or cut: see [`filrouge_document`].
///
/// # Errors
/// [`ExportError`].
pub fn export(
    library: &Library,
    session_id: &str,
    form: Form,
    mask: bool,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let catalog = library.catalog();
    let entry = catalog.get(session_id)?;
    match form {
        Form::Json => write_json(library, &catalog, entry, mask, out),
        Form::Markdown => write_document(library, entry, mask, filrouge_document::markdown, out),
        Form::Html => write_document(library, entry, mask, filrouge_document::html, out),
    }
}

/// The turns and items of a session, as its document contains them. For another program's session, they depend only on
/// its header and its conversation, so they are equal while its fingerprint is. `mask` masks anything with the form of a
/// credential.
///
/// # Errors
/// [`LibraryError::NoSession`] when the session was removed, [`LibraryError::Unreadable`] when it cannot be read.
pub fn recorded(library: &Library, entry: &Entry, mask: bool) -> Result<Recorded, LibraryError> {
    recorded::read(library, entry, mask)
}

fn write_json(
    library: &Library,
    catalog: &Catalog,
    entry: &Entry,
    mask: bool,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let conversation = library.conversation(entry)?;
    let view = View {
        conversation: &conversation,
        list: (0..conversation.messages.len()).collect(),
        pruned_from: usize::MAX,
        options: DisplayOptions {
            tool_output: true,
            reasoning: true,
            synthetic: true,
            steps: true,
            mask,
        },
        paged: PagedContent::History,
    };
    let id = |at: usize| conversation.messages.get(at).map(|m| m.id.to_string());
    let boundaries = conversation.boundaries.iter();
    let boundaries = boundaries.map(|boundary| ExportedCompaction {
        before: id(boundary.at),
        created: boundary.created,
        automatic: boundary.automatic,
        summary: boundary.summary_id.as_deref().map(str::to_owned),
    });
    let head = DocumentHead {
        session: Row::from_header(&entry.header).masked(mask),
        children: children(catalog, entry, &conversation),
        total_messages: conversation.messages.len(),
        boundaries: boundaries.collect(),
        reverted_at: conversation.reverted_at.and_then(id),
        skipped: conversation.skipped.clone(),
    };
    let head = serde_json::to_string(&head).map_err(io::Error::from)?;
    let head = head.strip_suffix('}').unwrap_or(&head);
    write!(out, "{head},\"messages\":[")?;
    for (n, index) in view.list.iter().enumerate() {
        out.write_all(if n == 0 { b"\n" } else { b",\n" })?;
        // The message is serialized in memory first, so that a failed write returns the output's own error.
        let message =
            serde_json::to_vec(&view.complete_message(*index)).map_err(io::Error::from)?;
        out.write_all(&message)?;
    }
    out.write_all(b"\n]}\n")?;
    Ok(())
}

fn write_document(
    library: &Library,
    entry: &Entry,
    mask: bool,
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let recorded = recorded::read(library, entry, mask)?;
    let mut text = String::new();
    // Writing to a string in memory never fails.
    let _ = write(&recorded, &mut text);
    Ok(out.write_all(text.as_bytes())?)
}
