//! Sums over messages.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Changes, Tokens};

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
    /// Agents by the messages they wrote.
    pub agents: BTreeMap<String, u64>,
    /// Models.
    pub models: BTreeMap<String, ModelUse>,
    /// Tools.
    pub tools: BTreeMap<String, ToolUse>,
    /// What was changed.
    pub changes: Changes,
    /// Milliseconds in which an agent was at work, pauses left out: the times of agents' messages, each from its
    /// making to its completion, or to the last time that its parts tell of. What overlaps counts once, also over
    /// several sessions: while a subagent works, its parent waits.
    pub active: i64,
}
