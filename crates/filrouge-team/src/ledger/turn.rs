//! A turn of several speakers: from a human's message to the hand-over back to a human (docs/adr/0029).

use filrouge_engine::utterances::{TurnEnd, UtteranceHead};
use filrouge_engine::{CancelTurn, ErrorBody, FailTurn, FinalizeTurn};
use filrouge_types::{Channel, ErrorCode, Failure, ItemBody, JsonText, Result, TurnId};
use tokio::sync::oneshot;

use super::SessionWriter;
use super::item::{self, DraftState, to_item};
use super::speech::{self, EndedSpeech, LedgerSpeech};
use crate::message::{Cut, Message, SpeakerKind};
use crate::record::{AgentError, State};

/// The progress of the recording of an open session.
#[derive(Default)]
pub(super) struct Progress {
    /// The open turn, if there is one.
    pub(super) turn: Option<Turn>,
    /// Yields the growing message once it has ended; `None` if no message is growing.
    pub(super) growing: Option<oneshot::Receiver<EndedSpeech>>,
    /// The message that has ended and is not an item yet; `None` if there is none.
    pub(super) ended: Option<EndedSpeech>,
    /// The newest recorded team task.
    pub(super) task: Option<Box<str>>,
    /// The newest recorded state; `None` once anything was written after it.
    pub(super) state: Option<State>,
    /// The number of notes that this process has recorded in separate turns; the keys of these turns contain it.
    pub(super) notes: u64,
    /// The number of messages of the session up to the seq `counted_to`.
    pub(super) count: u64,
    pub(super) counted_to: u64,
}

/// The open turn.
pub(super) struct Turn {
    pub(super) id: TurnId,
    /// Whether the turn has its final answer.
    pub(super) answered: bool,
    /// The reason why the turn's newest message was cut, with the agent's error; `None` if it is complete or still
    /// growing.
    pub(super) cut: Option<(Cut, Option<AgentError>)>,
}

fn speaking_failure() -> Failure {
    let detail = "a member is speaking in this session";
    Failure::new(ErrorCode::StreamOpen, detail).with_hint("end that message first")
}

/// The error with which an unanswered turn fails after a cut message; `None` if the turn is cancelled instead.
fn turn_error(cut: Cut, error: Option<&AgentError>) -> Option<ErrorBody> {
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

impl Progress {
    /// Whether a message is still growing. If it has ended since the last call, moves it to `ended`.
    fn is_speaking(&mut self) -> bool {
        let Some(end) = &mut self.growing else {
            return false;
        };
        match end.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return true,
            Ok(ended) => self.ended = Some(ended),
            Err(oneshot::error::TryRecvError::Closed) => {}
        }
        self.growing = None;
        false
    }
}

impl SessionWriter {
    /// Records a complete message.
    pub(super) async fn write_message(
        &self,
        progress: &mut Progress,
        message: &Message,
    ) -> Result<()> {
        let is_last_word = message.speaker.kind == SpeakerKind::System;
        self.record_ended(progress, is_last_word).await?;
        let channel = match message.speaker.kind {
            SpeakerKind::Human => Channel::Question,
            SpeakerKind::Agent if message.cut.is_some() => Channel::Partial,
            SpeakerKind::Agent => Channel::Observation,
            SpeakerKind::System => Channel::SystemNote,
        };
        let item = to_item(message, channel, None)?;
        self.append_or_begin(progress, message, item).await?;
        progress.state = None;
        Ok(())
    }

    /// Appends a message to the open turn, or begins one.
    async fn append_or_begin(
        &self,
        progress: &mut Progress,
        message: &Message,
        item: ItemBody,
    ) -> Result<()> {
        if let Some(turn) = &progress.turn {
            match self.append(turn.id, item.clone()).await {
                // Another caller has ended the turn.
                Err(failure) if failure.code == ErrorCode::TurnClosed => progress.turn = None,
                result => return result,
            }
        }
        if message.speaker.kind == SpeakerKind::System {
            return self.record_separate_turn(&message.id, vec![item]).await;
        }
        progress.turn = Some(self.begin_turn(&message.id, item).await?);
        Ok(())
    }

    /// Begins an agent's message, in the open turn or, if there is none, in a new one that begins with a note.
    pub(super) async fn begin_message(
        &self,
        progress: &mut Progress,
        message: &Message,
    ) -> Result<LedgerSpeech> {
        self.record_ended(progress, false).await?;
        if progress.growing.is_some() {
            return Err(speaking_failure());
        }
        item::item_id_of(message)?;
        if progress.turn.is_none() {
            let key = format!("{}.asked", message.id);
            let note = item::note_item("nobody asked");
            progress.turn = Some(self.begin_turn(&key, note).await?);
        }
        let Some(turn) = &mut progress.turn else {
            return Err(speaking_failure());
        };
        let caller = self.lease.caller_after_check().await?;
        let head = UtteranceHead {
            mark: u32::try_from(item::number_or_zero(&message.id)).unwrap_or(0),
            agent: Some(message.speaker.name.clone()),
            description: item::draft_description(message, DraftState::Growing)?,
        };
        let session = self.session.clone();
        let utterance = self
            .engine
            .streams
            .begin_utterance(&caller, session, turn.id, head)
            .await?;
        turn.cut = None;
        let (speech, ended) = speech::begin(self.lease.clone(), utterance, message.clone());
        progress.growing = Some(ended);
        progress.state = None;
        Ok(speech)
    }

