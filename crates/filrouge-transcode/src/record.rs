//! Recording a provider's stream while it flows (DESIGN §4): bytes are decoded, what they bring is written.

use std::fmt::Display;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_engine::Written;
use filrouge_engine::stream::{Ended, RecordSettings, Recording, StreamError, StreamErrorSource};
use filrouge_store::draft::StreamId;
use filrouge_types::{ErrorCode, Failure, JsonText, RawJson, SessionId, Turn, TurnId, TurnStatus};
use futures_core::Stream;
use tokio::time::{Instant, sleep_until};

use crate::stream::{Decoder, StreamFormat};

/// How often [`record`] looks whether somebody else has ended the turn.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is to be recorded, and where.
#[derive(Debug, Clone)]
pub struct RecordStream {
    /// The session.
    pub session_id: SessionId,
    /// The turn, which must be open.
    pub turn_id: TurnId,
    /// What the bytes are written in.
    pub format: StreamFormat,
    /// Whether an answer ends the turn; else the caller ends it.
    pub finalize: bool,
    /// The agent that speaks.
    pub agent: Option<Box<str>>,
}

/// Why a stream is given up before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GiveUp {
    /// This process ends: the turn is interrupted.
    Interrupted,
    /// Who asked for the answer does not want it any more: the turn is cancelled.
    Cancelled,
    /// It cannot go on: the turn has failed.
    Failed(StreamError),
}

impl GiveUp {
    /// Whoever sends the stream is gone before its end.
    #[must_use]
    pub fn client_gone() -> Self {
        Self::Failed(StreamError {
            code: "client_gone".into(),
            message: JsonText::from_plain("who sent the stream was gone before its end"),
            source: StreamErrorSource::Client,
            retryable: true,
            raw: None,
        })
    }

    /// What the bytes are read from has failed before their end.
    #[must_use]
    pub fn truncated(why: &impl Display) -> Self {
        let why = JsonText::from_plain(&why.to_string());
        let what = "the stream broke off before its end";
        Self::Failed(StreamError {
            raw: Some(RawJson::from_checked(why.as_token())),
            ..StreamError::of_stream("stream_truncated", what)
        })
    }
}

/// How a recording goes on.
#[must_use]
pub enum Step {
    /// It takes more.
    Goes(Box<Recorder>),
    /// It is over.
    Ended {
        /// The turn as it stands.
        turn: Box<Written<Turn>>,
        /// Whether it is over because the stream has told its end.
        told: bool,
    },
}

impl Step {
    fn ended(turn: Written<Turn>, told: bool) -> Self {
        let turn = Box::new(turn);
        Self::Ended { turn, told }
    }
}

/// Records one stream into an open turn: bytes go in as they come.
///
/// Whoever drives it calls [`Self::tick`] when [`Self::due`] has come, hands what [`Self::push`] and that give to
/// [`Self::after`], and calls one of [`Self::end`] and [`Self::give_up`] at last; [`record`] does all of it. A recorder
/// that is dropped leaves its turn to the sweep.
pub struct Recorder {
    decoder: Decoder,
    recording: Recording,
    most: usize,
}

impl Recorder {
    /// Begins; from now on nobody else records into the turn.
    ///
    /// # Errors
    /// As [`filrouge_engine::Streams::record`].
    pub async fn begin(
        engine: &Arc<Engine>,
        caller: &Caller,
        what: RecordStream,
    ) -> Result<Self, Failure> {
        let settings = RecordSettings {
            format: what.format.as_str(),
            finalize: what.finalize,
            agent: what.agent,
        };
        let most = engine.limits().item_bytes;
        let recording = engine
            .streams
            .record(caller, what.session_id, what.turn_id, settings);
        Ok(Self {
            decoder: Decoder::new(what.format).with_frame_bytes(most.saturating_mul(2)),
            recording: recording.await?,
            most,
        })
    }

