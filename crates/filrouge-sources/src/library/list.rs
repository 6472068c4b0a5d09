//! Which sessions there are: `list_sessions`, `filrouge sessions list`.

use serde::Serialize;

use super::{Library, LibraryError};
use crate::Changes;

/// What is asked for. Absent filters let everything through; times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Part of the title, any case; the project's name when no title holds it.
    pub session_name: Option<String>,
    /// A project's id, name, or folder.
    pub project_id: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// Only what this session has started.
    pub parent_id: Option<String>,
    /// Only sessions that no other has started.
    pub roots: bool,
    /// Only archived ones, or only others.
    pub archived: Option<bool>,
    /// Only of this program.
    pub source: Option<String>,
    /// Only those changed at this time or later.
    pub since: Option<i64>,
    /// Only those made before this time.
    pub until: Option<i64>,
    /// At most so many; 0 means the default, 50.
    pub limit: usize,
    /// Where to go on: `nextCursor` of the page before.
    pub cursor: Option<String>,
}

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The session's id.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it last changed.
    pub updated: i64,
    /// The agent of its first message.
    pub agent: Option<String>,
    /// The session that has started it.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// What it changed.
    pub summary: Option<Changes>,
    /// The program that wrote it.
    pub source: String,
    /// The form it is stored in.
    pub generation: String,
    /// Its project's id.
    #[serde(rename = "projectID")]
    pub project_id: Option<String>,
    /// Its project's name, or the last folder of its path.
    pub project_name: Option<String>,
    /// The folder it ran in.
    pub directory: Option<String>,
    /// The version of the program.
    pub version: Option<String>,
    /// When it was archived.
    pub archived: Option<i64>,
}

/// One page of sessions, the last changed first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// The sessions.
    pub sessions: Vec<Row>,
    /// How many there are on all pages.
    pub total: usize,
    /// The project that all sessions found are of, if it is one.
    #[serde(rename = "projectID")]
    pub project_id: Option<String>,
    /// Goes on behind this page; `null` on the last.
    pub next_cursor: Option<String>,
    /// What could not be read, counted by reason, and sources that do not answer.
    pub notices: Vec<String>,
}

/// Lists sessions.
///
/// # Errors
/// [`LibraryError::Invalid`] for a cursor that is none.
pub fn list(library: &Library, ask: &Ask) -> Result<Sessions, LibraryError> {
    let _ = (library, ask);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
