//! An agent's speech: from its prompt to its complete message.

use filrouge_types::{ErrorCode, Failure};

use super::commands::{Reply, SessionCommand, send_reply};
use super::conversation::{CommandReceiver, Conversation};
use super::event::{NotKept, TeamEvent, Warning};
use crate::agent::{Agent, AgentExit};
use crate::markers::{Marked, MarkerReader};
use crate::message::{Cut, Message, MessageId, Routing};
use crate::prompt::PromptBuilder;
use crate::queue::Route;
use crate::record::{AgentError, Speech, Status};
use crate::team::{Command, Member, MemberKind};

/// Why the conversation stopped reading an agent's output.
enum Stop {
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
    room: usize,
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
        let routing = Routing::to(Some(route.parent.clone()));
        let mut message = self.message(agent.speaker(), "".into(), routing);
        let speech = match self.record.begin(&message).await {
            Ok(speech) => speech,
            Err(failure) => return self.report_not_begun(&failure),
        };
        self.remove_first();
        self.agent_turns += 1;
        self.send_event(TeamEvent::Began(message.clone()));
        let mut growing = GrowingMessage {
            id: message.id.clone(),
            reader: MarkerReader::new(),
            speech,
            room: self.settings.message_bytes,
            is_recorded: true,
        };
        let (stop, exit) = self
            .run_agent(agent_command, prompt, &mut growing, commands)
            .await;
        let reader = std::mem::take(&mut growing.reader);
        let (rest, marked) = reader.finish(&self.team, &agent.id);
        self.add_text(&mut growing, &rest).await;
        message.content = marked.content.clone();
        message.routing = marked.routing(Some(route.parent));
        message.cut = match &stop {
            Stop::Cancelled(_) | Stop::Closed(..) => Some(Cut::Cancelled),
            Stop::Abandoned => Some(Cut::Interrupted),
            Stop::Ended | Stop::TooLong => exit.error.as_ref().map(|error| error.cut),
        };
        let recorded = growing.speech.end(&message, exit.error.as_ref()).await;
        self.finish_speech(message, &marked, (stop, exit), recorded)
            .await;
    }

    /// Reports that an agent's message could not begin, and pauses the conversation.
    fn report_not_begun(&mut self, failure: &Failure) {
        self.not_kept(NotKept::Begin, failure);
        self.halt();
    }

    /// Runs the agent until its output ends or it is stopped; returns why reading stopped, and how the agent ended.
    async fn run_agent(
        &mut self,
        agent_command: &Command,
        prompt: String,
        growing: &mut GrowingMessage,
        commands: &mut CommandReceiver,
    ) -> (Stop, AgentExit) {
        let mut agent = match Agent::start(agent_command, prompt, self.settings.agent).await {
            Ok(agent) => agent,
            Err(error) => {
                let exit = AgentExit {
                    error: Some(error),
                    ..AgentExit::default()
                };
                return (Stop::Ended, exit);
            }
        };
        let stop = self.read_output(&mut agent, growing, commands).await;
        let mut exit = match stop {
            Stop::Ended => agent.end().await,
            _ => agent.kill().await,
        };
        if let Stop::TooLong = stop {
            exit.error = Some(too_long(self.settings.message_bytes));
        }
        (stop, exit)
    }

    /// Passes the agent's output on to the message until it ends, reaches the size limit, or a command stops the agent.
    async fn read_output(
        &mut self,
        agent: &mut Agent,
        growing: &mut GrowingMessage,
        commands: &mut CommandReceiver,
    ) -> Stop {
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    None => return Stop::Abandoned,
                    Some(SessionCommand::Cancel(reply)) => return Stop::Cancelled(reply),
                    Some(SessionCommand::Close(status, reply)) => return Stop::Closed(status, reply),
                    Some(command) => self.execute(command).await,
                },
                text = agent.next() => {
                    let Some(text) = text else { return Stop::Ended };
                    let fits = fitting(&text, growing.room);
                    growing.room -= json_bytes(fits);
                    let shown = growing.reader.push(fits);
                    self.add_text(growing, &shown).await;
                    if fits.len() < text.len() {
                        return Stop::TooLong;
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
        marked: &Marked,
        (stop, exit): (Stop, AgentExit),
        recorded: Result<(), Failure>,
    ) {
        let AgentExit {
            error, replaced, ..
        } = exit;
        let id = message.id.clone();
        let is_complete = message.cut.is_none();
        let added = self.context().add(message.clone());
        debug_assert!(added.is_ok(), "ids are given out once");
        self.note_speaker(&message);
        self.send_event(TeamEvent::Ended {
            message: message.clone(),
            error,
        });
        if replaced > 0 {
            let id = id.clone();
            self.send_event(TeamEvent::Warning(Warning::Malformed { id, replaced }));
        }
        let recorded = recorded.map_err(|failure| self.not_kept(NotKept::Message(id), &failure));
        match stop {
            Stop::Ended | Stop::TooLong => {
                let queue_continues = is_complete && self.execute_markers(&message, marked).await;
                if recorded.is_err() {
                    self.halt();
                } else if !queue_continues {
                    self.hand_over(None).await;
                }
            }
            Stop::Cancelled(reply) => {
                self.drop_all();
                self.hand_over(None).await;
                send_reply(reply, Ok(true));
            }
            Stop::Closed(status, reply) => self.execute(SessionCommand::Close(status, reply)).await,
            Stop::Abandoned => self.close_abandoned().await,
        }
    }

    /// Executes an agent's markers; returns whether the queue continues to be served.
    async fn execute_markers(&mut self, message: &Message, marked: &Marked) -> bool {
        self.drop_waiting(marked.dropped.as_ref());
        let mut is_task_recorded = true;
        if let Some(task) = &marked.team_task {
            match self.set_task(Some(task), &message.speaker.id).await {
                Ok(()) => {}
                Err(failure) if failure.code == ErrorCode::LimitExceeded => {
                    self.send_event(TeamEvent::Warning(Warning::TaskRefused(failure)));
                }
                Err(failure) => {
                    self.not_kept(NotKept::Task, &failure);
                    is_task_recorded = false;
                }
            }
        }
        let addressed = self.queue_addressed(message, marked);
        is_task_recorded && (addressed || marked.addressed.is_empty())
    }
}

fn too_long(limit: usize) -> AgentError {
    AgentError {
        code: "agent_output",
        detail: format!("it said more than the {limit} bytes that a message may have").into(),
        cut: Cut::Failed,
    }
}

/// The size of a text in JSON, in bytes.
pub(super) fn json_bytes(text: &str) -> usize {
    text.chars().map(json_char).sum()
}

const fn json_char(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// The longest prefix of the text that fits into `room` bytes of JSON.
fn fitting(text: &str, room: usize) -> &str {
    let mut left = room;
    for (at, c) in text.char_indices() {
        match left.checked_sub(json_char(c)) {
            Some(less) => left = less,
            None => return text.get(..at).unwrap_or_default(),
        }
    }
    text
}
