//! An agent's message while it grows: a separate task drafts it at a bounded interval (DESIGN §4, §11).

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_engine::stream::{BEAT, DRAFT_EVERY};
use filrouge_engine::utterances::Utterance;
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::item::{self, DraftedMessage};
use super::session_lease::SessionLease;
use crate::message::{Cut, Message};
use crate::record::{AgentError, Speech};

/// How many inputs may wait for the recording task. Once they are reached, appending more text waits.
const WAITING: usize = 64;

/// An agent's message that has ended and is not an item yet: its channel depends on what follows it.
pub(super) struct EndedSpeech {
    pub(super) utterance: Utterance,
    pub(super) message: Message,
    pub(super) error: Option<AgentError>,
}

enum SpeechInput {
    /// More text of the message.
    Text(String),
    /// The end of the message: the complete message, and its agent's error. The sender gets the result.
    End(
        Box<(Message, Option<AgentError>)>,
        oneshot::Sender<SpeechResult>,
    ),
}

type SpeechResult = Result<(), Failure>;

/// An agent's message that is still growing.
pub(super) struct LedgerSpeech {
    inputs: mpsc::Sender<SpeechInput>,
    failures: tokio::sync::watch::Receiver<Option<Failure>>,
}

/// The failure of a caller whose recording task has ended.
fn gone() -> Failure {
    Failure::new(
        ErrorCode::Internal,
        "the recording of this message has ended",
    )
}

/// Begins to record a message. The receiver yields the message once it has ended.
pub(super) fn begin(
    lease: Arc<SessionLease>,
    utterance: Utterance,
    message: Message,
) -> (LedgerSpeech, oneshot::Receiver<EndedSpeech>) {
    let (inputs, received) = mpsc::channel(WAITING);
    let (failed, failures) = tokio::sync::watch::channel(None);
    let (ended_tx, ended_rx) = oneshot::channel();
    let drafter = Drafter {
        lease,
        utterance,
        message,
        drafted: 0,
        sending: 0,
        text: String::new(),
        last_write_at: Instant::now(),
        failed,
    };
    tokio::spawn(drafter.run(received, ended_tx));
    (LedgerSpeech { inputs, failures }, ended_rx)
}

#[async_trait]
impl Speech for LedgerSpeech {
    async fn append(&mut self, text: &str) -> Result<(), Failure> {
        let input = SpeechInput::Text(text.to_owned());
        self.inputs.send(input).await.map_err(|_| gone())?;
        match &*self.failures.borrow() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    async fn end(
        self: Box<Self>,
        message: &Message,
        error: Option<&AgentError>,
    ) -> Result<(), Failure> {
        let (reply_tx, reply_rx) = oneshot::channel();
        let ended = Box::new((message.clone(), error.cloned()));
        let input = SpeechInput::End(ended, reply_tx);
        self.inputs.send(input).await.map_err(|_| gone())?;
        reply_rx.await.map_err(|_| gone())?
    }
}

/// The task that drafts a message while it grows.
struct Drafter {
    lease: Arc<SessionLease>,
    utterance: Utterance,
    message: Message,
    /// The complete text so far.
    text: String,
    /// How many bytes of the text are drafted.
    drafted: usize,
    /// Where the text of the current draft write ends. After a failure it stays, so that the retry writes the same
    /// bytes; if no write has failed, it equals `drafted` between writes.
    sending: usize,
    last_write_at: Instant,
    /// The failure of the newest draft, which `append` reports; `None` if it succeeded.
    failed: tokio::sync::watch::Sender<Option<Failure>>,
}

impl Drafter {
    /// Drafts until the message ends. Publishes the ended message before it answers the caller of `end`. If the caller
    /// drops its handle without an end, the message ends as interrupted.
    async fn run(
        mut self,
        mut received: mpsc::Receiver<SpeechInput>,
        ended_tx: oneshot::Sender<EndedSpeech>,
    ) {
        loop {
            let grown = self.text.len() > self.drafted;
            let due = self.last_write_at + if grown { DRAFT_EVERY } else { BEAT };
            let input = tokio::select! {
                input = received.recv() => input,
                () = tokio::time::sleep_until(due) => {
                    self.draft().await;
                    continue;
                }
            };
            match input {
                Some(SpeechInput::Text(text)) => {
                    self.text.push_str(&text);
                    if self.last_write_at.elapsed() >= DRAFT_EVERY {
                        self.draft().await;
                    }
                }
                Some(SpeechInput::End(ended, reply_tx)) => {
                    let (message, error) = *ended;
                    let result = self.complete(&message).await;
                    let ended = EndedSpeech {
                        utterance: self.utterance,
                        message,
                        error,
                    };
                    let _ = ended_tx.send(ended);
                    let _ = reply_tx.send(result);
                    return;
                }
                None => {
                    let _ = ended_tx.send(self.interrupted().await);
                    return;
                }
            }
        }
    }

    /// Drafts the text since the last draft, or sends a heartbeat. A failure is retried, and reported by the next
    /// [`append`](Speech::append).
    async fn draft(&mut self) {
        let drafted = self.try_draft().await;
        self.last_write_at = Instant::now();
        let failure = drafted.err();
        if let Some(failure) = &failure {
            tracing::warn!(code = failure.code.as_str(), message_id = %self.message.id, "a message's text was not drafted");
        }
        self.failed.send_replace(failure);
    }

    async fn try_draft(&mut self) -> Result<(), Failure> {
        if self.sending == self.drafted {
            self.sending = self.text.len();
        }
        let failed = self.failed.borrow().is_some();
        let caller = match failed {
            true => self.lease.caller_after_check().await?,
            false => self.lease.caller()?,
        };
        let text = self.text.get(self.drafted..self.sending);
        self.utterance
            .say(&caller, text.unwrap_or_default())
            .await?;
        self.drafted = self.sending;
        Ok(())
    }

    /// Marks the draft as complete, so that the message is read as complete whatever happens before it becomes an item.
    async fn complete(&mut self, message: &Message) -> Result<(), Failure> {
        let description = item::description_of(message, DraftedMessage::Complete)?;
        let caller = self.lease.caller_after_check().await?;
        let is_drafted = *self.text == *message.content && self.drafted == self.text.len();
        let text = (!is_drafted).then_some(&*message.content);
        self.utterance.complete(&caller, &description, text).await
    }

    /// Ends as interrupted a message whose handle was dropped without an end.
    async fn interrupted(mut self) -> EndedSpeech {
        self.draft().await;
        self.message.content = self.text.into();
        self.message.cut = Some(Cut::Interrupted);
        EndedSpeech {
            utterance: self.utterance,
            message: self.message,
            error: None,
        }
    }
}
