//! The conversation of a team: who speaks, one after another, until a human has the floor (DESIGN §11).
//!
//! ```text
//! let (mut coordinator, mut events) = Coordinator::new(clock, Settings::default());
//! let drift = coordinator.set_team(team, record, restored)?;     // paused, the first human is waited for
//! coordinator.start()?;                                          // spawns the conversation's task
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
use tokio::sync::{mpsc, oneshot, watch};

use crate::agent::AgentSettings;
use crate::context::{ContextManager, Restored};
use crate::message::{Message, MessageId};
use crate::prompt::Window;
use crate::queue::Route;
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

/// How a conversation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether somebody speaks, a human is waited for, or the session was closed.
    pub status: Status,
    /// Who is waited for: a human's id.
    pub waiting_for: Option<Box<str>>,
    /// Who speaks, and to what.
    pub running: Option<Running>,
    /// Who waits, the next one first.
    pub queue: Vec<Route>,
}

/// An agent that speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Who: a member's id.
    pub member_id: Box<str>,
    /// Its message.
    pub message_id: MessageId,
}

/// Holds a team's conversation. Dropped, it kills whoever speaks, keeps what they said as interrupted, and gives the session
/// free, as far as the runtime lets it; [`leave`](Self::leave) waits for that.
pub struct Coordinator {
    clock: Arc<dyn Clock>,
    settings: Settings,
    events: mpsc::UnboundedSender<TeamEvent>,
    prepared: Option<Conversation>,
    team: Option<Arc<Team>>,
    context: Arc<Mutex<ContextManager>>,
    standing: watch::Receiver<Standing>,
    orders: Option<mpsc::UnboundedSender<Order>>,
}

