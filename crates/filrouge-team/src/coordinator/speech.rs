//! An agent speaks.

use filrouge_types::{ErrorCode, Failure};

use super::Running;
use super::conversation::{Conversation, Orders};
use super::event::{NotKept, TeamEvent, Warning};
use super::orders::{Order, Reply, answer};
use crate::agent::Agent;
use crate::markers::{Marked, MarkerReader};
use crate::message::{Cut, Message, MessageId, Routing, Speaker, SpeakerKind};
use crate::prompt::PromptBuilder;
use crate::queue::Route;
use crate::record::{AgentError, Speech, Status};
use crate::team::{Command, Member, MemberKind};

/// Why an agent is listened to no longer.
enum Stop {
    Ended,
    TooLong,
    Cancelled(Reply<bool>),
    Closed(Status, Reply<()>),
    Abandoned,
}

/// What is heard of an agent.
struct Heard {
    id: MessageId,
    reader: MarkerReader,
    speech: Box<dyn Speech>,
    /// So much may come still.
    room: usize,
    /// The ledger has taken all pieces so far.
    kept: bool,
}

/// How a speech ended.
struct Outcome {
    stop: Stop,
    error: Option<AgentError>,
    replaced: u64,
}

impl Conversation {
    /// An agent answers. Meanwhile orders are obeyed.
    pub(super) async fn speak(&mut self, route: Route, agent: &Member, orders: &mut Orders) {
        let MemberKind::Agent(command) = &agent.kind else {
            return;
        };
        let (prompt, id) = match self.prompt(agent, &route.parent) {
            Ok(begun) => begun,
            Err(failure) => return self.not_begun(route, &failure),
        };
        let mut message = self.empty_message(id, agent, &route);
        let speech = match self.record.begin(&message).await {
            Ok(speech) => speech,
            Err(failure) => return self.not_begun(route, &failure),
        };
        self.running = Some(Running {
            member_id: agent.id.clone(),
            message_id: message.id.clone(),
        });
        self.agent_turns += 1;
        self.show();
        self.tell(TeamEvent::Began(message.clone()));
        let mut heard = Heard {
            id: message.id.clone(),
            reader: MarkerReader::new(),
            speech,
            room: self.settings.message_bytes,
            kept: true,
        };
        let outcome = self.hear(command, prompt, &mut heard, orders).await;
        let Heard {
            reader,
            mut speech,
            kept,
            ..
        } = heard;
        let (rest, marked) = reader.finish(&self.team, &agent.id);
        self.more(&message.id, &rest, &mut speech, kept).await;
        message.content = marked.content.clone();
        message.routing = marked.routing(Some(route.parent));
        message.cut = match &outcome.stop {
            Stop::Cancelled(_) | Stop::Closed(..) => Some(Cut::Cancelled),
            Stop::Abandoned => Some(Cut::Interrupted),
            Stop::Ended | Stop::TooLong => outcome.error.as_ref().map(|error| error.cut),
        };
        let kept = speech.end(&message, outcome.error.as_ref()).await;
        self.ended(message, &marked, outcome, kept).await;
    }

    fn prompt(&mut self, agent: &Member, answered: &str) -> Result<(String, MessageId), Failure> {
        let builder = PromptBuilder::new(&self.team, self.settings.window);
        let mut context = self.context();
        let prompt = builder.prompt(&context, agent, answered)?;
        Ok((prompt, context.next_id()))
    }

    fn not_begun(&mut self, route: Route, failure: &Failure) {
        self.queue.put_back(route);
        self.not_kept(NotKept::Begin, failure);
        self.halt();
    }

    fn empty_message(&self, id: MessageId, agent: &Member, route: &Route) -> Message {
        Message {
            id,
            at: self.clock.now(),
            speaker: Speaker {
                id: agent.id.clone(),
                name: agent.name.clone(),
                kind: SpeakerKind::Agent,
            },
            content: "".into(),
            routing: Routing {
                parent: Some(route.parent.clone()),
                ..Routing::default()
            },
            cut: None,
        }
    }

