//! What an agent says, while it says it: drafted at a bounded interval by a task of its own (DESIGN §4, §11).

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_engine::spoken::Utterance;
use filrouge_engine::stream::{BEAT, DRAFT_EVERY};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::hold::Hold;
use super::item;
use crate::message::{Cut, Message};
use crate::record::{AgentError, Speech};

/// Pieces of text that may wait for the task; who says more waits.
const WAITING: usize = 64;

/// An agent's message that has ended and is not an item yet: what becomes of it shows in what follows.
pub(super) struct Ended {
    pub(super) utterance: Utterance,
    pub(super) message: Message,
    pub(super) error: Option<AgentError>,
}

enum Word {
    Said(String),
    End(Box<(Message, Option<AgentError>)>, oneshot::Sender<Told>),
}

type Told = Result<(), Failure>;

/// An agent's message that is being said.
pub(super) struct LedgerSpeech {
    words: mpsc::Sender<Word>,
    failures: tokio::sync::watch::Receiver<Option<Failure>>,
}

fn gone() -> Failure {
    Failure::new(ErrorCode::Internal, "what is said is not kept any more")
}

/// Begins to keep what is said; gives what it has become once it has ended.
pub(super) fn begin(
    hold: Arc<Hold>,
    utterance: Utterance,
    message: Message,
) -> (LedgerSpeech, oneshot::Receiver<Ended>) {
    let (words, said) = mpsc::channel(WAITING);
    let (failed, failures) = tokio::sync::watch::channel(None);
    let (ended, end) = oneshot::channel();
    let now = Instant::now();
    let speaker = Speaker {
        hold,
        utterance,
        message,
        drafted: 0,
        sending: 0,
        text: String::new(),
        written: now,
        failed,
    };
    tokio::spawn(speaker.listen(said, ended));
    (LedgerSpeech { words, failures }, end)
}

#[async_trait]
impl Speech for LedgerSpeech {
    async fn said(&mut self, text: &str) -> Result<(), Failure> {
        let word = Word::Said(text.to_owned());
        self.words.send(word).await.map_err(|_| gone())?;
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
        let (told, end) = oneshot::channel();
        let ended = Box::new((message.clone(), error.cloned()));
        let word = Word::End(ended, told);
        self.words.send(word).await.map_err(|_| gone())?;
        end.await.map_err(|_| gone())?
    }
}

/// The task that drafts what is said.
struct Speaker {
    hold: Arc<Hold>,
    utterance: Utterance,
    message: Message,
    /// All that was said.
    text: String,
    /// How many bytes of it are drafted.
    drafted: usize,
    /// Up to where the draft goes that is under way: after a failure the same is written again, and no more.
    sending: usize,
    written: Instant,
    failed: tokio::sync::watch::Sender<Option<Failure>>,
}

impl Speaker {
    /// Gives what it has become before whoever ends it is answered. Who has begun it may be gone; then the draft is what
    /// is left.
    async fn listen(mut self, mut said: mpsc::Receiver<Word>, end: oneshot::Sender<Ended>) {
        loop {
            let grown = self.text.len() > self.drafted;
            let due = self.written + if grown { DRAFT_EVERY } else { BEAT };
            let word = tokio::select! {
                word = said.recv() => word,
                () = tokio::time::sleep_until(due) => {
                    self.draft().await;
                    continue;
                }
            };
            match word {
                Some(Word::Said(text)) => {
                    self.text.push_str(&text);
                    if self.written.elapsed() >= DRAFT_EVERY {
                        self.draft().await;
                    }
                }
                Some(Word::End(ended, told)) => {
                    let (message, error) = *ended;
                    let done = self.complete(&message).await;
                    let ended = Ended {
                        utterance: self.utterance,
                        message,
                        error,
                    };
                    let _ = end.send(ended);
                    let _ = told.send(done);
                    return;
                }
                None => {
                    let _ = end.send(self.given_up().await);
                    return;
                }
            }
        }
    }

    /// Drafts what was said since, or gives a sign of life. A failure is told to who speaks next, and tried again.
    async fn draft(&mut self) {
        let done = self.try_draft().await;
        self.written = Instant::now();
        let failure = done.err();
        if let Some(failure) = &failure {
            tracing::warn!(code = failure.code.as_str(), message_id = %self.message.id, "what is said was not drafted");
        }
        self.failed.send_replace(failure);
    }

    async fn try_draft(&mut self) -> Result<(), Failure> {
        if self.sending == self.drafted {
            self.sending = self.text.len();
        }
        let failed = self.failed.borrow().is_some();
        let caller = match failed {
            true => self.hold.ensure().await?,
            false => self.hold.caller()?,
        };
        let text = self.text.get(self.drafted..self.sending);
        self.utterance
            .say(&caller, text.unwrap_or_default())
            .await?;
        self.drafted = self.sending;
        Ok(())
    }

    /// Drafts that it is whole, so that it is whatever happens before it becomes an item.
    async fn complete(&mut self, message: &Message) -> Result<(), Failure> {
        let about = item::about(message, true)?;
        let caller = self.hold.ensure().await?;
        let all = *self.text == *message.content && self.drafted == self.text.len();
        let text = (!all).then_some(&*message.content);
        self.utterance.complete(&caller, &about, text).await
    }

    /// Who spoke has let go of it without an end: it was interrupted.
    async fn given_up(mut self) -> Ended {
        self.draft().await;
        self.message.content = self.text.into();
        self.message.cut = Some(Cut::Interrupted);
        Ended {
            utterance: self.utterance,
            message: self.message,
            error: None,
        }
    }
}