impl Coordinator {
    /// A coordinator without a team, and the events to come. They are to be received: they wait without limit.
    #[must_use]
    pub fn new(
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> (Self, mpsc::UnboundedReceiver<TeamEvent>) {
        let (events, received) = mpsc::unbounded_channel();
        let (_, standing) = watch::channel(Standing {
            status: Status::Completed,
            waiting_for: None,
            running: None,
            queue: Vec::new(),
        });
        let coordinator = Self {
            clock,
            settings,
            events,
            prepared: None,
            team: None,
            context: Arc::default(),
            standing,
            orders: None,
        };
        (coordinator, received)
    }

    /// Takes a team and what keeps its session: a new one, or one that is gone on with. Then the queue is empty, nobody
    /// speaks, the status is paused, and the first human is waited for. Gives the speakers who are no members now, as
    /// [`TeamEvent::Drift`] does; their messages stay.
    ///
    /// # Errors
    /// `invalid`: the restored session is another team's, or not the one that `record` keeps, or its history cannot be taken
    /// ([`ContextManager::import_snapshot`]); the team has no human; another session is not closed.
    pub fn set_team(
        &mut self,
        team: Team,
        record: Arc<dyn Record>,
        resume: Option<Restored>,
    ) -> Result<Vec<Drifted>, Failure> {
        if self.orders.is_some() && self.status() != Status::Completed {
            return Err(invalid("another session goes on").with_hint("stop it, or leave it"));
        }
        let team = Arc::new(team);
        let restored = resume.is_some();
        let context = match resume {
            None => ContextManager::new(),
            Some(resume) => imported(&team, record.session_id(), resume)?,
        };
        let drift = drifted(&team, &context);
        let context = Arc::new(Mutex::new(context));
        let (conversation, standing) = Conversation::new(
            Arc::clone(&team),
            record,
            Arc::clone(&context),
            self.events.clone(),
            (Arc::clone(&self.clock), self.settings),
            restored,
        )?;
        self.prepared = Some(conversation);
        self.team = Some(team);
        self.context = context;
        self.standing = standing;
        self.orders = None;
        if !drift.is_empty() {
            // Nobody has to look.
            let _ = self.events.send(TeamEvent::Drift(drift.clone()));
        }
        Ok(drift)
    }

    /// Begins: the first human is told to have the floor. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid`: there is no team, or it was started.
    pub fn start(&mut self) -> Result<(), Failure> {
        let conversation = self.prepared.take();
        let conversation = conversation
            .ok_or_else(|| invalid("there is nothing to start").with_hint("set a team first"))?;
        let (orders, received) = mpsc::unbounded_channel();
        self.orders = Some(orders);
        tokio::spawn(conversation.run(received));
        Ok(())
    }

    /// The human who is waited for, else the first one, says something. Gives the message's id when it is kept; `None` when the
    /// text has but markers that address nobody, which do what they do. While an agent speaks, it is queued behind.
    ///
    /// # Errors
    /// `invalid`: there is no text; `limit_exceeded`: it is longer than [`Settings::message_bytes`]; the ledger's. Nothing
    /// was said then.
    pub async fn say(&self, text: &str) -> Result<Option<MessageId>, Failure> {
        let text = text.into();
        self.order(|reply| Order::Say(None, text, reply)).await
    }

    /// As [`say`](Self::say), by this human.
    ///
    /// # Errors
    /// As [`say`](Self::say); `invalid`: no human has this id.
    pub async fn say_as(&self, human: &str, text: &str) -> Result<Option<MessageId>, Failure> {
        let (human, text) = (Some(human.into()), text.into());
        self.order(|reply| Order::Say(human, text, reply)).await
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

    /// Has no other agent speak: when the one who speaks has ended, the first human has the floor. Those who wait stay.
    ///
    /// # Errors
    /// `invalid`: there is no session.
    pub async fn pause(&self) -> Result<(), Failure> {
        self.order(Order::Pause).await
    }

    /// Goes on with those who wait; whether there are any.
    ///
    /// # Errors
    /// `invalid`: there is no session.
    pub async fn resume(&self) -> Result<bool, Failure> {
        self.order(Order::Resume).await
    }

    /// Stops whoever speaks, with all that they started: what they said is kept as cancelled, those who wait wait no more, and
    /// the first human has the floor when this returns. Whether somebody spoke.
    ///
    /// # Errors
    /// `invalid`: there is no session.
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

    /// Whether somebody speaks, a human is waited for, or the session was closed.
    #[must_use]
    pub fn status(&self) -> Status {
        self.standing.borrow().status
    }

    /// The id of the human who is waited for.
    #[must_use]
    pub fn waiting_for(&self) -> Option<Box<str>> {
        self.standing.borrow().waiting_for.clone()
    }

    /// Who waits, the next one first.
    #[must_use]
    pub fn routing_queue(&self) -> Vec<Route> {
        self.standing.borrow().queue.clone()
    }

    /// How it stands, to look at and to wait for changes of.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// The team.
    #[must_use]
    pub fn team(&self) -> Option<&Team> {
        self.team.as_deref()
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
        let none = || invalid("there is no session").with_hint("set a team, and start it");
        let orders = self.orders.as_ref().ok_or_else(none)?;
        let (reply, answer) = oneshot::channel();
        orders.send(order(reply)).map_err(|_| none())?;
        answer.await.map_err(|_| none())?
    }
}

fn imported(team: &Team, session_id: &str, restored: Restored) -> Result<ContextManager, Failure> {
    if restored.team_id != team.id {
        let what = format!(
            "session {:?} is of the team {:?}, not of {:?}",
            restored.session_id, restored.team_id, team.id
        );
        let hint = "deploy the file of that team, or start a new session";
        return Err(invalid(what).with_hint(hint));
    }
    if &*restored.session_id != session_id {
        let what = format!(
            "session {:?} was restored, and {session_id:?} is kept",
            restored.session_id
        );
        return Err(invalid(what));
    }
    let mut context = ContextManager::new();
    context.import_snapshot(restored.context)?;
    context.never_below(restored.highest_message);
    Ok(context)
}

fn drifted(team: &Team, context: &ContextManager) -> Vec<Drifted> {
    let mut drift: Vec<Drifted> = Vec::new();
    for message in context.messages() {
        let speaker = &message.speaker;
        let known = speaker.kind == crate::message::SpeakerKind::System
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
