//! One session as a document: `export_session`, `filrouge export`.

use std::io::Write;

use super::{Library, LibraryError};

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Markdown.
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

/// Writes a session, whole. `mask` masks what has the form of a credential.
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
    let _ = (library, session_id, form, mask, out);
    Err(LibraryError::Invalid("not built yet".to_owned()).into())
}
