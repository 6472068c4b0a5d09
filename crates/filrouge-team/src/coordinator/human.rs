//! Messages of humans.

use filrouge_types::{ErrorCode, Failure, Result};

use super::conversation::Conversation;
use super::event::TeamEvent;
use super::invalid;
use super::speech::json_bytes;
use crate::markers::ParsedText;
use crate::message::{Message, MessageId};
use crate::record::Status;
use crate::team::Member;

impl Conversation {
    /// The human who has the floor; the first human if nobody has it.
    pub(super) fn current_human(&self) -> Result<&Member> {
        let awaited = self.waiting_for.as_deref();
        let human = awaited.and_then(|id| self.team.member(id));
        let human = human.or_else(|| self.team.first_human());
        human.ok_or_else(|| invalid("the team has no human"))
    }

    /// Adds a human's message; see [`Coordinator::say`](super::Coordinator::say).
    pub(super) async fn say(&mut self, text: &str) -> Result<Option<MessageId>> {
        let human = self.current_human()?.clone();
        if text.trim().is_empty() {
            return Err(invalid("there is nothing to say"));
        }
        let (bytes, limit) = (json_bytes(text), self.settings.message_bytes);
        if bytes > limit {
            let detail = format!("the message has {bytes} bytes, at most {limit} are allowed");
            let hint = "put the long part into a file, and name that";
            return Err(Failure::new(ErrorCode::LimitExceeded, detail).with_hint(hint));
        }
        let parsed = ParsedText::parse(text, &self.team, &human.id);
        if let Some(task) = &parsed.team_task {
            self.set_task(Some(task), &human.id).await?;
        }
        if parsed.content.is_empty() && parsed.addressed.is_empty() {
            self.drop_queued(parsed.dropped.as_ref());
            return Ok(None);
        }
        let message = self.record_message(&human, &parsed).await?;
        let id = message.id.clone();
        self.drop_queued(parsed.dropped.as_ref());
        self.agent_turns = 0;
        self.route(&message, &parsed, &human).await;
        Ok(Some(id))
    }

    /// Records a message, and adds it to the conversation. If it is the session's first, records the team file's task
    /// before it.
    async fn record_message(&mut self, human: &Member, parsed: &ParsedText) -> Result<Message> {
        if let Some(task) = &self.unrecorded_task {
            self.record.write_task(Some(task)).await?;
            self.unrecorded_task = None;
        }
        let routing = parsed.routing(self.next_parent.clone());
        let message = self.new_message(human.speaker(), parsed.content.clone(), routing);
        self.record.write_message(&message).await?;
        self.context().add(message.clone())?;
        self.update_last_speaker(&message);
        self.send_event(TeamEvent::Said(message.clone()));
        Ok(message)
    }

    /// Queues the members who are to answer a human's message, and serves the queue if it was paused.
    async fn route(&mut self, message: &Message, parsed: &ParsedText, human: &Member) {
        let addressed = self.queue_addressed(message, parsed);
        let has_no_addressees = parsed.addressed.is_empty();
        if has_no_addressees && let Some(agent) = self.default_agent_for(&human.id) {
            self.queue_member(&agent, message, None);
        }
        if self.status != Status::Paused {
            return;
        }
        if has_no_addressees || addressed {
            // Without an agent to answer, the human has the floor again at once.
            self.serve_queue();
        } else {
            self.hand_over(Some(human.id.clone())).await;
        }
    }

    /// The agent who answers a human's message without addressees: the one who spoke to them last, else the first one.
    fn default_agent_for(&self, human: &str) -> Option<Box<str>> {
        let last = self.last_agent_to.get(human);
        let last = last.and_then(|id| self.team.member(id));
        let agent = last.filter(|member| member.is_agent());
        let agent = agent.or_else(|| self.team.first_agent());
        agent.map(|member| member.id.clone())
    }
}
