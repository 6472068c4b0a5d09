//! The conversation of a team: members speak one after another until a human has the floor (DESIGN §11).
//!
//! ```text
//! let (coordinator, mut events) = Coordinator::start(clock, Settings::default(), team, record, restored)?;
//! coordinator.say("[NEXT: bob] how far are we?").await?;          // recorded; now bob speaks
//! while let Some(event) = events.recv().await { … }              // until TeamEvent::HandedOver
//! coordinator.cancel().await?;                                   // at any time: stops the speaker
//! coordinator.leave().await?;                                    // the session can be resumed; stop() ends it
//! ```
//!
//! Rules, in this order:
//! - The members whom a message addresses ([`markers`](crate::markers)) are queued
//!   ([`RoutingQueue`](crate::queue::RoutingQueue)), and the queue is served one by one. When it is a human's turn,
//!   this human has the floor, and the rest of the queue waits.
//! - A human's message without addressees is answered by the agent who last spoke to this human, else by the first
//!   agent.
//! - When the queue is empty, the first human has the floor. This also applies when a message names only unknown
//!   members, when an agent has failed, when a turn was cancelled, and when agents have spoken
//!   [`max_agent_turns`](crate::team::Team::max_agent_turns) times without a human.
//! - The [`Record`] records everything in the order in which it happens. A failed write pauses the conversation and is
//!   reported.

mod commands;
mod conversation;
mod event;
mod human;
mod speech;
mod turn_taking;

use std::sync::{Arc, Mutex};

use filrouge_types::{Clock, ErrorCode, Failure, lock};
use tokio::sync::{mpsc, oneshot};

use crate::agent::AgentSettings;
use crate::context::{ContextManager, Restored};
use crate::message::{Message, MessageId, SpeakerKind};
use crate::prompt::Window;
use crate::record::{Record, Status};
use crate::team::Team;
use commands::SessionCommand;
use conversation::Conversation;
pub use event::{FormerSpeaker, TeamEvent, UnrecordedContent, Warning};

/// Settings of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The part of the history that agents receive.
    pub window: Window,
    /// The settings for stopping agents.
    pub agent: AgentSettings,
    /// Size limit of a message, in bytes of its JSON form; an agent that says more is stopped.
    pub message_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Window::default(),
            agent: AgentSettings::default(),
            // The ledger's default limit for an item, minus room for the parts of the item that are not the message's
            // text.
            message_bytes: (16 << 20) - (64 << 10),
        }
    }
}

/// Runs a team's conversation. Dropping it kills the speaking agent, keeps its text as interrupted, and releases the
/// session. A task does this, which does not finish if the runtime stops; [`leave`](Self::leave) waits for it.
pub struct Coordinator {
    team: Arc<Team>,
    context: Arc<Mutex<ContextManager>>,
    commands: mpsc::UnboundedSender<SessionCommand>,
}

impl Coordinator {
    /// Begins a team's session, or continues a `restored` one, in a separate task. At first, the queue is empty, no
    /// member speaks, and the first human has the floor. Needs a tokio runtime. The caller must receive the events:
    /// their channel is unbounded.
    ///
    /// # Errors
    /// `invalid`: the history is not valid ([`ContextManager::from_restored`]), or the team has no human.
    pub fn start(
        clock: Arc<dyn Clock>,
        settings: Settings,
        team: Team,
        record: Arc<dyn Record>,
        restored: Option<Restored>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<TeamEvent>), Failure> {
        let (events, receiver) = mpsc::unbounded_channel();
        let team = Arc::new(team);
        let is_new = restored.is_none();
        let context = ContextManager::from_restored(restored.unwrap_or_default())?;
        let former = former_speakers(&team, &context);
        let context = Arc::new(Mutex::new(context));
        let conversation = Conversation::new(
            Arc::clone(&team),
            record,
            Arc::clone(&context),
            events,
            (clock, settings),
            is_new,
        )?;
        if !former.is_empty() {
            conversation.send_event(TeamEvent::FormerSpeakers(former));
        }
        let (commands, received_commands) = mpsc::unbounded_channel();
        tokio::spawn(conversation.run(received_commands));
        let coordinator = Self {
            team,
            context,
            commands,
        };
        Ok((coordinator, receiver))
    }

