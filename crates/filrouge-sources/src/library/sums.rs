//! Sums over messages.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Changes, Tokens};

/// The use of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ToolUse {
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that ended in an error.
    pub errors: u64,
}

/// The use of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelUse {
    /// The number of messages it wrote.
    pub messages: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// Their cost in US dollars.
    pub cost: f64,
}

impl ModelUse {
    /// Adds `more`.
    pub(super) fn add(&mut self, more: &Self) {
        self.messages += more.messages;
        self.tokens.add(&more.tokens);
        self.cost += more.cost;
    }
}

/// Sums over messages, each counted once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sums {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of messages.
    pub message_count: u64,
    /// The number of the user's messages.
    pub user_messages: u64,
    /// The number of parts.
    pub part_count: u64,
    /// The number of parts of each type.
    pub parts_by_type: BTreeMap<String, u64>,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in US dollars, as the programs calculated it.
    pub cost: f64,
    /// The number of messages that ended in an error.
    pub errors: u64,
    /// The number of messages that each agent wrote.
    pub agents: BTreeMap<String, u64>,
    /// The use of each model.
    pub models: BTreeMap<String, ModelUse>,
    /// The use of each tool.
    pub tools: BTreeMap<String, ToolUse>,
    /// The changes that were made.
    pub changes: Changes,
    /// Milliseconds in which an agent was working, without pauses: the times of agents' messages, each from its
    /// creation to its completion, or to the last time of its parts. Overlaps count once, also over several sessions:
    /// while a subagent works, its parent waits.
    pub active: i64,
}
