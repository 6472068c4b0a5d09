//! A record in memory, whose calls can be made to fail.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use filrouge_team::message::Message;
use filrouge_team::record::{AgentError, Record, Speech, State};
use filrouge_types::{ErrorCode, Failure};

/// A call that the record has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Message(Message),
    Task(Option<String>),
    Begin(String),
    /// The ended message, and all text that was appended before.
    End(Message, String, Option<AgentError>),
    HandOver(State),
    Close(State),
}

impl Call {
    /// The call as one line, for comparisons.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Message(message) => format!("{}: {}", message.speaker.name, message.content),
            Self::Task(task) => format!("task {task:?}"),
            Self::Begin(id) => format!("begin {id}"),
            Self::End(message, ..) => format!("end {}: {}", message.speaker.name, message.content),
            Self::HandOver(state) => {
                format!("hand over to {}", state.waiting_for.as_deref().unwrap())
            }
            Self::Close(state) => format!("close {:?}", state.status),
        }
    }
}

#[derive(Debug, Default)]
struct RecordState {
    calls: Vec<Call>,
    failing: Vec<&'static str>,
}

/// The record; its clones share their calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryRecord(Arc<Mutex<RecordState>>);

impl MemoryRecord {
    /// The successful calls, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().calls.clone()
    }

    /// The successful calls, in order, each as one line.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.calls().iter().map(Call::line).collect()
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

    /// Adds a call, unless calls of this name are to fail.
    fn add(&self, name: &str, call: Call) -> Result<(), Failure> {
        self.check(name)?;
        self.0.lock().unwrap().calls.push(call);
        Ok(())
    }
}

#[async_trait]
impl Record for MemoryRecord {
    fn session_id(&self) -> &str {
        "session-1"
    }

    async fn write_message(&self, message: &Message) -> Result<(), Failure> {
        self.add("message", Call::Message(message.clone()))
    }

    async fn begin_message(&self, message: &Message) -> Result<Box<dyn Speech>, Failure> {
        assert_eq!((&*message.content, message.cut), ("", None));
        self.add("begin", Call::Begin(message.id.to_string()))?;
        Ok(Box::new(MemorySpeech(self.clone(), String::new())))
    }

    async fn write_task(&self, task: Option<&str>) -> Result<(), Failure> {
        self.add("task", Call::Task(task.map(Into::into)))
    }

    async fn hand_over(&self, state: &State) -> Result<(), Failure> {
        self.add("hand_over", Call::HandOver(state.clone()))
    }

    async fn close(&self, state: &State) -> Result<(), Failure> {
        self.add("close", Call::Close(state.clone()))
    }
}

/// A message that is being spoken: the record, and the text so far.
struct MemorySpeech(MemoryRecord, String);

#[async_trait]
impl Speech for MemorySpeech {
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
        let end = Call::End(message.clone(), self.1, error.cloned());
        self.0.add("end", end)
    }
}