    /// Adds a message of the human who has the floor, else of the first human. Returns the message's id once the
    /// message is recorded. While an agent speaks, the members who are to answer the message are queued.
    ///
    /// A text that has only markers, none of which names an addressee, adds no message: the markers take effect, and
    /// the result is `None`.
    ///
    /// # Errors
    /// `invalid`: the text is blank; `limit_exceeded`: it is longer than [`Settings::message_bytes`]; the ledger's
    /// errors. On an error no message is added.
    pub async fn say(&self, text: &str) -> Result<Option<MessageId>, Failure> {
        let text = text.into();
        self.send(|reply| SessionCommand::Say(text, reply)).await
    }

    /// Sets the team task; `None` clears it.
    ///
    /// # Errors
    /// `limit_exceeded`: it is longer than [`TEAM_TASK_BYTES_MAX`](crate::context::TEAM_TASK_BYTES_MAX); the ledger's
    /// errors. On an error the previous task stays.
    pub async fn set_team_task(&self, task: Option<&str>) -> Result<(), Failure> {
        let task = task.map(Into::into);
        self.send(|reply| SessionCommand::SetTeamTask(task, reply))
            .await
    }

    /// Continues with the queued members; returns whether there are any.
    ///
    /// # Errors
    /// `invalid`: the session was closed.
    pub async fn resume(&self) -> Result<bool, Failure> {
        self.send(SessionCommand::Resume).await
    }

    /// Stops the speaker and every process that they started. Their text is kept as cancelled, the queue is emptied,
    /// and the first human has the floor when this returns. Returns whether a member was speaking.
    ///
    /// # Errors
    /// `invalid`: the session was closed.
    pub async fn cancel(&self) -> Result<bool, Failure> {
        self.send(SessionCommand::Cancel).await
    }

    /// Ends the session: cancels as [`cancel`](Self::cancel) does, then closes the session as completed.
    ///
    /// # Errors
    /// The ledger's: the session is then paused, and `stop` can be called again.
    pub async fn stop(&self) -> Result<(), Failure> {
        self.send(|reply| SessionCommand::Close(Status::Completed, reply))
            .await
    }

    /// Leaves the session: as [`stop`](Self::stop), but closes it as paused, so that it can be resumed.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn leave(&self) -> Result<(), Failure> {
        self.send(|reply| SessionCommand::Close(Status::Paused, reply))
            .await
    }

    /// The team.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// The task that the team works on.
    pub fn team_task(&self) -> Option<Box<str>> {
        lock(&self.context).team_task().map(Into::into)
    }

    /// The newest `count` messages, the oldest of them first.
    pub fn newest(&self, count: usize) -> Vec<Message> {
        lock(&self.context).newest(count).to_vec()
    }

    /// The number of messages.
    pub fn message_count(&self) -> usize {
        lock(&self.context).messages().len()
    }

    /// Sends a command, and waits for the reply.
    async fn send<T>(
        &self,
        command: impl FnOnce(commands::Reply<T>) -> SessionCommand,
    ) -> Result<T, Failure> {
        let session_closed = || invalid("the session was closed").with_hint("open it again");
        let (reply_tx, reply_rx) = oneshot::channel();
        self.commands
            .send(command(reply_tx))
            .map_err(|_| session_closed())?;
        reply_rx.await.map_err(|_| session_closed())?
    }
}

/// The speakers in the history who are not members of the team, each once.
fn former_speakers(team: &Team, context: &ContextManager) -> Vec<FormerSpeaker> {
    let mut former_speakers: Vec<FormerSpeaker> = Vec::new();
    for message in context.messages() {
        let speaker = &message.speaker;
        let is_known = speaker.kind == SpeakerKind::System
            || team.member_who_spoke(speaker).is_some()
            || former_speakers.iter().any(|former| former.id == speaker.id);
        if !is_known {
            former_speakers.push(FormerSpeaker {
                id: speaker.id.clone(),
                name: speaker.name.clone(),
            });
        }
    }
    former_speakers
}

fn invalid(detail: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Invalid, detail)
}
