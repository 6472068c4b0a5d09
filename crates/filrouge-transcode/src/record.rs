//! Records a provider's stream while it arrives (DESIGN §4): decodes the bytes and writes the resulting items and
//! drafts.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_engine::Written;
use filrouge_engine::stream::{
    RecordSettings, Recording, StreamEnd, StreamError, StreamErrorSource,
};
use filrouge_store::draft::StreamId;
use filrouge_types::{ErrorCode, JsonText, RawJson, Result, SessionId, Turn, TurnId, TurnStatus};
use futures_core::Stream;
use tokio::time::{Instant, sleep_until};

use crate::stream::{Decoder, StreamFormat};

/// The interval at which [`record`] checks whether another caller has ended the turn.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A stream to record, and its destination.
#[derive(Debug, Clone)]
pub struct RecordStream {
    /// The session.
    pub session_id: SessionId,
    /// The turn, which must be open.
    pub turn_id: TurnId,
    /// The format of the bytes.
    pub format: StreamFormat,
    /// Whether an answer ends the turn; otherwise the caller ends it.
    pub finalize: bool,
    /// The agent's name.
    pub agent: Option<Box<str>>,
}

/// The reason why a stream is abandoned before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GiveUp {
    /// This process is about to end: the turn is interrupted.
    Interrupted,
    /// The requester no longer wants the answer: the turn is cancelled.
    Cancelled,
    /// The stream cannot continue: the turn fails.
    Failed(StreamError),
}

impl GiveUp {
    /// The reason that the client disconnected before the stream ended; the turn is interrupted.
    pub fn client_gone() -> Self {
        Self::Failed(StreamError {
            code: "client_gone".into(),
            message: JsonText::from_plain("the sender disconnected before the end of the stream"),
            source: StreamErrorSource::Client,
            retryable: true,
            raw: None,
        })
    }

    /// The reason that reading the bytes failed before the end of the stream.
    pub fn truncated(why: &impl Display) -> Self {
        let detail = JsonText::from_plain(&why.to_string());
        let message = "the stream broke off before its end";
        Self::Failed(StreamError {
            raw: Some(RawJson::from_checked(detail.as_token())),
            ..StreamError::new("stream_truncated", message)
        })
    }
}

/// The result of a step of a recording.
#[must_use]
pub enum RecordingStep {
    /// The recording continues.
    Continues(Box<Recorder>),
    /// The recording is over.
    Ended {
        /// The turn in its present state.
        turn: Box<Written<Turn>>,
        /// Whether the recording is over because the stream contained its end.
        by_stream: bool,
    },
}

impl RecordingStep {
    fn ended(turn: Written<Turn>, by_stream: bool) -> Self {
        let turn = Box::new(turn);
        Self::Ended { turn, by_stream }
    }
}

/// Records one stream into an open turn, from bytes in any chunks.
///
/// Its driver calls [`Self::tick`] at [`Self::due`], passes the results of [`Self::push`] and [`Self::tick`] to
/// [`Self::continue_after`], and finally calls either [`Self::end`] or [`Self::give_up`]. The function [`record`] is
/// such a driver. If a recorder is dropped, the sweep interrupts its turn.
pub struct Recorder {
    decoder: Decoder,
    recording: Recording,
    max_item_bytes: usize,
}

impl Recorder {
    /// Begins a recording; from now on no other recording can write to the turn.
    ///
    /// # Errors
    /// As [`filrouge_engine::Streams::record`].
    pub async fn begin(
        engine: &Arc<Engine>,
        caller: &Caller,
        request: RecordStream,
    ) -> Result<Self> {
        let settings = RecordSettings {
            format: request.format.as_str(),
            finalize: request.finalize,
            agent: request.agent,
        };
        let max_item_bytes = engine.limits().item_bytes;
        let (session, turn) = (request.session_id, request.turn_id);
        let recording = engine.streams.record(caller, session, turn, settings);
        Ok(Self {
            decoder: Decoder::new(request.format)
                .with_frame_bytes(max_item_bytes.saturating_mul(2)),
            recording: recording.await?,
            max_item_bytes,
        })
    }

    /// The recording's id.
    pub const fn stream(&self) -> StreamId {
        self.recording.stream()
    }

