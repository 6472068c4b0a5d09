//! An agent's message while it grows: a separate task drafts it at a bounded interval (DESIGN §4, §11).

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_engine::stream::{DRAFT_EVERY, HEARTBEAT_EVERY};
use filrouge_engine::utterances::Utterance;
use filrouge_types::{ErrorCode, Failure, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::item::{self, DraftState};
use super::session_lease::SessionLease;
use crate::message::{Cut, Message};
use crate::record::{AgentError, Speech};

/// The maximum number of inputs that wait for the recording task; while the queue is full, `append` waits, too.
const INPUTS_MAX: usize = 64;

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

type SpeechResult = Result<()>;

/// An agent's message that is still growing.
pub(super) struct LedgerSpeech {
    inputs: mpsc::Sender<SpeechInput>,
    failures: tokio::sync::watch::Receiver<Option<Failure>>,
}

/// The failure of a call to a recording task that has ended.
fn recording_ended<E>(_: E) -> Failure {
    ErrorCode::Internal.failure("the recording of this message has ended")
}

/// Begins to record a message. The receiver yields the message once it has ended.
pub(super) fn begin(
    lease: Arc<SessionLease>,
    utterance: Utterance,
    message: Message,
) -> (LedgerSpeech, oneshot::Receiver<EndedSpeech>) {
    let (inputs, inputs_receiver) = mpsc::channel(INPUTS_MAX);
    let (failure_sender, failures) = tokio::sync::watch::channel(None);
    let (ended_tx, ended_rx) = oneshot::channel();
    let drafter = Drafter {
        lease,
        utterance,
        message,
        drafted_bytes: 0,
        draft_end: 0,
        text: String::new(),
        last_write_at: Instant::now(),
        failure_sender,
    };
    tokio::spawn(drafter.run(inputs_receiver, ended_tx));
    (LedgerSpeech { inputs, failures }, ended_rx)
}

#[async_trait]
impl Speech for LedgerSpeech {
    async fn append(&mut self, text: &str) -> Result<()> {
        let input = SpeechInput::Text(text.to_owned());
        self.inputs.send(input).await.map_err(recording_ended)?;
        self.failures.borrow().clone().map_or(Ok(()), Err)
    }

    async fn end(self: Box<Self>, message: &Message, error: Option<&AgentError>) -> Result<()> {
        let (reply_tx, reply_rx) = oneshot::channel();
        let ended = Box::new((message.clone(), error.cloned()));
        let input = SpeechInput::End(ended, reply_tx);
        self.inputs.send(input).await.map_err(recording_ended)?;
        reply_rx.await.map_err(recording_ended)?
    }
}

/// The task that drafts a message while it grows.
struct Drafter {
    lease: Arc<SessionLease>,
    utterance: Utterance,
    message: Message,
    /// The complete text so far.
    text: String,
    /// The number of bytes of the text that are drafted.
    drafted_bytes: usize,
    /// The end of the text of the current draft write. It is kept after a failure, so that the retry writes the same
    /// bytes; if no write has failed, it equals `drafted_bytes` between writes.
    draft_end: usize,
    last_write_at: Instant,
    /// The failure of the newest draft, which `append` reports; `None` if it succeeded.
    failure_sender: tokio::sync::watch::Sender<Option<Failure>>,
}

impl Drafter {
    /// Drafts until the message ends. Publishes the ended message before it answers the caller of `end`. If the caller
    /// drops its handle without an end, the message ends as interrupted.
    async fn run(
        mut self,
        mut inputs_receiver: mpsc::Receiver<SpeechInput>,
        ended_tx: oneshot::Sender<EndedSpeech>,
    ) {
        loop {
            let interval = match self.text.len() > self.drafted_bytes {
                true => DRAFT_EVERY,
                false => HEARTBEAT_EVERY,
            };
            let input = tokio::select! {
                input = inputs_receiver.recv() => input,
                () = tokio::time::sleep_until(self.last_write_at + interval) => {
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
                    let _ = ended_tx.send(self.end_interrupted().await);
                    return;
                }
            }
        }
    }

    /// Drafts the text since the last draft, or sends a heartbeat. A failure is retried, and reported by the next
    /// [`append`](Speech::append).
    async fn draft(&mut self) {
        let result = self.try_draft().await;
        self.last_write_at = Instant::now();
        let failure = result.err();
        if let Some(failure) = &failure {
            tracing::warn!(code = failure.code.as_str(), message_id = %self.message.id, "a message's text was not drafted");
        }
        self.failure_sender.send_replace(failure);
    }

    async fn try_draft(&mut self) -> Result<()> {
        if self.draft_end == self.drafted_bytes {
            self.draft_end = self.text.len();
        }
        let has_failed = self.failure_sender.borrow().is_some();
        let caller = match has_failed {
            true => self.lease.caller_after_check().await?,
            false => self.lease.caller()?,
        };
        let text = self.text.get(self.drafted_bytes..self.draft_end);
        self.utterance
            .add_text(&caller, text.unwrap_or_default())
            .await?;
        self.drafted_bytes = self.draft_end;
        Ok(())
    }

    /// Marks the draft as complete, so that the message is read as complete even if it never becomes an item.
    async fn complete(&mut self, message: &Message) -> Result<()> {
        let description = item::draft_description(message, DraftState::Complete)?;
        let caller = self.lease.caller_after_check().await?;
        let is_drafted = *self.text == *message.content && self.drafted_bytes == self.text.len();
        let text = (!is_drafted).then_some(&*message.content);
        self.utterance.complete(&caller, &description, text).await
    }

    /// Ends a message whose handle was dropped before its end; the message counts as interrupted.
    async fn end_interrupted(mut self) -> EndedSpeech {
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
