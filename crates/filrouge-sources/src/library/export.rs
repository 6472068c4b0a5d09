//! One session as a document: `export_session`, `filrouge export`.

mod recorded;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};

use filrouge_types::Recorded;
use serde::{Deserialize, Serialize};

use super::history::{Paged, Shows, View, children};
use super::list::Row;
use super::{Catalog, Entry, Library, LibraryError};
use crate::{Conversation, Skipped};

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
    /// One JSON document: the header, and every message with its parts, nothing cut.
    Json,
}

/// Why a document could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The session.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// What it was written to.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What JSON says before the messages.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Opening {
    session: Row,
    /// The sessions it has started.
    children: Vec<String>,
    total_messages: usize,
    /// Compactions: the first message that the model still sees, when, and whether by the program itself.
    boundaries: Vec<Cutting>,
    /// The first message that the user has taken back.
    #[serde(rename = "revertedAtID")]
    reverted_at: Option<String>,
    /// What could not be read.
    skipped: Vec<Skipped>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cutting {
    #[serde(rename = "beforeID")]
    before: Option<String>,
    created: i64,
    automatic: Option<bool>,
    #[serde(rename = "summaryMessageID")]
    summary: Option<String>,
}

/// Writes a session, whole: also what the model no longer sees, what was taken back, and answers without an end. `mask`
/// masks what has the form of a credential.
///
/// JSON is `{session, children, totalMessages, boundaries, revertedAtID, skipped, messages}`, with messages as
/// [`super::history::ShownMessage`], one a line. The others hold the turns and items of the ledger, or those that an import
/// would make, and begin with what could not be read. A document says where it cannot hold everything: see
/// [`filrouge_document`].
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
        Form::Json => json(library, &catalog, entry, mask, out),
        Form::Markdown => document(library, entry, mask, filrouge_document::markdown, out),
        Form::Html => document(library, entry, mask, filrouge_document::html, out),
    }
}

fn opening(session: Row, children: Vec<String>, of: &Conversation) -> Opening {
    let id = |at: usize| of.messages.get(at).map(|m| m.id.to_string());
    let boundaries = of.boundaries.iter().map(|boundary| Cutting {
        before: id(boundary.at),
        created: boundary.created,
        automatic: boundary.automatic,
        summary: boundary.summary_id.as_deref().map(str::to_owned),
    });
    Opening {
        session,
        children,
        total_messages: of.messages.len(),
        boundaries: boundaries.collect(),
        reverted_at: of.reverted_at.and_then(id),
        skipped: of.skipped.clone(),
    }
}

fn json(
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
        shows: Shows {
            tool_output: true,
            reasoning: true,
            synthetic: true,
            steps: true,
            mask,
        },
        paged: Paged::History,
    };
    let session = Row::of(&entry.header).masked(mask);
    let children = children(catalog, entry, &conversation);
    let opening = opening(session, children, &conversation);
    let opening = serde_json::to_string(&opening).map_err(io::Error::from)?;
    let opening = opening.strip_suffix('}').unwrap_or(&opening);
    write!(out, "{opening},\"messages\":[")?;
    for (n, index) in view.list.iter().enumerate() {
        out.write_all(if n == 0 { b"\n" } else { b",\n" })?;
        // The reason of a failed write is the output's, not JSON's.
        let message = serde_json::to_vec(&view.whole(*index)).map_err(io::Error::from)?;
        out.write_all(&message)?;
    }
    out.write_all(b"\n]}\n")?;
    Ok(())
}

fn document(
    library: &Library,
    entry: &Entry,
    mask: bool,
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let recorded = recorded::of(library, entry, mask)?;
    let mut text = String::new();
    // A text in memory takes whatever is written.
    let _ = write(&recorded, &mut text);
    Ok(out.write_all(text.as_bytes())?)
}