    async fn hear(
        &mut self,
        command: &Command,
        prompt: String,
        heard: &mut Heard,
        orders: &mut Orders,
    ) -> Outcome {
        let mut agent = match Agent::start(command, prompt, self.settings.agent).await {
            Ok(agent) => agent,
            Err(error) => {
                return Outcome {
                    stop: Stop::Ended,
                    error: Some(error),
                    replaced: 0,
                };
            }
        };
        let stop = self.listen(&mut agent, heard, orders).await;
        let ended = match stop {
            Stop::Ended => agent.end().await,
            _ => agent.kill().await,
        };
        let error = match stop {
            Stop::TooLong => Some(too_long(self.settings.message_bytes)),
            _ => ended.error,
        };
        Outcome {
            stop,
            error,
            replaced: ended.replaced,
        }
    }

    async fn listen(&mut self, agent: &mut Agent, heard: &mut Heard, orders: &mut Orders) -> Stop {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    None => return Stop::Abandoned,
                    Some(Order::Cancel(reply)) => return Stop::Cancelled(reply),
                    Some(Order::Close(status, reply)) => return Stop::Closed(status, reply),
                    Some(order) => self.obey(order).await,
                },
                text = agent.next() => {
                    let Some(text) = text else { return Stop::Ended };
                    let fits = fitting(&text, heard.room);
                    heard.room -= json_bytes(fits);
                    let shown = heard.reader.push(fits);
                    heard.kept = self.more(&heard.id, &shown, &mut heard.speech, heard.kept).await;
                    if fits.len() < text.len() {
                        return Stop::TooLong;
                    }
                }
            }
        }
    }

    /// More was said. Whether the ledger has all of it: if not, the message's end, which has all of it, decides.
    async fn more(&self, id: &str, text: &str, speech: &mut Box<dyn Speech>, kept: bool) -> bool {
        if text.is_empty() {
            return kept;
        }
        self.tell(TeamEvent::Text {
            id: id.into(),
            text: text.into(),
        });
        if !kept {
            return false;
        }
        match speech.said(text).await {
            Ok(()) => true,
            Err(failure) => {
                tracing::warn!(%failure, "what an agent says is kept at its end at the earliest");
                false
            }
        }
    }

    async fn ended(
        &mut self,
        message: Message,
        marked: &Marked,
        outcome: Outcome,
        kept: Result<(), Failure>,
    ) {
        let Outcome {
            stop,
            error,
            replaced,
        } = outcome;
        let id = message.id.clone();
        let whole = message.cut.is_none();
        let added = self.context().add(message.clone());
        debug_assert!(added.is_ok(), "ids are given out once");
        self.note_speaker(&message);
        self.running = None;
        self.show();
        self.tell(TeamEvent::Ended {
            message: message.clone(),
            error,
        });
        if replaced > 0 {
            let id = id.clone();
            self.tell(TeamEvent::Warning(Warning::Malformed { id, replaced }));
        }
        let kept = kept.map_err(|failure| self.not_kept(NotKept::Message(id), &failure));
        match stop {
            Stop::Ended | Stop::TooLong => {
                let asks = whole && self.obey_markers(&message, marked).await;
                if kept.is_err() {
                    self.halt();
                } else if !asks {
                    self.hand_over(None).await;
                }
            }
            Stop::Cancelled(reply) => {
                self.drop_all();
                self.hand_over(None).await;
                answer(reply, Ok(true));
            }
            Stop::Closed(status, reply) => self.obey(Order::Close(status, reply)).await,
            Stop::Abandoned => self.abandoned().await,
        }
    }

    /// Does what an agent's markers ask for; whether the queue goes on to be served.
    async fn obey_markers(&mut self, message: &Message, marked: &Marked) -> bool {
        self.drop_waiting(marked.dropped.as_ref());
        let mut kept = true;
        if let Some(task) = &marked.team_task {
            match self.set_task(Some(task), &message.speaker.id).await {
                Ok(()) => {}
                Err(failure) if failure.code == ErrorCode::LimitExceeded => {
                    self.tell(TeamEvent::Warning(Warning::TaskRefused(failure)));
                }
                Err(failure) => {
                    self.not_kept(NotKept::Task, &failure);
                    kept = false;
                }
            }
        }
        let addressed = self.queue_addressed(message, marked);
        kept && (addressed || marked.addressed.is_empty())
    }
}

fn too_long(most: usize) -> AgentError {
    AgentError {
        code: "agent_output",
        detail: format!("it said more than {most} bytes, which a message can have").into(),
        cut: Cut::Failed,
    }
}

/// How many bytes JSON takes for a text.
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

/// As much of the text as JSON has room for.
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
