//! Who said what, anywhere: `search_sessions`, `filrouge search`. A plain scan with full recall.
//!
//! Words (any order, all of them within one message or title), `"phrases"` and `/regex/` (linear time), any case.

use serde::Serialize;

use super::list::Row;
use super::{Library, LibraryError};
use crate::Role;

/// What is asked for. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Words, `"a phrase"`, `/regex/` or `/regex/i`; also `-word`.
    pub query: String,
    /// Only what this agent's sessions and messages say.
    pub agent: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// Only calls of this tool.
    pub tool: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only messages at this time or later.
    pub since: Option<i64>,
    /// Only messages before this time.
    pub until: Option<i64>,
    /// Only of this program.
    pub source: Option<String>,
    /// Not this session, most often the caller's own.
    pub exclude_session: Option<String>,
    /// Only this session.
    pub session_id: Option<String>,
    /// At most so many sessions; 0 means the default, 20.
    pub limit: usize,
    /// At most so many excerpts of a session; 0 means the default, 5.
    pub excerpts: usize,
    /// Where to go on: `nextCursor` of the page before.
    pub cursor: Option<String>,
    /// Masks what has the form of a credential in excerpts.
    pub mask: bool,
}

/// A place where something was found, with what stands around it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// The message; `null` for a title.
    #[serde(rename = "messageID")]
    pub message_id: Option<String>,
    /// The part.
    #[serde(rename = "partID")]
    pub part_id: Option<String>,
    /// `sessionID:messageID`, to ask the history for.
    pub place: String,
    /// `title`, `text`, `reasoning`, `tool_input`, `tool_output`, `tool_error`, `tool_title`, `file`, `patch`, `summary`.
    pub field: String,
    /// Who said it.
    pub role: Option<Role>,
    /// The tool.
    pub tool: Option<String>,
    /// When, milliseconds since 1970.
    pub created: Option<i64>,
    /// Where in the field it begins, in characters.
    pub offset: usize,
    /// The text around it, the hit between `«` and `»`.
    pub text: String,
}

/// A session in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// How many messages of it match; the title counts as one.
    pub matches: usize,
    /// The first excerpts.
    pub excerpts: Vec<Excerpt>,
}

/// One page of sessions in which something was found, the last changed first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The sessions.
    pub sessions: Vec<Hit>,
    /// How many sessions match on all pages.
    pub total_sessions: usize,
    /// How many messages and titles match in all.
    pub total_matches: usize,
    /// Goes on behind this page; `null` on the last.
    pub next_cursor: Option<String>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// Searches everything there is.
///
/// # Errors
/// [`LibraryError::Invalid`] for a query or a cursor that cannot be understood; it names the character.
pub fn search(library: &Library, ask: &Ask) -> Result<Results, LibraryError> {
    let _ = (library, ask);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
