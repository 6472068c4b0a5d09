//! A team's conversation: the part that is restored, exported and shown to agents.

use std::collections::HashMap;

use filrouge_types::{ErrorCode, Failure};

use crate::message::{Message, MessageId};

/// Size limit of the team task, in bytes.
pub const TEAM_TASK_BYTES_MAX: usize = 5 << 10;

/// A session's restored state, for [`Coordinator::start`](crate::coordinator::Coordinator::start).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// The messages and the team task.
    pub context: TeamState,
    /// The highest N of any `msg-N` ever used in the session, redacted ones included; 0 if there was none.
    pub highest_message: u64,
}

/// The state that survives a restart (DESIGN §11): messages and the team task. The queue, running agents and todos do
/// not survive it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TeamState {
    /// All messages, in the order in which they were said.
    pub messages: Vec<Message>,
    /// The task that the team works on; at most [`TEAM_TASK_BYTES_MAX`] bytes.
    pub team_task: Option<Box<str>>,
}

/// A session's messages, by id. Adding a message and looking one up take constant time, however long the session is.
#[derive(Debug, Clone, Default)]
pub struct ContextManager {
    messages: Vec<Message>,
    positions: HashMap<MessageId, usize>,
    /// The N of the newest id `msg-N`: the next message gets the number after it.
    highest_number: u64,
    team_task: Option<Box<str>>,
}

/// The N of `msg-N`; `None` for any other id.
pub fn message_number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("msg-")?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

impl ContextManager {
    /// A context with the messages and the task of a restored session.
    ///
    /// # Errors
    /// `invalid`: two messages have the same id; `limit_exceeded`: the task is longer than [`TEAM_TASK_BYTES_MAX`].
    pub fn from_restored(restored: Restored) -> Result<Self, Failure> {
        let TeamState {
            messages,
            team_task,
        } = restored.context;
        let mut context = Self {
            highest_number: restored.highest_message,
            ..Self::default()
        };
        context.set_team_task(team_task.as_deref())?;
        for message in messages {
            context.add(message)?;
        }
        Ok(context)
    }

    /// Appends a message.
    ///
    /// # Errors
    /// `invalid`: a message with this id exists.
    pub fn add(&mut self, message: Message) -> Result<(), Failure> {
        let index = self.messages.len();
        if self.positions.contains_key(&message.id) {
            let detail = format!("there are two messages {:?}", message.id);
            return Err(Failure::new(ErrorCode::Invalid, detail));
        }
        self.positions.insert(message.id.clone(), index);
        let number = message_number(&message.id).unwrap_or(0);
        self.highest_number = self.highest_number.max(number);
        self.messages.push(message);
        Ok(())
    }

    /// Allocates the next message's id. An id is never reused, even if its message is dropped.
    pub fn allocate_id(&mut self) -> MessageId {
        self.highest_number = self.highest_number.saturating_add(1);
        format!("msg-{}", self.highest_number).into()
    }

    /// Sets the task that the team works on; `None` and blank text clear it.
    ///
    /// # Errors
    /// `limit_exceeded`: the task is longer than [`TEAM_TASK_BYTES_MAX`]. It is never cut; the previous task stays.
    pub fn set_team_task(&mut self, task: Option<&str>) -> Result<(), Failure> {
        let task = task.map(str::trim).filter(|task| !task.is_empty());
        if let Some(task) = task.filter(|task| task.len() > TEAM_TASK_BYTES_MAX) {
            let detail = format!(
                "the team task has {} bytes, at most {TEAM_TASK_BYTES_MAX} are allowed",
                task.len()
            );
            let hint = "put the long part into a file, and name that in the task";
            return Err(Failure::new(ErrorCode::LimitExceeded, detail).with_hint(hint));
        }
        self.team_task = task.map(Into::into);
        Ok(())
    }

    /// The task that the team works on.
    pub fn team_task(&self) -> Option<&str> {
        self.team_task.as_deref()
    }

    /// All messages, in the order in which they were said.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The newest `count` messages, the oldest of them first; all if there are fewer.
    pub fn newest(&self, count: usize) -> &[Message] {
        let begin = self.messages.len().saturating_sub(count);
        self.messages.get(begin..).unwrap_or_default()
    }

    /// Looks up a message by its id.
    pub fn by_id(&self, id: &str) -> Option<&Message> {
        self.messages.get(self.position(id)?)
    }

    /// The message's index in [`messages`](Self::messages).
    pub(crate) fn position(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    /// The indexes of the message's ancestors, the nearest first, at most `count`. A parent that is not earlier than
    /// its reply ends the chain, because foreign snapshots may contain cycles.
    pub(crate) fn ancestor_indexes(&self, id: &str, count: usize) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut parent_index = self.position(id);
        while let Some(index) = parent_index.filter(|_| chain.len() < count) {
            let message = self.messages.get(index);
            let parent = message.and_then(|m| m.routing.parent.as_ref());
            parent_index = parent.and_then(|parent| self.position(parent));
            parent_index = parent_index.filter(|parent| *parent < index);
            chain.extend(parent_index);
        }
        chain
    }
}

#[cfg(test)]
mod tests;
