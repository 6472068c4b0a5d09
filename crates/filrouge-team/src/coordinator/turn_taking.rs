//! Turn-taking: selects the next speaker.

use filrouge_types::Failure;

use super::conversation::{CommandReceiver, Conversation};
use super::event::{TeamEvent, UnrecordedContent, Warning};
use crate::markers::{Dropped, ParsedText};
use crate::message::{Intent, Message, Routing, Speaker, SpeakerKind};
use crate::queue::Route;
use crate::record::Status;

impl Conversation {
    /// Lets the next member of the queue speak. If the queue is empty, the first human gets the floor.
    pub(super) async fn serve_next(&mut self, commands: &mut CommandReceiver) {
        let Some(route) = self.queue.first().cloned() else {
            return self.hand_over(None).await;
        };
        let team = std::sync::Arc::clone(&self.team);
        match team.member(&route.member_id) {
            // An agent stays in the queue until it has begun to speak.
            Some(agent) if agent.is_agent() => {
                if self.agent_turns >= team.max_agent_turns {
                    self.take_floor_from_agents().await;
                } else {
                    self.speak(route, agent, commands).await;
                }
            }
            human => {
                self.remove_first();
                self.next_parent = Some(route.parent);
                self.hand_over(human.map(|human| human.id.clone())).await;
            }
        }
    }

    /// Removes the next member from the queue.
    pub(super) fn remove_first(&mut self) {
        self.queue.pop();
        self.report_queue();
    }

    /// Gives a human the floor, and records it; `None` means the first human.
    pub(super) async fn hand_over(&mut self, to: Option<Box<str>>) {
        self.pause(to);
        let state = self.state();
        if let Err(failure) = self.record.hand_over(&state).await {
            self.report_not_recorded(UnrecordedContent::HandOver, &failure);
        }
        self.send_event(TeamEvent::HandedOver(state));
    }

    /// Gives the first human the floor after a failure of the ledger. Unlike [`hand_over`](Self::hand_over), it records
    /// nothing; the next hand-over records the state.
    pub(super) fn pause_without_recording(&mut self) {
        self.pause(None);
        self.send_event(TeamEvent::HandedOver(self.state()));
    }

    fn pause(&mut self, to: Option<Box<str>>) {
        let first = || self.team.first_human().map(|human| human.id.clone());
        self.waiting_for = to.or_else(first);
        self.status = Status::Paused;
    }

    /// Gives the first human the floor after too many messages of agents in a row, and adds a note about it.
    async fn take_floor_from_agents(&mut self) {
        let limit = self.team.max_agent_turns;
        let human = self.team.first_human();
        let human = human.map_or("a human", |human| &*human.name);
        let content =
            format!("{limit} messages of agents have followed one another: {human} has the floor.");
        self.send_event(TeamEvent::Warning(Warning::AgentTurns { limit }));
        self.add_note(content.into()).await;
        self.hand_over(None).await;
    }

    /// Adds a message of the application to the history.
    async fn add_note(&mut self, content: Box<str>) {
        let speaker = Speaker {
            id: "system".into(),
            name: "filrouge".into(),
            kind: SpeakerKind::System,
        };
        let routing = Routing::answering(self.next_parent.clone());
        let note = self.new_message(speaker, content, routing);
        if let Err(failure) = self.record.write_message(&note).await {
            self.report_not_recorded(UnrecordedContent::Note(note.id.clone()), &failure);
        }
        let added = self.context().add(note.clone());
        debug_assert!(added.is_ok(), "ids are allocated once");
        self.send_event(TeamEvent::Said(note));
    }

    /// Queues the members whom a message addresses; returns whether it addresses any. Reports unknown names.
    pub(super) fn queue_addressed(&mut self, message: &Message, parsed: &ParsedText) -> bool {
        let unknown: Vec<Box<str>> = parsed.unresolved().map(Into::into).collect();
        if !unknown.is_empty() {
            let members = self.team.members.iter();
            self.send_event(TeamEvent::Warning(Warning::Unresolved {
                id: message.id.clone(),
                identifiers: unknown,
                members: members.map(|member| member.name.clone()).collect(),
            }));
        }
        let mut has_members = false;
        for addressed in &parsed.addressed {
            if let Some(id) = &addressed.addressee.member_id {
                self.queue_member(id, message, addressed.intent);
                has_members = true;
            }
        }
        has_members
    }

    pub(super) fn queue_member(&mut self, id: &str, message: &Message, intent: Option<Intent>) {
        self.queue.push(Route {
            member_id: id.into(),
            parent: message.id.clone(),
            by: message.speaker.id.clone(),
            intent: intent.unwrap_or(Intent::Reply),
        });
        self.report_queue();
    }

    /// Removes members from the queue, and reports how many; `None` removes nobody.
    pub(super) fn drop_queued(&mut self, dropped: Option<&Dropped>) {
        let count = match dropped {
            None => return,
            Some(Dropped::All) => self.queue.clear(),
            Some(Dropped::Members(ids)) => ids.iter().map(|id| self.queue.remove(id)).sum(),
        };
        if count > 0 {
            self.send_event(TeamEvent::Warning(Warning::Dropped { count }));
            self.report_queue();
        }
    }

    pub(super) fn drop_all_queued(&mut self) {
        self.drop_queued(Some(&Dropped::All));
    }

    fn report_queue(&self) {
        let queue = self.queue.iter().cloned().collect();
        self.send_event(TeamEvent::Queue(queue));
    }

    /// Sets the team task in the conversation and in the ledger. If the ledger refuses it, the previous task stays.
    pub(super) async fn set_task(&mut self, task: Option<&str>, by: &str) -> Result<(), Failure> {
        let previous_task = self.context().team_task().map(str::to_owned);
        self.context().set_team_task(task)?;
        let task: Option<Box<str>> = self.context().team_task().map(Into::into);
        if let Err(failure) = self.record.write_task(task.as_deref()).await {
            self.context().set_team_task(previous_task.as_deref())?;
            return Err(failure);
        }
        self.unrecorded_task = None;
        let by = by.into();
        self.send_event(TeamEvent::TaskSet { task, by });
        Ok(())
    }
}
