//! The task that runs a conversation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use filrouge_types::{Clock, Failure, lock};
use tokio::sync::mpsc;

use super::commands::SessionCommand;
use super::event::{TeamEvent, UnrecordedContent};
use super::{Settings, invalid};
use crate::context::ContextManager;
use crate::message::{Message, MessageId, Routing, Speaker, SpeakerKind};
use crate::queue::RoutingQueue;
use crate::record::{Record, State, Status};
use crate::team::Team;

pub(super) type CommandReceiver = mpsc::UnboundedReceiver<SessionCommand>;

/// The state of a team's conversation, which one task owns.
pub(super) struct Conversation {
    pub(super) team: Arc<Team>,
    pub(super) record: Arc<dyn Record>,
    pub(super) context: Arc<Mutex<ContextManager>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Settings,
    pub(super) queue: RoutingQueue,
    pub(super) status: Status,
    /// The id of the human who has the floor; `None` while the queue is served.
    pub(super) waiting_for: Option<Box<str>>,
    /// The message that the next human message answers.
    pub(super) next_parent: Option<MessageId>,
    /// For each member, the agent who last spoke to them.
    pub(super) last_agent_to: HashMap<Box<str>, Box<str>>,
    /// The number of messages that agents have begun since a human last spoke or resumed the queue.
    pub(super) agent_turns: u32,
    /// The team file's task, until it is recorded with the first message: a session without messages leaves nothing in
    /// the ledger.
    pub(super) unrecorded_task: Option<Box<str>>,
    events: mpsc::UnboundedSender<TeamEvent>,
}

impl Conversation {
    pub(super) fn new(
        team: Arc<Team>,
        record: Arc<dyn Record>,
        context: Arc<Mutex<ContextManager>>,
        events: mpsc::UnboundedSender<TeamEvent>,
        (clock, settings): (Arc<dyn Clock>, Settings),
        is_new: bool,
    ) -> Result<Self, Failure> {
        let first_human = team.first_human().map(|human| human.id.clone());
        let first_human = first_human.ok_or_else(|| invalid("the team has no human"))?;
        let restored = Arc::clone(&context);
        let mut conversation = Self {
            unrecorded_task: team.task.clone().filter(|_| is_new),
            team,
            record,
            context,
            clock,
            settings,
            queue: RoutingQueue::default(),
            status: Status::Paused,
            waiting_for: Some(first_human),
            next_parent: None,
            last_agent_to: HashMap::new(),
            agent_turns: 0,
            events,
        };
        let mut context = lock(&restored);
        if let Some(task) = &conversation.unrecorded_task {
            context.set_team_task(Some(task))?;
        }
        for message in context.messages() {
            conversation.update_last_speaker(message);
        }
        Ok(conversation)
    }

    /// Updates `next_parent` and, if an agent spoke, `last_agent_to`. An agent who addressed nobody spoke to the first
    /// human.
    pub(super) fn update_last_speaker(&mut self, message: &Message) {
        if message.speaker.kind != SpeakerKind::System {
            self.next_parent = Some(message.id.clone());
        }
        if message.speaker.kind != SpeakerKind::Agent {
            return;
        }
        let addressees = message.routing.addressees.iter();
        let mut member_ids: Vec<Box<str>> = addressees
            .filter_map(|addressee| addressee.member_id.clone())
            .collect();
        if member_ids.is_empty() {
            member_ids.extend(self.team.first_human().map(|human| human.id.clone()));
        }
        let agent = self.team.member_who_spoke(&message.speaker);
        let agent = agent.map_or(&message.speaker.id, |member| &member.id);
        for id in member_ids {
            self.last_agent_to.insert(id, agent.clone());
        }
    }

    /// Serves the queue and commands until the session is closed or all senders of commands are dropped.
    pub(super) async fn run(mut self, mut commands: CommandReceiver) {
        self.send_event(TeamEvent::HandedOver(self.state()));
        while self.status != Status::Completed {
            if self.status == Status::Active {
                self.serve_next(&mut commands).await;
                continue;
            }
            match commands.recv().await {
                Some(command) => self.execute(command).await,
                None => self.close_abandoned().await,
            }
        }
    }

    /// Executes a command, and sends its result: if the caller no longer waits, the result is lost. While an agent
    /// speaks, `read_output` first stops the agent if the command cancels or closes.
    pub(super) async fn execute(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Say(text, reply) => {
                let _ = reply.send(self.say(&text).await);
            }
            SessionCommand::SetTeamTask(task, reply) => {
                let by = self.current_human().map(|human| human.id.clone());
                let result = match by {
                    Ok(by) => self.set_task(task.as_deref(), &by).await,
                    Err(failure) => Err(failure),
                };
                let _ = reply.send(result);
            }
            SessionCommand::Resume(reply) => {
                let has_queued = !self.queue.is_empty();
                if has_queued && self.status == Status::Paused {
                    self.serve_queue();
                }
                let _ = reply.send(Ok(has_queued));
            }
            SessionCommand::Cancel(reply) => {
                self.drop_all_queued();
                if self.status == Status::Active {
                    self.hand_over(None).await;
                }
                let _ = reply.send(Ok(false));
            }
            SessionCommand::Close(status, reply) => {
                let _ = reply.send(self.close(status).await);
            }
        }
    }

    /// Closes the session as paused: all senders of commands were dropped.
    pub(super) async fn close_abandoned(&mut self) {
        if self.close(Status::Paused).await.is_err() {
            // The failure was reported; the lease expires.
            self.status = Status::Completed;
        }
    }

    /// Empties the queue and closes the session with this status. If this fails, the session is paused and can be
    /// closed again.
    async fn close(&mut self, status: Status) -> Result<(), Failure> {
        self.drop_all_queued();
        self.waiting_for = self.team.first_human().map(|human| human.id.clone());
        self.status = Status::Paused;
        let state = State {
            status,
            ..self.state()
        };
        if let Err(failure) = self.record.close(&state).await {
            self.report_not_recorded(UnrecordedContent::HandOver, &failure);
            return Err(failure);
        }
        self.status = Status::Completed;
        self.send_event(TeamEvent::Closed(state));
        Ok(())
    }

    /// Starts to serve the queue: no human has the floor.
    pub(super) fn serve_queue(&mut self) {
        self.status = Status::Active;
        self.waiting_for = None;
        self.agent_turns = 0;
    }

    /// Creates a message with a new id and the current time.
    pub(super) fn new_message(
        &self,
        speaker: Speaker,
        content: Box<str>,
        routing: Routing,
    ) -> Message {
        Message {
            id: self.context().allocate_id(),
            at: self.clock.now(),
            speaker,
            content,
            routing,
            cut: None,
        }
    }

    pub(super) fn context(&self) -> MutexGuard<'_, ContextManager> {
        lock(&self.context)
    }

    /// Sends an event. If its receiver is gone, the event is lost and the conversation continues.
    pub(super) fn send_event(&self, event: TeamEvent) {
        let _ = self.events.send(event);
    }

    pub(super) fn state(&self) -> State {
        State {
            status: self.status,
            waiting_for: self.waiting_for.clone(),
            team_task: self.context().team_task().map(Into::into),
        }
    }

    /// Reports content that the ledger did not record.
    pub(super) fn report_not_recorded(&self, content: UnrecordedContent, failure: &Failure) {
        self.send_event(TeamEvent::NotKept {
            content,
            failure: failure.clone(),
        });
    }
}
