//! The port to what keeps a team's conversation while it happens (DESIGN §11): each message as it is said, the state at
//! each hand-over.

use async_trait::async_trait;
use filrouge_types::Failure;
use serde::{Deserialize, Serialize};

use crate::message::{Cut, Message};

filrouge_types::words!(
    /// How a session stands.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Status: "status of a team" {
        /// Somebody speaks, or is about to.
        Active => "active",
        /// It waits for a human.
        Paused => "paused",
        /// It has ended.
        Completed => "completed",
    }
);

/// The state that is kept at a hand-over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// How the session stands.
    pub status: Status,
    /// Who is waited for: a human's id.
    pub waiting_for: Option<Box<str>>,
    /// What the team works on.
    pub team_task: Option<Box<str>>,
}

/// Keeps one session. Whoever has it holds the session's lease; when that is lost every call fails with `stale_fence` or
/// `lease_expired`, and nothing more is written.
#[async_trait]
pub trait Record: Send + Sync {
    /// The session's id.
    fn session_id(&self) -> &str;

    /// Keeps a message that is whole: a human's or the application's. A human's first message after a hand-over begins
    /// a turn.
    ///
    /// # Errors
    /// The ledger's: then it is not kept.
    async fn message(&self, message: &Message) -> Result<(), Failure>;

    /// An agent begins to speak: `message` has no content yet. What it says is kept while it says it, so that a crash
    /// leaves it as an interrupted message.
    ///
    /// # Errors
    /// The ledger's.
    async fn begin(&self, message: &Message) -> Result<Box<dyn Speech>, Failure>;

    /// Keeps what the team works on from now on; `None`: on nothing in particular. It survives a crash like a message.
    ///
    /// # Errors
    /// `limit_exceeded` for one of more than [`TEAM_TASK_BYTES_MAX`](crate::context::TEAM_TASK_BYTES_MAX) bytes, and the
    /// ledger's: then the one before stays.
    async fn task(&self, task: Option<&str>) -> Result<(), Failure>;

    /// Keeps the state: a human has the floor now, or the session ends. Ends the turn, and writes the snapshot file.
    ///
    /// # Errors
    /// The ledger's. A snapshot that cannot be written is no error: it is told as a warning.
    async fn hand_over(&self, state: &State) -> Result<(), Failure>;

    /// Keeps the state and gives the session free.
    ///
    /// # Errors
    /// As [`Record::hand_over`].
    async fn close(&self, state: &State) -> Result<(), Failure>;
}

/// An agent's message that is being said.
#[async_trait]
pub trait Speech: Send {
    /// More of it has been said: `text` follows what was said before. Cheap: it is written at a bounded interval.
    ///
    /// # Errors
    /// The ledger's.
    async fn said(&mut self, text: &str) -> Result<(), Failure>;

    /// It has ended: `message` has all of its content, without markers, and says why it is not whole, if it is not. `error`
    /// says what the agent's failure was ([`Cut::Failed`]).
    ///
    /// # Errors
    /// The ledger's: what was written by [`Speech::said`] stays.
    async fn end(
        self: Box<Self>,
        message: &Message,
        error: Option<&AgentError>,
    ) -> Result<(), Failure>;
}

/// What an agent failed of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentError {
    /// `agent_exit`, `agent_signal`, `agent_timeout`, `agent_not_started`, `agent_output`.
    pub code: &'static str,
    /// What happened, for people: the exit code, the end of stderr.
    pub detail: Box<str>,
    /// How the message ends.
    pub cut: Cut,
}
