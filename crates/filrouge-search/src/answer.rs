//! What a search answers.

use filrouge_sources::Role;
use filrouge_sources::library::list::Row;
use serde::Serialize;

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
    /// `title`, `text`, `reasoning`, `tool_input`, `tool_output`, `tool_error`, `tool_title`, `tool` (its name),
    /// `file`, `patch`, `summary`, `error`, `other`.
    pub field: String,
    /// Who said it.
    pub role: Option<Role>,
    /// The tool.
    pub tool: Option<String>,
    /// When, milliseconds since 1970.
    pub created: Option<i64>,
    /// The item of the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Where in the field the hit begins, in characters.
    pub offset: usize,
    /// The text around it, the hit between `«` and `»`.
    pub text: String,
    /// Of the ledger: what its records are to say.
    #[serde(skip)]
    pub(crate) claim: Option<Claim>,
}

/// What a copy of the ledger's texts says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The first item of the message; `None` for a title.
    pub(crate) message: Option<u64>,
    /// [`crate::Spoken::print`] of the text.
    pub(crate) print: u64,
}

/// A session in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The session.
    #[serde(flatten)]
    pub session: Row,
    /// How many messages of it match; the title counts as one. 0 for what was found by its meaning alone, or by some of
    /// the words.
    pub matches: usize,
    /// Whether `matches` was counted; else it is estimated.
    pub exact: bool,
    /// The first excerpts.
    pub excerpts: Vec<Excerpt>,
}

/// One page of sessions in which something was found, the best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The sessions.
    pub sessions: Vec<Hit>,
    /// How many sessions there are on all pages, also those that were found by their meaning alone.
    pub total_sessions: usize,
    /// How many messages and titles hold what is looked for in all: the sum of `matches`.
    pub total_matches: usize,
    /// Whether the totals were counted; else they are estimated from what was looked through, and better with what this
    /// page has looked through beside. A page keeps nothing for the next: the last of several is no surer than the first.
    /// Where one page shows everything, and all of it was looked through, they are counted.
    pub exact: bool,
    /// Everything that was said until then was looked through, milliseconds since 1970; `null` where everything was looked
    /// through as it is.
    pub as_of: Option<i64>,
    /// Goes on behind this page; `null` on the last.
    pub next_cursor: Option<String>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}