    /// The recording's name.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        self.recording.stream()
    }

    /// Bytes that it holds, about.
    #[must_use]
    pub fn held(&self) -> usize {
        self.decoder.held()
    }

    /// How many events nobody knew, and how many drafts were written, so far.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        let (_, unknown) = self.decoder.transcript().events();
        (unknown, self.recording.drafts())
    }

    /// Whether the stream has told its end: what comes behind it is not looked at.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.decoder.transcript().ended().is_some()
    }

    /// Takes the next bytes and writes what they complete.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.decoder.push(bytes);
        let transcript = self.decoder.transcript_mut();
        if transcript.ended().is_none() && transcript.held() > self.most {
            let what = "a piece of the answer has more bytes than an item may have";
            let error = StreamError::of_stream("stream_too_large", what);
            transcript.end(Ended::Failed(error));
        }
        self.recording.advance(transcript).await?;
        self.recording.tick(transcript).await
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.recording.due(self.decoder.transcript())
    }

    /// Drafts what has grown when it is time, or gives a sign of life.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn tick(&mut self) -> Result<(), Failure> {
        self.recording.tick(self.decoder.transcript()).await
    }

    /// Drafts what has grown, whether it is time or not: somebody is about to end the turn.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn flush(&mut self) -> Result<(), Failure> {
        self.recording.flush(self.decoder.transcript()).await
    }

    /// No more bytes will come. Gives the turn as it stands then.
    ///
    /// # Errors
    /// As [`Recording::refused`].
    pub async fn end(mut self) -> Result<Written<Turn>, Failure> {
        self.decoder.end();
        self.recording.end(self.decoder.transcript_mut()).await
    }

    /// Ends it before its end; one that has told its end has ended so. Gives the turn as it stands then.
    ///
    /// # Errors
    /// As [`Recording::refused`].
    pub async fn give_up(mut self, why: GiveUp) -> Result<Written<Turn>, Failure> {
        let ended = match why {
            GiveUp::Interrupted if !self.has_ended() => {
                let transcript = self.decoder.transcript_mut();
                return self.recording.interrupt(transcript).await;
            }
            GiveUp::Interrupted => return self.end().await,
            GiveUp::Cancelled => Ended::Cancelled,
            GiveUp::Failed(error) => Ended::Failed(error),
        };
        self.decoder.break_off(ended);
        self.recording.end(self.decoder.transcript_mut()).await
    }

    /// How it goes on after what [`Self::push`] or [`Self::tick`] gave. It is over when the stream has told its end, when
    /// the turn takes no more, which is told in it then, and when somebody else has ended the turn.
    ///
    /// # Errors
    /// As [`Recording::refused`].
    pub async fn after(self: Box<Self>, written: Result<(), Failure>) -> Result<Step, Failure> {
        Ok(match written {
            Err(failure) => {
                let transcript = self.decoder.transcript();
                Step::ended(self.recording.refused(transcript, failure).await?, false)
            }
            Ok(()) if self.has_ended() => Step::ended(self.end().await?, true),
            Ok(()) => Step::Goes(self),
        })
    }

    /// How it goes on after somebody may have written to the session: it is over when the turn was ended.
    ///
    /// # Errors
    /// `session_erased`. What else keeps the turn from being read shows when the next piece is written.
    pub async fn changed(self: Box<Self>) -> Result<Step, Failure> {
        match self.recording.standing().await {
            Ok(turn) if turn.status != TurnStatus::Open => Ok(Step::ended(turn, false)),
            Err(failure) if failure.code == ErrorCode::SessionErased => Err(failure),
            _ => Ok(Step::Goes(self)),
        }
    }
}

/// Records a whole stream of bytes, in whatever chunks they come; gives the turn as it stands at the end.
///
/// - An error of `body` means that it has broken off: the turn fails with `stream_truncated`, and the error's text is
///   the `detail`.
/// - What comes behind the end of the response is not read.
/// - When somebody else ends the turn, the rest is not waited for: it is noticed with the next piece that is written,
///   and within a second when nothing comes.
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
/// /// `body` is what the provider answers, as an HTTP client gives it.
/// async fn keep<E: Display>(
///     engine: &Arc<Engine>,
///     (tenant, session_id, turn_id): (TenantId, SessionId, TurnId),
///     body: impl Stream<Item = Result<Vec<u8>, E>>,
/// ) -> Result<Turn, Failure> {
///     let caller = Caller::operator(tenant);
///     let (format, finalize, agent) = (StreamFormat::Anthropic, true, None);
///     let what = RecordStream { session_id, turn_id, format, finalize, agent };
///     let recorded = record(engine, &caller, what, body, pending()).await?;
///     Ok(recorded.into_value())
/// }
/// ```
///
/// # Errors
/// As [`filrouge_engine::Streams::record`] and [`Recording::refused`]; `session_erased`.
pub async fn record<S, B, E>(
    engine: &Arc<Engine>,
    caller: &Caller,
    what: RecordStream,
    body: S,
    give_up: impl Future<Output = GiveUp>,
) -> Result<Written<Turn>, Failure>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]>,
    E: Display,
{
    let mut recorder = Box::new(Recorder::begin(engine, caller, what).await?);
    let mut look = Instant::now() + LOOK_EVERY;
    let (mut body, mut give_up) = (pin!(body), pin!(give_up));
    loop {
        let step = tokio::select! {
            bytes = next(body.as_mut()) => match bytes {
                None => return recorder.end().await,
                Some(Err(error)) => return recorder.give_up(GiveUp::truncated(&error)).await,
                Some(Ok(bytes)) => {
                    let written = recorder.push(bytes.as_ref()).await;
                    recorder.after(written).await?
                }
            },
            () = sleep_until(recorder.due()) => {
                let written = recorder.tick().await;
                recorder.after(written).await?
            }
            () = sleep_until(look) => {
                look = Instant::now() + LOOK_EVERY;
                recorder.changed().await?
            }
            why = give_up.as_mut() => return recorder.give_up(why).await,
        };
        match step {
            Step::Goes(goes) => recorder = goes,
            Step::Ended { turn, .. } => return Ok(*turn),
        }
    }
}

async fn next<S: Stream>(mut body: Pin<&mut S>) -> Option<S::Item> {
    std::future::poll_fn(|cx| body.as_mut().poll_next(cx)).await
}
