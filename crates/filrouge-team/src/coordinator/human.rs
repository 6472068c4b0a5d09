//! What humans say.

use filrouge_types::{ErrorCode, Failure};

use super::conversation::Conversation;
use super::event::TeamEvent;
use super::invalid;
use super::speech::json_bytes;
use crate::markers::Marked;
use crate::message::{Message, MessageId};
use crate::record::Status;
use crate::team::Member;

impl Conversation {
    /// The human who is waited for, else the first one.
    pub(super) fn human(&self) -> Result<&Member, Failure> {
        let asked = self.waiting_for.as_deref();
        let human = asked.and_then(|id| self.team.member(id));
        let human = human.or_else(|| self.team.first_human());
        human.ok_or_else(|| invalid("the team has no human"))
    }

    pub(super) async fn say(&mut self, text: &str) -> Result<Option<MessageId>, Failure> {
        let human = self.human()?.clone();
        if text.trim().is_empty() {
            return Err(invalid("there is nothing to say"));
        }
        let (bytes, most) = (json_bytes(text), self.settings.message_bytes);
        if bytes > most {
            let what = format!("the message has {bytes} bytes, and may have {most}");
            let hint = "put the long part into a file, and name that";
            return Err(Failure::new(ErrorCode::LimitExceeded, what).with_hint(hint));
        }
        let marked = Marked::read(text, &self.team, &human.id);
        if let Some(task) = &marked.team_task {
            self.set_task(Some(task), &human.id).await?;
        }
        let says_something = !marked.content.is_empty() || !marked.addressed.is_empty();
        if !says_something {
            self.drop_waiting(marked.dropped.as_ref());
            return Ok(None);
        }
        let message = self.keep(&human, &marked).await?;
        let id = message.id.clone();
        self.drop_waiting(marked.dropped.as_ref());
        self.agent_turns = 0;
        self.route(&message, &marked, &human).await;
        Ok(Some(id))
    }

    async fn keep(&mut self, human: &Member, marked: &Marked) -> Result<Message, Failure> {
        if let Some(task) = &self.first_task {
            self.record.task(Some(task)).await?;
            self.first_task = None;
        }
        let routing = marked.routing(self.floor_of.clone());
        let message = self.message(human.speaker(), marked.content.clone(), routing);
        self.record.message(&message).await?;
        self.context().add(message.clone())?;
        self.note_speaker(&message);
        self.tell(TeamEvent::Said(message.clone()));
        Ok(message)
    }

    async fn route(&mut self, message: &Message, marked: &Marked, human: &Member) {
        let addressed = self.queue_addressed(message, marked);
        let names_nobody = marked.addressed.is_empty();
        if names_nobody && let Some(agent) = self.partner_of(&human.id) {
            self.queue_one(&agent, message, None);
        }
        if self.status != Status::Paused {
            return;
        }
        if names_nobody || addressed {
            // With nobody to answer, the floor comes back at once.
            self.go_on();
        } else {
            self.hand_over(Some(human.id.clone())).await;
        }
    }

    /// Who answers a human who addresses nobody: the agent who spoke to them last, else the first one.
    fn partner_of(&self, human: &str) -> Option<Box<str>> {
        let last = self.spoke_to.get(human).and_then(|id| self.team.member(id));
        let agent = last.filter(|member| member.is_agent());
        let agent = agent.or_else(|| self.team.first_agent());
        agent.map(|member| member.id.clone())
    }
}
