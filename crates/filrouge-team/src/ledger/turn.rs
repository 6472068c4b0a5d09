//! A turn of several speakers: from a human's message to the hand-over back to a human (docs/adr/0029).

use filrouge_engine::spoken::{TurnEnd, UtteranceHead};
use filrouge_engine::{CancelTurn, ErrorBody, FailTurn, FinalizeTurn};
use filrouge_types::{Channel, ErrorCode, Failure, ItemBody, JsonText, TurnId};
use tokio::sync::oneshot;

use super::Shared;
use super::item::{self, item_of};
use super::speech::{self, Ended, LedgerSpeech};
use crate::message::{Cut, Message, SpeakerKind};
use crate::record::{AgentError, State};

/// What is known of the session while it is open.
pub(super) struct Keeping {
    pub(super) turn: Option<Turn>,
    /// What is being said; it gives what it has become.
    speaking: Option<oneshot::Receiver<Ended>>,
    /// What was said last and is not an item yet.
    ended: Option<Ended>,
    /// The team task, as it was last kept.
    pub(super) task: Option<Box<str>>,
    /// The state that was last kept, while nothing was written since.
    pub(super) state: Option<State>,
    /// Notes that stand in no turn of a human's.
    pub(super) notes: u64,
    /// How many messages the session has, up to the seq that was seen last.
    pub(super) count: u64,
    pub(super) seen: u64,
}

/// The open turn.
pub(super) struct Turn {
    id: TurnId,
    /// Whether it has its answer.
    answered: bool,
    /// How the last message ended that an agent did not end, and what of.
    cut: Option<(Cut, Option<AgentError>)>,
}

impl Turn {
    pub(super) const fn new(id: TurnId) -> Self {
        Self {
            id,
            answered: false,
            cut: None,
        }
    }

    pub(super) const fn id(&self) -> TurnId {
        self.id
    }
}

fn somebody_speaks() -> Failure {
    let what = "somebody is speaking in this session";
    Failure::new(ErrorCode::StreamOpen, what).with_hint("end what is being said first")
}

/// How a turn ends that nobody has answered.
fn error_of(cut: Cut, error: Option<&AgentError>) -> Option<ErrorBody> {
    let (code, detail) = match (cut, error) {
        (Cut::Cancelled, _) => return None,
        (_, Some(error)) => (error.code, &*error.detail),
        (Cut::Failed, None) => ("agent_failed", "the agent failed"),
        (Cut::Interrupted, None) => ("interrupted", "filrouge ended while an agent spoke"),
    };
    Some(ErrorBody {
        code: code.into(),
        message: Some(JsonText::from_plain(detail)),
        retryable: true,
    })
}

impl Keeping {
    pub(super) fn new(
        task: Option<Box<str>>,
        state: Option<State>,
        (count, seen): (u64, u64),
    ) -> Self {
        Self {
            turn: None,
            speaking: None,
            ended: None,
            task,
            state,
            notes: 0,
            count,
            seen,
        }
    }

    /// Whether somebody speaks; what has ended meanwhile is at hand then.
    fn speaks(&mut self) -> bool {
        let Some(end) = &mut self.speaking else {
            return false;
        };
        match end.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return true,
            Ok(ended) => self.ended = Some(ended),
            Err(oneshot::error::TryRecvError::Closed) => {}
        }
        self.speaking = None;
        false
    }
}

impl Shared {
    /// Keeps a whole message.
    pub(super) async fn message(
        &self,
        keeping: &mut Keeping,
        message: &Message,
    ) -> Result<(), Failure> {
        let is_last_word = message.speaker.kind == SpeakerKind::System;
        self.settle(keeping, is_last_word).await?;
        let channel = match message.speaker.kind {
            SpeakerKind::Human => Channel::Question,
            SpeakerKind::Agent if message.cut.is_some() => Channel::Partial,
            SpeakerKind::Agent => Channel::Observation,
            SpeakerKind::System => Channel::SystemNote,
        };
        let item = item_of(message, channel, None)?;
        self.place(keeping, message, item).await?;
        keeping.state = None;
        Ok(())
    }

    /// Puts a message into the open turn, or begins one.
    async fn place(
        &self,
        keeping: &mut Keeping,
        message: &Message,
        item: ItemBody,
    ) -> Result<(), Failure> {
        if let Some(turn) = &keeping.turn {
            match self.append(turn.id, item.clone()).await {
                // Somebody else has ended it.
                Err(failure) if failure.code == ErrorCode::TurnClosed => keeping.turn = None,
                placed => return placed,
            }
        }
        if message.speaker.kind == SpeakerKind::System {
            return self.alone(&message.id, vec![item]).await;
        }
        keeping.turn = Some(self.begin_turn(&message.id, item).await?);
        Ok(())
    }

    /// An agent begins to speak.
    pub(super) async fn begin(
        &self,
        keeping: &mut Keeping,
        message: &Message,
    ) -> Result<LedgerSpeech, Failure> {
        self.settle(keeping, false).await?;
        if keeping.speaking.is_some() {
            return Err(somebody_speaks());
        }
        item::key_of(message)?;
        if keeping.turn.is_none() {
            let key = format!("{}.asked", message.id);
            let note = item::note_item("nobody asked");
            keeping.turn = Some(self.begin_turn(&key, note).await?);
        }
        let Some(turn) = &mut keeping.turn else {
            return Err(somebody_speaks());
        };
        let caller = self.hold.ensure().await?;
        let head = UtteranceHead {
            mark: u32::try_from(item::number_of(&message.id)).unwrap_or(0),
            agent: Some(message.speaker.name.clone()),
            about: item::about(message, false)?,
        };
        let session = self.session.clone();
        let utterance = self
            .engine
            .streams
            .begin_utterance(&caller, session, turn.id, head)
            .await?;
        turn.cut = None;
        let (speech, ended) = speech::begin(self.hold.clone(), utterance, message.clone());
        keeping.speaking = Some(ended);
        keeping.state = None;
        Ok(speech)
    }

