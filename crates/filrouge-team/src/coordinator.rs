//! The conversation of a team: who speaks, one after another, until a human has the floor (DESIGN §11).
//!
//! ```text
//! let (coordinator, mut events) = Coordinator::start(clock, Settings::default(), team, record, restored)?;
//! coordinator.say("[NEXT: bob] how far are we?").await?;          // kept; now bob speaks
//! while let Some(event) = events.recv().await { … }              // until TeamEvent::HandedOver
//! coordinator.cancel().await?;                                   // at any time: whoever speaks is stopped
//! coordinator.leave().await?;                                    // the session can go on tomorrow; stop() ends it
//! ```
//!
//! Rules, in this order:
//! - Whom a message addresses ([`markers`](crate::markers)) is queued ([`RoutingQueue`](crate::queue::RoutingQueue)); the queue is served one by one. A human who is
//!   served has the floor, the rest waits.
//! - A human's message that addresses nobody goes to the agent who spoke to them last, else to the first agent.
//! - When nobody waits any more, the first human has the floor. So they have when a message names only unknown members, when
//!   an agent has failed, when a turn was cancelled, and when agents have spoken
//!   [`max_agent_turns`](crate::team::Team::max_agent_turns) times without a human.
//! - Everything is kept through the [`Record`] in the order it happens. What is not kept pauses the conversation and is told.

mod conversation;
mod event;
mod floor;
mod human;
mod orders;
mod speech;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_types::{Clock, ErrorCode, Failure};
use tokio::sync::{mpsc, oneshot};

use crate::agent::AgentSettings;
use crate::context::{ContextManager, Restored};
use crate::message::{Message, MessageId, SpeakerKind};
use crate::prompt::Window;
use crate::record::{Record, Status};
use crate::team::Team;
use conversation::Conversation;
pub use event::{Drifted, NotKept, TeamEvent, Warning};
use orders::Order;

/// What a conversation goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How much of the history agents are told.
    pub window: Window,
    /// How agents are ended.
    pub agent: AgentSettings,
    /// A message has at most so many bytes, as JSON writes it; an agent that says more is ended.
    pub message_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Window::default(),
            agent: AgentSettings::default(),
            // The ledger's limit for an item, and room for what surrounds the text.
            message_bytes: (16 << 20) - (64 << 10),
        }
    }
}

/// Holds a team's conversation. Dropped, it kills whoever speaks, keeps what they said as interrupted, and releases the
/// session, as far as the runtime lets it; [`leave`](Self::leave) waits for that.
pub struct Coordinator {
    team: Arc<Team>,
    context: Arc<Mutex<ContextManager>>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Coordinator {
    /// Begins a team's session, or goes on with what was `restored` of it, in a task of its own: the queue is empty, nobody
    /// speaks, and the first human has the floor. Needs a tokio runtime. The events are to be received: they wait without
    /// limit.
    ///
    /// # Errors
    /// `invalid`: the history cannot be taken ([`ContextManager::restored`]), or the team has no human.
    pub fn start(
        clock: Arc<dyn Clock>,
        settings: Settings,
        team: Team,
        record: Arc<dyn Record>,
        restored: Option<Restored>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<TeamEvent>), Failure> {
        let (events, received) = mpsc::unbounded_channel();
        let team = Arc::new(team);
        let is_new = restored.is_none();
        let context = ContextManager::restored(restored.unwrap_or_default())?;
        let drift = drifted(&team, &context);
        let context = Arc::new(Mutex::new(context));
        let conversation = Conversation::new(
            Arc::clone(&team),
            record,
            Arc::clone(&context),
            events,
            (clock, settings),
            is_new,
        )?;
        if !drift.is_empty() {
            conversation.tell(TeamEvent::Drift(drift));
        }
        let (orders, to_obey) = mpsc::unbounded_channel();
        tokio::spawn(conversation.run(to_obey));
        let coordinator = Self {
            team,
            context,
            orders,
        };
        Ok((coordinator, received))
    }

    /// The human who is waited for, else the first one, says something. Gives the message's id when it is kept; `None` when the
    /// text has but markers that address nobody, which do what they do. While an agent speaks, it is queued behind.
    ///
    /// # Errors
    /// `invalid`: there is no text; `limit_exceeded`: it is longer than [`Settings::message_bytes`]; the ledger's. Nothing
    /// was said then.
    pub async fn say(&self, text: &str) -> Result<Option<MessageId>, Failure> {
        let text = text.into();
        self.order(|reply| Order::Say(text, reply)).await
    }

    /// Sets the team task; `None`: nothing in particular.
    ///
    /// # Errors
    /// `limit_exceeded`: it is longer than [`TEAM_TASK_BYTES_MAX`](crate::context::TEAM_TASK_BYTES_MAX); the ledger's. The one
    /// before stays then.
    pub async fn set_team_task(&self, task: Option<&str>) -> Result<(), Failure> {
        let task = task.map(Into::into);
        self.order(|reply| Order::Task(task, reply)).await
    }

    /// Goes on with those who wait; whether there are any.
    ///
    /// # Errors
    /// `invalid`: the session was closed.
    pub async fn resume(&self) -> Result<bool, Failure> {
        self.order(Order::Resume).await
    }

    /// Stops whoever speaks, with all that they started: what they said is kept as cancelled, those who wait wait no more, and
    /// the first human has the floor when this returns. Whether somebody spoke.
    ///
    /// # Errors
    /// `invalid`: the session was closed.
    pub async fn cancel(&self) -> Result<bool, Failure> {
        self.order(Order::Cancel).await
    }

    /// Ends the session: as [`cancel`](Self::cancel), then it is closed as completed.
    ///
    /// # Errors
    /// The ledger's: the session is paused then, and can be stopped again.
    pub async fn stop(&self) -> Result<(), Failure> {
        self.order(|reply| Order::Close(Status::Completed, reply))
            .await
    }

    /// Leaves the session: as [`stop`](Self::stop), but it is closed as paused, to go on another day.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn leave(&self) -> Result<(), Failure> {
        self.order(|reply| Order::Close(Status::Paused, reply))
            .await
    }

    /// The team.
    #[must_use]
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// What the team works on.
    #[must_use]
    pub fn team_task(&self) -> Option<Box<str>> {
        self.context().team_task().map(Into::into)
    }

    /// The newest `count` messages, the oldest of them first.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<Message> {
        self.context().newest(count).to_vec()
    }

    /// How many messages there are.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.context().messages().len()
    }

    fn context(&self) -> MutexGuard<'_, ContextManager> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn order<T>(&self, order: impl FnOnce(orders::Reply<T>) -> Order) -> Result<T, Failure> {
        let closed = || invalid("the session was closed").with_hint("open it again");
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

fn drifted(team: &Team, context: &ContextManager) -> Vec<Drifted> {
    let mut drift: Vec<Drifted> = Vec::new();
    for message in context.messages() {
        let speaker = &message.speaker;
        let known = speaker.kind == SpeakerKind::System
            || team.member(&speaker.id).is_some()
            || drift.iter().any(|one| one.id == speaker.id);
        if !known {
            drift.push(Drifted {
                id: speaker.id.clone(),
                name: speaker.name.clone(),
            });
        }
    }
    drift
}

fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Invalid, what)
}
