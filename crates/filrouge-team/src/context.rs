//! What a team's conversation is: what is restored, exported and told to agents.

use crate::message::Message;

/// The team task has at most so many bytes.
pub const TEAM_TASK_BYTES_MAX: usize = 5 << 10;

/// What is carried over a restart (DESIGN §11): messages and the team task. No queue, no running agents, no todos.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// What was said, in the order it was said.
    pub messages: Vec<Message>,
    /// What the team works on; at most [`TEAM_TASK_BYTES_MAX`] bytes.
    pub team_task: Option<Box<str>>,
}
