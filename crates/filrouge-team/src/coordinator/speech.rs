//! An agent's speech: from its prompt to its complete message.

use filrouge_types::{ErrorCode, Failure};

use super::commands::{Reply, SessionCommand};
use super::conversation::{CommandReceiver, Conversation};
use super::event::{TeamEvent, UnrecordedContent, Warning};
use crate::agent::{Agent, AgentExit};
use crate::markers::{MarkerReader, ParsedText};
use crate::message::{Cut, Message, MessageId, Routing};
use crate::prompt::PromptBuilder;
use crate::queue::Route;
use crate::record::{AgentError, Speech, Status};
use crate::team::{Command, Member, MemberKind};

/// The reason why the conversation stopped reading an agent's output.
enum StopReason {
    /// The agent has ended.
    Ended,
    /// The message has reached its size limit.
    TooLong,
    /// The turn was cancelled.
    Cancelled(Reply<bool>),
    /// The session is being closed with this status.
    Closed(Status, Reply<()>),
    /// The coordinator was dropped.
    Abandoned,
}

/// The state of an agent's message while it grows.
struct GrowingMessage {
    id: MessageId,
    reader: MarkerReader,
    speech: Box<dyn Speech>,
    /// Bytes, in JSON form, by which the message may still grow.
    remaining_bytes: usize,
    /// Whether the ledger accepted all text so far.
    is_recorded: bool,
}