    /// Records the ended message, if there is one, as an item. Its channel is known only now: `is_last_word` states
    /// that no other agent follows, so that the message may be the turn's answer.
    async fn record_ended(&self, progress: &mut Progress, is_last_word: bool) -> Result<()> {
        // If the growing message has ended, this moves it to `progress.ended`.
        progress.is_speaking();
        let (Some(ended), Some(turn)) = (&mut progress.ended, &mut progress.turn) else {
            return Ok(());
        };
        let channel = match ended.message.cut {
            Some(_) => Channel::Partial,
            None if is_last_word && !turn.answered => Channel::Final,
            None => Channel::Observation,
        };
        let item = self.fitting_item(ended, channel)?;
        let is_answer = item.channel == Channel::Final;
        let caller = self.lease.caller_after_check().await?;
        match ended.utterance.append(&caller, vec![item.clone()]).await {
            Ok(_) => {}
            Err(failure) => self.record_detached(turn.id, item, failure).await?,
        }
        turn.answered |= is_answer;
        turn.cut = ended.message.cut.map(|cut| (cut, ended.error.take()));
        progress.ended = None;
        progress.state = None;
        Ok(())
    }

    /// The item of an ended message. A text that is too long for the ledger is halved until the item fits; each cut is
    /// logged.
    fn fitting_item(&self, ended: &mut EndedSpeech, channel: Channel) -> Result<ItemBody> {
        let limit = self.engine.limits().item_bytes;
        let mut item = to_item(&ended.message, channel, ended.error.as_ref())?;
        while item.bytes() > limit && !ended.message.content.is_empty() {
            let content = &ended.message.content;
            let bytes = content.len();
            tracing::warn!(message_id = %ended.message.id, bytes, "a message is too long for the ledger, and is cut");
            let end = content.floor_char_boundary(content.len() / 2);
            ended.message.content = content.get(..end).unwrap_or_default().into();
            ended.message.cut = Some(ended.message.cut.unwrap_or(Cut::Failed));
            item = to_item(&ended.message, Channel::Partial, ended.error.as_ref())?;
        }
        Ok(item)
    }

    /// Records a message whose draft or turn another caller has ended.
    async fn record_detached(&self, turn: TurnId, item: ItemBody, failure: Failure) -> Result<()> {
        match failure.code {
            ErrorCode::StreamLost => self.append(turn, item).await,
            ErrorCode::TurnClosed => {
                let key = item.item_id.clone();
                let key = key.ok_or_else(|| failure.clone())?;
                self.record_separate_turn(&format!("{key}.late"), vec![item])
                    .await
            }
            _ => Err(failure),
        }
    }

    /// Ends the turn: a human has the floor.
    pub(super) async fn end_turn(&self, progress: &mut Progress) -> Result<()> {
        if progress.is_speaking() {
            return Err(speaking_failure());
        }
        let answered = progress.turn.as_ref().is_some_and(|turn| turn.answered);
        if !answered && self.end_with_last_word(progress).await? {
            return Ok(());
        }
        self.record_ended(progress, true).await?;
        let Some(turn) = &progress.turn else {
            return Ok(());
        };
        let (caller, session) = (self.lease.caller_after_check().await?, self.session.clone());
        let turns = &self.engine.turns;
        let error = turn.cut.as_ref();
        let error = error.and_then(|(cut, error)| turn_error(*cut, error.as_ref()));
        let result = match (turn.answered, error) {
            (true, _) => {
                let answer = FinalizeTurn::default();
                turns.finalize(&caller, session, turn.id, answer).await
            }
            (false, Some(error)) => {
                let failed = FailTurn {
                    error,
                    partial_text: None,
                    fence: None,
                    release: false,
                };
                turns.fail(&caller, session, turn.id, failed).await
            }
            (false, None) => {
                let cancelled = CancelTurn::default();
                turns.cancel(&caller, session, turn.id, cancelled).await
            }
        };
        if let Err(failure) = result {
            if failure.code != ErrorCode::TurnClosed {
                return Err(failure);
            }
            tracing::warn!(detail = failure.detail, "another process ended the turn");
        }
        progress.turn = None;
        progress.state = None;
        Ok(())
    }

    /// Ends the turn in the write that records the last ended message as an item. Returns `false` if there is no such
    /// message, or if another caller has ended the turn.
    async fn end_with_last_word(&self, progress: &mut Progress) -> Result<bool> {
        let (Some(ended), Some(_)) = (&mut progress.ended, &progress.turn) else {
            return Ok(false);
        };
        let channel = match ended.message.cut {
            Some(_) => Channel::Partial,
            None => Channel::Final,
        };
        let item = self.fitting_item(ended, channel)?;
        let end = match ended.message.cut {
            None => TurnEnd::Answered,
            Some(cut) => {
                turn_error(cut, ended.error.as_ref()).map_or(TurnEnd::Cancelled, TurnEnd::Failed)
            }
        };
        let caller = self.lease.caller_after_check().await?;
        match ended.utterance.end_turn(&caller, vec![item], end).await {
            Ok(_) => {}
            Err(failure)
                if matches!(failure.code, ErrorCode::StreamLost | ErrorCode::TurnClosed) =>
            {
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        }
        progress.turn = None;
        progress.ended = None;
        progress.state = None;
        Ok(true)
    }
}