    /// The approximate number of buffered bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.decoder.buffered_bytes()
    }

    /// The numbers of unknown events and of written drafts so far.
    pub const fn counts(&self) -> (u64, u64) {
        let (_, unknown) = self.decoder.transcript().events();
        (unknown, self.recording.drafts())
    }

    /// Whether the stream contained its end; later events are ignored.
    pub const fn has_ended(&self) -> bool {
        self.decoder.transcript().ended().is_some()
    }

    /// Decodes the next bytes and writes the items that they complete.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.decoder.push(bytes);
        let transcript = self.decoder.transcript_mut();
        if transcript.ended().is_none() && transcript.memory_bytes() > self.max_item_bytes {
            let message = "a piece of the answer is larger than an item may be";
            let error = StreamError::new("stream_too_large", message);
            transcript.end(StreamEnd::Failed(error));
        }
        self.recording.advance(transcript).await?;
        self.recording.tick(transcript).await
    }

    /// The time at which [`Self::tick`] is due.
    pub fn due(&self) -> Instant {
        self.recording.due(self.decoder.transcript())
    }

    /// Drafts the new text if a draft is due, or sends a heartbeat.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn tick(&mut self) -> Result<()> {
        self.recording.tick(self.decoder.transcript()).await
    }

    /// Drafts the new text, whether or not a draft is due, because another caller is about to end the turn.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn flush(&mut self) -> Result<()> {
        self.recording.flush(self.decoder.transcript()).await
    }

    /// Ends the recording: no more bytes follow. Returns the turn in its final state.
    ///
    /// # Errors
    /// As [`Recording::handle_refusal`].
    pub async fn end(mut self) -> Result<Written<Turn>> {
        self.decoder.end();
        self.recording.end(self.decoder.transcript_mut()).await
    }

    /// Ends the recording early for this reason. If the stream has contained its end already, ends it as [`Self::end`]
    /// does. Returns the turn in its final state.
    ///
    /// # Errors
    /// As [`Recording::handle_refusal`].
    pub async fn give_up(mut self, why: GiveUp) -> Result<Written<Turn>> {
        let ended = match why {
            GiveUp::Interrupted if !self.has_ended() => {
                let transcript = self.decoder.transcript_mut();
                return self.recording.interrupt(transcript).await;
            }
            GiveUp::Interrupted => return self.end().await,
            GiveUp::Cancelled => StreamEnd::Cancelled,
            GiveUp::Failed(error) => StreamEnd::Failed(error),
        };
        self.decoder.break_off(ended);
        self.recording.end(self.decoder.transcript_mut()).await
    }

    /// Decides how the recording continues after [`Self::push`] or [`Self::tick`]. It is over if the stream contained
    /// its end, if the turn has reached a limit, which is recorded as its failure, or if another caller has ended the
    /// turn.
    ///
    /// # Errors
    /// As [`Recording::handle_refusal`].
    pub async fn continue_after(self: Box<Self>, written: Result<()>) -> Result<RecordingStep> {
        Ok(match written {
            Err(failure) => {
                let transcript = self.decoder.transcript();
                let turn = self.recording.handle_refusal(transcript, failure).await?;
                RecordingStep::ended(turn, false)
            }
            Ok(()) if self.has_ended() => RecordingStep::ended(self.end().await?, true),
            Ok(()) => RecordingStep::Continues(self),
        })
    }

    /// Decides how the recording continues after another caller may have written to the session: it is over if the turn
    /// ended.
    ///
    /// # Errors
    /// `session_erased`. Any other failure to read the turn is ignored, because the next write reports it.
    pub async fn recheck_turn(self: Box<Self>) -> Result<RecordingStep> {
        match self.recording.current_turn().await {
            Ok(turn) if turn.status != TurnStatus::Open => Ok(RecordingStep::ended(turn, false)),
            Err(failure) if failure.code == ErrorCode::SessionErased => Err(failure),
            _ => Ok(RecordingStep::Continues(self)),
        }
    }
}

/// Records a complete stream of bytes, in chunks of any size; returns the turn in its final state.
///
/// - An error of `body` means that the stream was truncated: the turn fails with `stream_truncated`, and the error's
///   text is the `detail`.
/// - Bytes after the end of the response are not read.
/// - If another caller ends the turn, the recording stops without reading the rest: at the next write, or within a
///   second if no bytes arrive.
/// - `give_up` ends the recording early; [`std::future::pending`] does not.
///
/// # Examples
/// ```
/// use std::{fmt::Display, future::pending, sync::Arc};
///
/// use filrouge_engine::{Caller, Engine};
/// use filrouge_transcode::{RecordStream, StreamFormat, record};
/// use filrouge_types::{Failure, SessionId, TenantId, Turn, TurnId};
/// use futures_core::Stream;
///
/// /// `body` is the provider's answer, as an HTTP client yields it.
/// async fn keep<E: Display>(
///     engine: &Arc<Engine>,
///     (tenant, session_id, turn_id): (TenantId, SessionId, TurnId),
///     body: impl Stream<Item = Result<Vec<u8>, E>>,
/// ) -> Result<Turn, Failure> {
///     let caller = Caller::operator(tenant);
///     let (format, finalize, agent) = (StreamFormat::Anthropic, true, None);
///     let request = RecordStream { session_id, turn_id, format, finalize, agent };
///     let recorded = record(engine, &caller, request, body, pending()).await?;
///     Ok(recorded.into_value())
/// }
/// ```
///
/// # Errors
/// As [`filrouge_engine::Streams::record`] and [`Recording::handle_refusal`]; `session_erased`.
pub async fn record<S, B, E>(
    engine: &Arc<Engine>,
    caller: &Caller,
    request: RecordStream,
    body: S,
    give_up: impl Future<Output = GiveUp>,
) -> Result<Written<Turn>>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]>,
    E: Display,
{
    let mut recorder = Box::new(Recorder::begin(engine, caller, request).await?);
    let mut next_check = Instant::now() + CHECK_INTERVAL;
    let (mut body, mut give_up) = (pin!(body), pin!(give_up));
    loop {
        let step = tokio::select! {
            bytes = poll_fn(|cx| body.as_mut().poll_next(cx)) => match bytes {
                None => return recorder.end().await,
                Some(Err(error)) => return recorder.give_up(GiveUp::truncated(&error)).await,
                Some(Ok(bytes)) => {
                    let written = recorder.push(bytes.as_ref()).await;
                    recorder.continue_after(written).await?
                }
            },
            () = sleep_until(recorder.due()) => {
                let written = recorder.tick().await;
                recorder.continue_after(written).await?
            }
            () = sleep_until(next_check) => {
                next_check = Instant::now() + CHECK_INTERVAL;
                recorder.recheck_turn().await?
            }
            why = give_up.as_mut() => return recorder.give_up(why).await,
        };
        match step {
            RecordingStep::Continues(next) => recorder = next,
            RecordingStep::Ended { turn, .. } => return Ok(*turn),
        }
    }
}
