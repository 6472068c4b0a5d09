//! An agent speaks.

use filrouge_types::{ErrorCode, Failure};

use super::conversation::{Conversation, Orders};
use super::event::{NotKept, TeamEvent, Warning};
use super::orders::{Order, Reply, answer};
use crate::agent::{Agent, Ended};
use crate::markers::{Marked, MarkerReader};
use crate::message::{Cut, Message, MessageId, Routing};
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

impl Conversation {
    /// An agent answers. Meanwhile orders are obeyed.
    pub(super) async fn speak(&mut self, route: Route, agent: &Member, orders: &mut Orders) {
        let MemberKind::Agent(command) = &agent.kind else {
            return;
        };
        let builder = PromptBuilder::new(&self.team, self.settings.window);
        let prompt = builder.prompt(&self.context(), agent, &route.parent);
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(failure) => return self.not_begun(&failure),
        };
        let routing = Routing::to(Some(route.parent.clone()));
        let mut message = self.message(agent.speaker(), "".into(), routing);
        let speech = match self.record.begin(&message).await {
            Ok(speech) => speech,
            Err(failure) => return self.not_begun(&failure),
        };
        self.served();
        self.agent_turns += 1;
        self.tell(TeamEvent::Began(message.clone()));
        let mut heard = Heard {
            id: message.id.clone(),
            reader: MarkerReader::new(),
            speech,
            room: self.settings.message_bytes,
            kept: true,
        };
        let (stop, ended) = self.hear(command, prompt, &mut heard, orders).await;
        let reader = std::mem::take(&mut heard.reader);
        let (rest, marked) = reader.finish(&self.team, &agent.id);
        self.more(&mut heard, &rest).await;
        message.content = marked.content.clone();
        message.routing = marked.routing(Some(route.parent));
        message.cut = match &stop {
            Stop::Cancelled(_) | Stop::Closed(..) => Some(Cut::Cancelled),
            Stop::Abandoned => Some(Cut::Interrupted),
            Stop::Ended | Stop::TooLong => ended.error.as_ref().map(|error| error.cut),
        };
        let kept = heard.speech.end(&message, ended.error.as_ref()).await;
        self.ended(message, &marked, (stop, ended), kept).await;
    }

    fn not_begun(&mut self, failure: &Failure) {
        self.not_kept(NotKept::Begin, failure);
        self.halt();
    }

    async fn hear(
        &mut self,
        command: &Command,
        prompt: String,
        heard: &mut Heard,
        orders: &mut Orders,
    ) -> (Stop, Ended) {
        let mut agent = match Agent::start(command, prompt, self.settings.agent).await {
            Ok(agent) => agent,
            Err(error) => {
                let ended = Ended {
                    error: Some(error),
                    ..Ended::default()
                };
                return (Stop::Ended, ended);
            }
        };
        let stop = self.listen(&mut agent, heard, orders).await;
        let mut ended = match stop {
            Stop::Ended => agent.end().await,
            _ => agent.kill().await,
        };
        if let Stop::TooLong = stop {
            ended.error = Some(too_long(self.settings.message_bytes));
        }
        (stop, ended)
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
                    self.more(heard, &shown).await;
                    if fits.len() < text.len() {
                        return Stop::TooLong;
                    }
                }
            }
        }
    }

    /// More was said. If the ledger does not have all of it, the message's end, which has all of it, decides.
    async fn more(&self, heard: &mut Heard, text: &str) {
        if text.is_empty() {
            return;
        }
        self.tell(TeamEvent::Text {
            id: heard.id.clone(),
            text: text.into(),
        });
        if heard.kept
            && let Err(failure) = heard.speech.said(text).await
        {
            heard.kept = false;
            tracing::warn!(%failure, "what an agent says is kept at its end at the earliest");
        }
    }

    async fn ended(
        &mut self,
        message: Message,
        marked: &Marked,
        (stop, ended): (Stop, Ended),
        kept: Result<(), Failure>,
    ) {
        let Ended {
            error, replaced, ..
        } = ended;
        let id = message.id.clone();
        let whole = message.cut.is_none();
        let added = self.context().add(message.clone());
        debug_assert!(added.is_ok(), "ids are given out once");
        self.note_speaker(&message);
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
