//! The port for recording a team's conversation as it happens (DESIGN §11): each message when it is said, the state at
//! each hand-over.

use async_trait::async_trait;
use filrouge_types::Result;
use serde::{Deserialize, Serialize};

use crate::message::{Cut, Message};

filrouge_types::words!(
    /// The status of a session.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Status: "status of a team" {
        /// A member speaks, or is about to.
        Active => "active",
        /// The session waits for a human.
        Paused => "paused",
        /// The session has ended.
        Completed => "completed",
    }
);

/// The state that is recorded at a hand-over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The session's status.
    pub status: Status,
    /// The id of the human who has the floor; `None` if nobody is waited for.
    pub waiting_for: Option<Box<str>>,
    /// The task that the team works on; `None` if there is none.
    pub team_task: Option<Box<str>>,
}

/// Records one session. The implementation has the session's lease. Once the lease is lost, every call fails with
/// `stale_fence` or `lease_expired`, and nothing more is written.
#[async_trait]
pub trait Record: Send + Sync {
    /// The session's id.
    fn session_id(&self) -> &str;

    /// Records a complete message: a human's or the application's. A human's first message after a hand-over begins a
    /// turn.
    ///
    /// # Errors
    /// The ledger's: the message is then not recorded.
    async fn write_message(&self, message: &Message) -> Result<()>;

    /// Begins an agent's message: `message` has no content yet. Its text is recorded while it grows, so that a crash
    /// leaves an interrupted message.
    ///
    /// # Errors
    /// The ledger's.
    async fn begin_message(&self, message: &Message) -> Result<Box<dyn Speech>>;

    /// Records the team task; `None` clears it. Like a message, it survives a crash.
    ///
    /// # Errors
    /// `limit_exceeded` for a task of more than [`TEAM_TASK_BYTES_MAX`](crate::context::TEAM_TASK_BYTES_MAX) bytes, and
    /// the ledger's: the previous task then stays.
    async fn write_task(&self, task: Option<&str>) -> Result<()>;

    /// Ends the turn, records the state in which a human has the floor, and writes the snapshot file.
    ///
    /// # Errors
    /// The ledger's. A snapshot that cannot be written is no error: it is reported as a warning.
    async fn hand_over(&self, state: &State) -> Result<()>;

    /// Ends the turn, records the state with which the session is closed, writes the snapshot file and releases the
    /// session.
    ///
    /// # Errors
    /// As [`Record::hand_over`].
    async fn close(&self, state: &State) -> Result<()>;
}

/// An agent's message that is still growing.
#[async_trait]
pub trait Speech: Send {
    /// Appends `text` to the message. Returns before the text is written, which happens at a bounded interval.
    ///
    /// # Errors
    /// The ledger's.
    async fn append(&mut self, text: &str) -> Result<()>;

    /// Ends the message. `message` is its final form: the complete text without markers, and why it was cut, if it was.
    /// `error` describes the agent's failure ([`Cut::Failed`]).
    ///
    /// # Errors
    /// The ledger's: the text that [`Speech::append`] has written stays.
    async fn end(self: Box<Self>, message: &Message, error: Option<&AgentError>) -> Result<()>;
}

/// The failure of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentError {
    /// `agent_exit`, `agent_signal`, `agent_timeout`, `agent_not_started`, `agent_output`.
    pub code: &'static str,
    /// The failure in words for people: the exit code, the end of stderr.
    pub detail: Box<str>,
    /// The reason why the message is cut.
    pub cut: Cut,
}