    /// Makes an item of what was said last, now that it shows whether it was the last word: no speaker follows it.
    async fn settle(&self, keeping: &mut Keeping, is_last_word: bool) -> Result<(), Failure> {
        keeping.speaks();
        let (Some(ended), Some(turn)) = (&mut keeping.ended, &mut keeping.turn) else {
            return Ok(());
        };
        let channel = match ended.message.cut {
            Some(_) => Channel::Partial,
            None if is_last_word && !turn.answered => Channel::Final,
            None => Channel::Observation,
        };
        let item = self.fitting(ended, channel)?;
        let answers = item.channel == Channel::Final;
        let caller = self.hold.ensure().await?;
        match ended.utterance.append(&caller, vec![item.clone()]).await {
            Ok(_) => {}
            Err(failure) => self.recover(turn.id, item, failure).await?,
        }
        turn.answered |= answers;
        let ended = keeping.ended.take();
        if let Some(ended) = ended {
            turn.cut = ended.message.cut.map(|cut| (cut, ended.error));
            keeping.state = None;
        }
        Ok(())
    }

    /// An item of what was said, within the ledger's limits: what is too long for an item is cut, and that is told.
    fn fitting(&self, ended: &mut Ended, channel: Channel) -> Result<ItemBody, Failure> {
        let most = self.engine.limits().item_bytes;
        let mut item = item_of(&ended.message, channel, ended.error.as_ref())?;
        while item.bytes() > most && !ended.message.content.is_empty() {
            let said = &ended.message.content;
            tracing::warn!(message_id = %ended.message.id, bytes = said.len(), "a message is too long for the ledger, and is cut");
            let end = said.floor_char_boundary(said.len() / 2);
            ended.message.content = said.get(..end).unwrap_or_default().into();
            ended.message.cut = Some(ended.message.cut.unwrap_or(Cut::Failed));
            item = item_of(&ended.message, Channel::Partial, ended.error.as_ref())?;
        }
        Ok(item)
    }

    /// Somebody has ended the draft, or the turn: what was said is kept all the same.
    async fn recover(&self, turn: TurnId, item: ItemBody, why: Failure) -> Result<(), Failure> {
        match why.code {
            ErrorCode::StreamLost => self.append(turn, item).await,
            ErrorCode::TurnClosed => {
                let key = item.item_id.clone();
                let key = key.ok_or_else(|| why.clone())?;
                self.alone(&format!("{key}.late"), vec![item]).await
            }
            _ => Err(why),
        }
    }

    /// Ends the turn: a human has the floor.
    pub(super) async fn end_turn(&self, keeping: &mut Keeping) -> Result<(), Failure> {
        if keeping.speaks() {
            return Err(somebody_speaks());
        }
        let answered = keeping.turn.as_ref().is_some_and(|turn| turn.answered);
        if !answered && self.end_with_last_word(keeping).await? {
            return Ok(());
        }
        self.settle(keeping, true).await?;
        let Some(turn) = &keeping.turn else {
            return Ok(());
        };
        let (caller, session) = (self.hold.ensure().await?, self.session.clone());
        let engine = &self.engine;
        let error = turn.cut.as_ref();
        let error = error.and_then(|(cut, error)| error_of(*cut, error.as_ref()));
        let done = match (turn.answered, error) {
            (true, _) => {
                let answer = FinalizeTurn::default();
                engine
                    .turns
                    .finalize(&caller, session, turn.id, answer)
                    .await
            }
            (false, Some(error)) => {
                let failed = FailTurn {
                    error,
                    partial_text: None,
                    fence: None,
                    release: false,
                };
                engine.turns.fail(&caller, session, turn.id, failed).await
            }
            (false, None) => {
                let cancelled = CancelTurn::default();
                engine
                    .turns
                    .cancel(&caller, session, turn.id, cancelled)
                    .await
            }
        };
        closed(done.map(drop))?;
        keeping.turn = None;
        keeping.state = None;
        Ok(())
    }

    /// Ends the turn in the write that makes an item of what was said last; `false` when there is nothing, or somebody
    /// else has ended it.
    async fn end_with_last_word(&self, keeping: &mut Keeping) -> Result<bool, Failure> {
        let (Some(ended), Some(_)) = (&mut keeping.ended, &keeping.turn) else {
            return Ok(false);
        };
        let channel = match ended.message.cut {
            Some(_) => Channel::Partial,
            None => Channel::Final,
        };
        let item = self.fitting(ended, channel)?;
        let end = match ended.message.cut {
            None => TurnEnd::Answered,
            Some(cut) => {
                error_of(cut, ended.error.as_ref()).map_or(TurnEnd::Cancelled, TurnEnd::Failed)
            }
        };
        let caller = self.hold.ensure().await?;
        match ended.utterance.end_turn(&caller, vec![item], end).await {
            Ok(_) => {}
            Err(failure)
                if matches!(failure.code, ErrorCode::StreamLost | ErrorCode::TurnClosed) =>
            {
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        }
        keeping.turn = None;
        keeping.ended = None;
        keeping.state = None;
        Ok(true)
    }
}

/// A turn that somebody else has ended meanwhile has ended.
fn closed(done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Err(failure) if failure.code == ErrorCode::TurnClosed => {
            tracing::warn!(
                detail = failure.detail,
                "the turn was ended by somebody else"
            );
            Ok(())
        }
        done => done,
    }
}
