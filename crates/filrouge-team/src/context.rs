//! What a team's conversation is: what is restored, exported and told to agents.

use std::collections::HashMap;

use filrouge_types::{ErrorCode, Failure};

use crate::message::{Message, MessageId};

/// The team task has at most so many bytes.
pub const TEAM_TASK_BYTES_MAX: usize = 5 << 10;

/// A session as it is found again, for [`Coordinator::start`](crate::coordinator::Coordinator::start).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// What is carried over.
    pub context: Context,
    /// The highest N of any `msg-N` that was ever in the session, redacted ones included; 0 if there was none.
    pub highest_message: u64,
}

/// What is carried over a restart (DESIGN §11): messages and the team task. No queue, no running agents, no todos.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// What was said, in the order it was said.
    pub messages: Vec<Message>,
    /// What the team works on; at most [`TEAM_TASK_BYTES_MAX`] bytes.
    pub team_task: Option<Box<str>>,
}

/// What was said in a session, by id. One message is added, and looked up, at the same cost however
/// long the session is.
#[derive(Debug, Clone, Default)]
pub struct ContextManager {
    messages: Vec<Message>,
    positions: HashMap<MessageId, usize>,
    highest: u64,
    team_task: Option<Box<str>>,
}

/// The N of `msg-N`; `None` of any other id.
#[must_use]
pub fn message_number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("msg-")?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

impl ContextManager {
    /// Nothing was said yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was carried over a restart.
    ///
    /// # Errors
    /// `invalid`: two messages have one id; `limit_exceeded`: the task is longer than [`TEAM_TASK_BYTES_MAX`].
    pub fn restored(restored: Restored) -> Result<Self, Failure> {
        let Context {
            messages,
            team_task,
        } = restored.context;
        let mut context = Self {
            highest: restored.highest_message,
            ..Self::default()
        };
        context.set_team_task(team_task.as_deref())?;
        for message in messages {
            context.add(message)?;
        }
        Ok(context)
    }

    /// Adds a message behind all others.
    ///
    /// # Errors
    /// `invalid`: there is one with this id.
    pub fn add(&mut self, message: Message) -> Result<(), Failure> {
        let at = self.messages.len();
        if self.positions.contains_key(&message.id) {
            let what = format!("there are two messages {:?}", message.id);
            return Err(Failure::new(ErrorCode::Invalid, what));
        }
        self.positions.insert(message.id.clone(), at);
        let number = message_number(&message.id).unwrap_or(0);
        self.highest = self.highest.max(number);
        self.messages.push(message);
        Ok(())
    }

    /// The next message's id. It is given out once, whatever becomes of that message.
    pub fn next_id(&mut self) -> MessageId {
        self.highest = self.highest.saturating_add(1);
        format!("msg-{}", self.highest).into()
    }

    /// Sets what the team works on; `None` and blanks: nothing in particular.
    ///
    /// # Errors
    /// `limit_exceeded`: it is longer than [`TEAM_TASK_BYTES_MAX`]. It is never cut; the one before stays.
    pub fn set_team_task(&mut self, task: Option<&str>) -> Result<(), Failure> {
        let task = task.map(str::trim).filter(|task| !task.is_empty());
        if let Some(task) = task.filter(|task| task.len() > TEAM_TASK_BYTES_MAX) {
            let what = format!(
                "the team task has {} bytes, and may have {TEAM_TASK_BYTES_MAX}",
                task.len()
            );
            let hint = "put the long part into a file, and name that in the task";
            return Err(Failure::new(ErrorCode::LimitExceeded, what).with_hint(hint));
        }
        self.team_task = task.map(Into::into);
        Ok(())
    }

    /// What the team works on.
    #[must_use]
    pub fn team_task(&self) -> Option<&str> {
        self.team_task.as_deref()
    }

    /// All messages, in the order they were said.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The last `count` messages.
    #[must_use]
    pub fn newest(&self, count: usize) -> &[Message] {
        let begin = self.messages.len().saturating_sub(count);
        self.messages.get(begin..).unwrap_or_default()
    }

    /// A message by its id.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Message> {
        self.messages.get(self.position(id)?)
    }

    /// Where the message stands among [`messages`](Self::messages).
    pub(crate) fn position(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    /// Where the message's ancestors stand, the nearest first. An ancestor that is not earlier than what answers it ends the
    /// chain: foreign snapshots may go round in a circle.
    pub(crate) fn chain(&self, id: &str, count: usize) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut at = self.position(id);
        while let Some(below) = at.filter(|_| chain.len() < count) {
            let message = self.messages.get(below);
            let parent = message.and_then(|m| m.routing.parent.as_ref());
            at = parent.and_then(|parent| self.position(parent));
            at = at.filter(|above| *above < below);
            chain.extend(at);
        }
        chain
    }
}

#[cfg(test)]
mod tests;
