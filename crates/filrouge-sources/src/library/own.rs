//! Which session is the caller's own (DESIGN §12 MCP).

use std::path::Path;

use super::{Library, LibraryError};

/// What is known of the caller.
#[derive(Debug, Clone, Default)]
pub struct Caller<'a> {
    /// The session named in the call.
    pub named: Option<&'a str>,
    /// `FILROUGE_SESSION_ID`.
    pub from_environment: Option<&'a str>,
    /// The folder the caller works in.
    pub folder: Option<&'a Path>,
    /// The tool that is running now, as agents see it: most often `filrouge_get_compacted_context`.
    pub tool: Option<&'a str>,
}

/// The caller's own session: the named one, else that of the environment, else the session of this folder in which a
/// call of our tool is running now.
///
/// # Errors
/// [`LibraryError::Invalid`] when none or several could be meant; it names them.
pub fn own_session(library: &Library, caller: &Caller<'_>) -> Result<String, LibraryError> {
    let _ = (library, caller);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
