//! What sessions amount to: `get_session_stats`, `filrouge stats`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::list::{Ask, Row};
use super::{Library, LibraryError};
use crate::{Changes, TokenRule, Tokens};

/// What a tool was used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolUse {
    /// Calls.
    pub calls: u64,
    /// Calls that ended in an error.
    pub errors: u64,
}

/// What a model cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelUse {
    /// Messages it wrote.
    pub messages: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// Their cost in US dollars.
    pub cost: f64,
}

/// Sums over messages, each counted once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sums {
    /// Sessions.
    pub sessions: u64,
    /// Messages.
    pub message_count: u64,
    /// Messages of the user.
    pub user_messages: u64,
    /// Parts.
    pub part_count: u64,
    /// Parts by their type.
    pub parts_by_type: BTreeMap<String, u64>,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in US dollars, as the programs reckon.
    pub cost: f64,
    /// Messages that ended in an error.
    pub errors: u64,
    /// Agents by their messages.
    pub agents: BTreeMap<String, u64>,
    /// Models.
    pub models: BTreeMap<String, ModelUse>,
    /// Tools.
    pub tools: BTreeMap<String, ToolUse>,
    /// What was changed.
    pub changes: Changes,
    /// Milliseconds in which agents were at work: the sum of their messages' times, pauses left out.
    pub active: i64,
}

/// Statistics of one session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionStats {
    /// The session.
    pub session: Row,
    /// Milliseconds from its making to its last change.
    pub duration: i64,
    /// Its agents.
    pub agents: Vec<String>,
    /// Its own tokens.
    pub tokens: Tokens,
    /// What it changed.
    pub changes: Changes,
    /// Its own messages.
    pub message_count: u64,
    /// Its own parts.
    pub part_count: u64,
    /// The session alone.
    pub own: Sums,
    /// With all it has started.
    pub with_descendants: Sums,
    /// With all it has started, without messages that were copied from elsewhere.
    pub without_copies: Sums,
    /// How tokens were read.
    pub token_rules: Vec<TokenRule>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// A day's share, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// `2026-11-21`.
    pub date: String,
    /// Messages.
    pub messages: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in US dollars.
    pub cost: f64,
}

/// Statistics of many sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// All of them.
    pub all: Sums,
    /// All of them, without messages that were copied from elsewhere.
    pub without_copies: Sums,
    /// By program.
    pub by_source: BTreeMap<String, Sums>,
    /// By project, the largest first.
    pub by_project: Vec<(String, Sums)>,
    /// Day by day, of originals alone.
    pub days: Vec<Day>,
    /// How tokens were read.
    pub token_rules: Vec<TokenRule>,
    /// What was left out, in words.
    pub notices: Vec<String>,
}

/// Statistics of one session and what it has started.
///
/// # Errors
/// [`LibraryError`]: no such session, or it cannot be read.
pub fn session(library: &Library, session_id: &str) -> Result<SessionStats, LibraryError> {
    let _ = (library, session_id);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}

/// Statistics of all sessions that `ask` lets through; its limit and cursor are not looked at.
///
/// # Errors
/// [`LibraryError::Invalid`].
pub fn overview(library: &Library, ask: &Ask) -> Result<Overview, LibraryError> {
    let _ = (library, ask);
    Err(LibraryError::Invalid("not built yet".to_owned()))
}
