//! Where a session comes from and what it has started: `get_session_lineage`, `filrouge lineage`.

use serde::Serialize;

use super::list::Row;
use super::{Library, LibraryError};

/// How a relative is known to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The program recorded it.
    Recorded,
    /// From messages that were copied: same roles, times and tokens.
    Inferred,
}

/// A relative.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// Generations away: 1 for a parent or child.
    pub depth: usize,
    /// The message whose tool call started it.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// That tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// A fork: a session that begins with a copy of another's messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The other session.
    #[serde(flatten)]
    pub session: Row,
    /// How it is known.
    pub evidence: Evidence,
    /// How many messages were copied.
    pub copied_messages: usize,
}

/// The relatives of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// The session itself.
    pub session: Row,
    /// Its parents up to the root, the nearest first.
    pub parent_sessions: Vec<Relative>,
    /// All it has started, and what those have: each behind its parent.
    pub child_sessions: Vec<Relative>,
    /// Others that its parent has started.
    pub siblings: Vec<Relative>,
    /// What it was forked from, the nearest first.
    pub forked_from: Vec<Fork>,
    /// What was forked from it.
    pub forks: Vec<Fork>,
    /// Parents that are named and not there.
    pub gaps: Vec<String>,
    /// Whether parents lead round in a circle.
    pub cycle: bool,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// The lineage of a session.
///
/// # Errors
/// [`LibraryError::NoSession`].
pub fn lineage(library: &Library, session_id: &str) -> Result<Lineage, LibraryError> {
    let _ = (library, session_id);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
