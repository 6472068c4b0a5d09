//! A record that keeps everything in memory, and fails on command.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use filrouge_team::message::Message;
use filrouge_team::record::{AgentError, Record, Speech, State};
use filrouge_types::{ErrorCode, Failure};

/// The record's calls, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    Message(Message),
    Task(Option<String>),
    Begin(String),
    /// The ended message, and all text that was passed to `said`.
    End(Message, String, Option<AgentError>),
    HandOver(State),
    Close(State),
}

impl Kept {
    /// A short form, for comparisons.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Message(message) => format!("{}: {}", message.speaker.name, message.content),
            Self::Task(task) => format!("task {task:?}"),
            Self::Begin(id) => format!("begin {id}"),
            Self::End(message, ..) => format!("end {}: {}", message.speaker.name, message.content),
            Self::HandOver(state) => format!("over to {}", state.waiting_for.as_deref().unwrap()),
            Self::Close(state) => format!("close {:?}", state.status),
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    kept: Vec<Kept>,
    failing: Vec<&'static str>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Inner>>);

impl Memory {
    pub(crate) fn kept(&self) -> Vec<Kept> {
        self.0.lock().unwrap().kept.clone()
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.kept().iter().map(Kept::word).collect()
    }

    /// Makes these calls fail from now on.
    pub(crate) fn fail(&self, calls: &[&'static str]) {
        self.0.lock().unwrap().failing = calls.to_vec();
    }

    fn check(&self, call: &str) -> Result<(), Failure> {
        if self.0.lock().unwrap().failing.contains(&call) {
            return Err(Failure::new(ErrorCode::StoreUnavailable, call));
        }
        Ok(())
    }

    fn keep(&self, call: &str, what: Kept) -> Result<(), Failure> {
        self.check(call)?;
        self.0.lock().unwrap().kept.push(what);
        Ok(())
    }
}

#[async_trait]
impl Record for Memory {
    fn session_id(&self) -> &str {
        "session-1"
    }

    async fn message(&self, message: &Message) -> Result<(), Failure> {
        self.keep("message", Kept::Message(message.clone()))
    }

    async fn begin(&self, message: &Message) -> Result<Box<dyn Speech>, Failure> {
        assert_eq!((&*message.content, message.cut), ("", None));
        self.keep("begin", Kept::Begin(message.id.to_string()))?;
        Ok(Box::new(Said(self.clone(), String::new())))
    }

    async fn task(&self, task: Option<&str>) -> Result<(), Failure> {
        self.keep("task", Kept::Task(task.map(Into::into)))
    }

    async fn hand_over(&self, state: &State) -> Result<(), Failure> {
        self.keep("hand_over", Kept::HandOver(state.clone()))
    }

    async fn close(&self, state: &State) -> Result<(), Failure> {
        self.keep("close", Kept::Close(state.clone()))
    }
}

struct Said(Memory, String);

#[async_trait]
impl Speech for Said {
    async fn append(&mut self, text: &str) -> Result<(), Failure> {
        self.0.check("append")?;
        self.1.push_str(text);
        Ok(())
    }

    async fn end(
        self: Box<Self>,
        message: &Message,
        error: Option<&AgentError>,
    ) -> Result<(), Failure> {
        let end = Kept::End(message.clone(), self.1, error.cloned());
        self.0.keep("end", end)
    }
}