impl Conversation {
    /// Lets an agent answer the message that `route` names. Executes session commands meanwhile.
    pub(super) async fn speak(
        &mut self,
        route: Route,
        agent: &Member,
        commands: &mut CommandReceiver,
    ) {
        let MemberKind::Agent(agent_command) = &agent.kind else {
            return;
        };
        let builder = PromptBuilder::new(&self.team, self.settings.window);
        let prompt = builder.prompt(&self.context(), agent, &route.parent);
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(failure) => return self.report_not_begun(&failure),
        };
        let routing = Routing::answering(Some(route.parent.clone()));
        let mut message = self.new_message(agent.speaker(), "".into(), routing);
        let speech = match self.record.begin_message(&message).await {
            Ok(speech) => speech,
            Err(failure) => return self.report_not_begun(&failure),
        };
        self.remove_first();
        self.agent_turns += 1;
        self.send_event(TeamEvent::Began(message.clone()));
        let mut growing = GrowingMessage {
            id: message.id.clone(),
            reader: MarkerReader::default(),
            speech,
            remaining_bytes: self.settings.message_bytes,
            is_recorded: true,
        };
        let (stop, exit) = self
            .run_agent(agent_command, prompt, &mut growing, commands)
            .await;
        let reader = std::mem::take(&mut growing.reader);
        let (remaining_text, parsed) = reader.finish(&self.team, &agent.id);
        self.add_text(&mut growing, &remaining_text).await;
        message.content = parsed.content.clone();
        message.routing = parsed.routing(Some(route.parent));
        message.cut = match &stop {
            StopReason::Cancelled(_) | StopReason::Closed(..) => Some(Cut::Cancelled),
            StopReason::Abandoned => Some(Cut::Interrupted),
            StopReason::Ended | StopReason::TooLong => exit.error.as_ref().map(|error| error.cut),
        };
        let recorded = growing.speech.end(&message, exit.error.as_ref()).await;
        self.finish_speech(message, &parsed, (stop, exit), recorded)
            .await;
    }

    /// Reports that an agent's message could not begin, and pauses the conversation.
    fn report_not_begun(&mut self, failure: &Failure) {
        self.report_not_recorded(UnrecordedContent::Begin, failure);
        self.pause_without_recording();
    }

    /// Runs the agent until its output ends or it is stopped; returns the reason why reading stopped, and the exit of
    /// the agent.
    async fn run_agent(
        &mut self,
        agent_command: &Command,
        prompt: String,
        growing: &mut GrowingMessage,
        commands: &mut CommandReceiver,
    ) -> (StopReason, AgentExit) {
        let mut agent = match Agent::start(agent_command, prompt, self.settings.agent).await {
            Ok(agent) => agent,
            Err(error) => {
                let exit = AgentExit {
                    error: Some(error),
                    ..AgentExit::default()
                };
                return (StopReason::Ended, exit);
            }
        };
        let stop = self.read_output(&mut agent, growing, commands).await;
        let mut exit = match stop {
            StopReason::Ended => agent.end().await,
            _ => agent.kill().await,
        };
        if let StopReason::TooLong = stop {
            exit.error = Some(output_too_long(self.settings.message_bytes));
        }
        (stop, exit)
    }

    /// Passes the agent's output on to the message until it ends, reaches the size limit, or a command stops the agent.
    async fn read_output(
        &mut self,
        agent: &mut Agent,
        growing: &mut GrowingMessage,
        commands: &mut CommandReceiver,
    ) -> StopReason {
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    None => return StopReason::Abandoned,
                    Some(SessionCommand::Cancel(reply)) => return StopReason::Cancelled(reply),
                    Some(SessionCommand::Close(status, reply)) => return StopReason::Closed(status, reply),
                    Some(command) => self.execute(command).await,
                },
                text = agent.next() => {
                    let Some(text) = text else { return StopReason::Ended };
                    let fitting_text = longest_fitting_prefix(&text, growing.remaining_bytes);
                    growing.remaining_bytes -= json_bytes(fitting_text);
                    let visible_text = growing.reader.push(fitting_text);
                    self.add_text(growing, &visible_text).await;
                    if fitting_text.len() < text.len() {
                        return StopReason::TooLong;
                    }
                }
            }
        }
    }

    /// Shows and records more text. A failed write is only logged, because the end of the message records the complete
    /// text.
    async fn add_text(&self, growing: &mut GrowingMessage, text: &str) {
        if text.is_empty() {
            return;
        }
        self.send_event(TeamEvent::Text {
            id: growing.id.clone(),
            text: text.into(),
        });
        if growing.is_recorded
            && let Err(failure) = growing.speech.append(text).await
        {
            growing.is_recorded = false;
            tracing::warn!(%failure, "an agent's text is not recorded before its message ends");
        }
    }

    /// Adds an agent's ended message to the conversation, and continues as `stop` requires. `recorded` is the result of
    /// recording its end.
    async fn finish_speech(
        &mut self,
        message: Message,
        parsed: &ParsedText,
        (stop, exit): (StopReason, AgentExit),
        recorded: Result<(), Failure>,
    ) {
        let AgentExit {
            error, replaced, ..
        } = exit;
        let id = message.id.clone();
        let is_complete = message.cut.is_none();
        let added = self.context().add(message.clone());
        debug_assert!(added.is_ok(), "ids are allocated once");
        self.update_last_speaker(&message);
        self.send_event(TeamEvent::Ended {
            message: message.clone(),
            error,
        });
        if replaced > 0 {
            let id = id.clone();
            self.send_event(TeamEvent::Warning(Warning::Malformed { id, replaced }));
        }
        let recorded = recorded
            .map_err(|failure| self.report_not_recorded(UnrecordedContent::Message(id), &failure));
        match stop {
            StopReason::Ended | StopReason::TooLong => {
                let queue_continues = is_complete && self.execute_markers(&message, parsed).await;
                if recorded.is_err() {
                    self.pause_without_recording();
                } else if !queue_continues {
                    self.hand_over(None).await;
                }
            }
            StopReason::Cancelled(reply) => {
                self.drop_all_queued();
                self.hand_over(None).await;
                let _ = reply.send(Ok(true));
            }
            StopReason::Closed(status, reply) => {
                self.execute(SessionCommand::Close(status, reply)).await;
            }
            StopReason::Abandoned => self.close_abandoned().await,
        }
    }

    /// Executes an agent's markers; returns whether the queue continues to be served.
    async fn execute_markers(&mut self, message: &Message, parsed: &ParsedText) -> bool {
        self.drop_queued(parsed.dropped.as_ref());
        let mut is_task_recorded = true;
        if let Some(task) = &parsed.team_task {
            match self.set_task(Some(task), &message.speaker.id).await {
                Ok(()) => {}
                Err(failure) if failure.code == ErrorCode::LimitExceeded => {
                    self.send_event(TeamEvent::Warning(Warning::TaskRefused(failure)));
                }
                Err(failure) => {
                    self.report_not_recorded(UnrecordedContent::Task, &failure);
                    is_task_recorded = false;
                }
            }
        }
        let addressed = self.queue_addressed(message, parsed);
        is_task_recorded && (addressed || parsed.addressed.is_empty())
    }
}

fn output_too_long(limit: usize) -> AgentError {
    AgentError {
        code: "agent_output",
        detail: format!("it said more than the {limit} bytes that a message may have").into(),
        cut: Cut::Failed,
    }
}

/// The size of a text in JSON, in bytes.
pub(super) fn json_bytes(text: &str) -> usize {
    text.chars().map(json_char_bytes).sum()
}

const fn json_char_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// The longest prefix of the text that fits into `remaining_bytes` bytes of JSON.
fn longest_fitting_prefix(text: &str, remaining_bytes: usize) -> &str {
    let mut remaining_bytes = remaining_bytes;
    for (index, c) in text.char_indices() {
        match remaining_bytes.checked_sub(json_char_bytes(c)) {
            Some(remaining) => remaining_bytes = remaining,
            None => return text.get(..index).unwrap_or_default(),
        }
    }
    text
}
