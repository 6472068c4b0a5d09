//! What was said in a session: `get_session_history`, `filrouge sessions show`.
//!
//! Pages both ways, within a budget of characters; whatever is cut says so and names the cursor that goes on.

use serde::Serialize;

use super::list::Row;
use super::{Library, LibraryError};
use crate::{Changes, Role, Tokens, ToolStatus};

/// The budget when none is given: about 10,000 tokens.
pub const MAX_CHARS: usize = 40_000;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The session.
    pub session_id: String,
    /// Where to go on: `nextCursor` or `previousCursor` of a page.
    pub cursor: Option<String>,
    /// Begin with the newest page and go back.
    pub newest_first: bool,
    /// At most so many messages; 0: as many as the budget takes.
    pub limit: usize,
    /// At most so many characters of text on the page; 0 means [`MAX_CHARS`].
    pub max_chars: usize,
    /// What tools gave.
    pub tool_output: bool,
    /// What the agent thought.
    pub reasoning: bool,
    /// What the program put in.
    pub synthetic: bool,
    /// What the user has taken back.
    pub reverted: bool,
    /// Masks what has the form of a credential.
    pub mask: bool,
}

impl Ask {
    /// Everything but reasoning and synthetic text, from the start, masked.
    #[must_use]
    pub fn of(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            cursor: None,
            newest_first: false,
            limit: 0,
            max_chars: 0,
            tool_output: true,
            reasoning: true,
            synthetic: true,
            reverted: true,
            mask: true,
        }
    }
}

/// A part as it is shown. Which fields there are depends on `type`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ShownPart {
    /// Its id.
    pub id: String,
    /// `text`, `reasoning`, `tool`, `file`, `patch`, `compaction`, or the foreign name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Text, reasoning, or a compaction's summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the program put the text in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// A tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The id of a tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// What a tool call came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// A tool's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A tool's arguments, JSON as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What a tool gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// A tool's error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the program took the output away from the model; it stands here in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<i64>,
    /// The session a tool call has started.
    #[serde(rename = "childSessionID", skip_serializing_if = "Option::is_none")]
    pub child_session_id: Option<String>,
    /// An attached file's address or name, or the files of a patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// How many characters were cut here, and the cursor that shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// A text that was cut: never silently.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cut {
    /// Characters that are not shown.
    pub chars: usize,
    /// Shows what follows.
    pub cursor: String,
}

/// A message as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ShownMessage {
    /// Its id.
    pub id: String,
    /// Who it is from.
    pub role: Role,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it was complete.
    pub completed: Option<i64>,
    /// The agent.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The message it answers.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// Its tokens.
    pub tokens: Option<Tokens>,
    /// Its cost in US dollars.
    pub cost: Option<f64>,
    /// The error it ended in.
    pub error: Option<String>,
    /// Whether it is the summary that a compaction made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Whether the model no longer sees it: it is before the last compaction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compacted: bool,
    /// Whether a compaction has cut right before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub boundary: bool,
    /// Whether the user has taken it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reverted: bool,
    /// Its parts.
    pub parts: Vec<ShownPart>,
}

/// One page of a conversation, oldest message first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The session.
    pub session: Row,
    /// The sessions it has started, in order.
    pub children: Vec<String>,
    /// The messages of this page.
    pub messages: Vec<ShownMessage>,
    /// How many messages there are in all.
    pub total_messages: usize,
    /// What it changed in all, where known.
    pub changes: Option<Changes>,
    /// Goes on behind this page; `null` at the end.
    pub next_cursor: Option<String>,
    /// Goes on before this page; `null` at the start.
    pub previous_cursor: Option<String>,
    /// What was left out or cut, in words.
    pub notices: Vec<String>,
}

/// One page of a conversation.
///
/// # Errors
/// [`LibraryError`]: no such session, a cursor that is none, a session that cannot be read.
pub fn history(library: &Library, ask: &Ask) -> Result<History, LibraryError> {
    let _ = (library, ask);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
