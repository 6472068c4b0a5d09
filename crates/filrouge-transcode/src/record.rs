//! Recording a provider's stream while it flows (DESIGN §4): bytes are decoded, what they bring is written.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_engine::Recorded;
use filrouge_engine::stream::{
    Ended, RecordSettings, Recording, StreamError, StreamErrorSource, ended_elsewhere,
};
use filrouge_store::Scope;
use filrouge_store::draft::StreamId;
use filrouge_types::{Failure, JsonText, SessionId, Turn, TurnId};
use futures_core::Stream;
use tokio::time::{Instant, sleep_until};

use crate::stream::{Decoder, StreamFormat};

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

/// Records one stream into an open turn: bytes go in as they come.
///
/// Whoever drives it calls [`Self::tick`] when [`Self::due`] has come, and one of [`Self::end`] and [`Self::give_up`]
/// at last; [`record`] does all of it. A recorder that is dropped leaves its turn to the sweep.
pub struct Recorder {
    decoder: Decoder,
    recording: Recording,
    most: usize,
}

impl Recorder {
    /// Begins; from now on nobody else records into the turn.
    ///
    /// # Errors
    /// As [`Engine::record`].
    pub async fn begin(
        engine: &Arc<Engine>,
        scope: &Scope,
        what: RecordStream,
    ) -> Result<Self, Failure> {
        let settings = RecordSettings {
            format: what.format.as_str(),
            finalize: what.finalize,
            agent: what.agent,
        };
        let most = engine.limits().item_bytes;
        let recording = engine.record(scope, what.session_id, what.turn_id, settings);
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
    pub fn due(&mut self) -> Instant {
        self.recording.due(self.decoder.transcript())
    }

    /// Drafts what has grown when it is time, or gives a sign of life.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn tick(&mut self) -> Result<(), Failure> {
        self.recording.tick(self.decoder.transcript()).await
    }

    /// No more bytes will come. Gives the turn as it stands then.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn end(mut self) -> Result<Recorded<Turn>, Failure> {
        self.decoder.end();
        self.recording.end(self.decoder.transcript_mut()).await
    }

    /// Ends it before its end; one that has told its end has ended so. Gives the turn as it stands then.
    ///
    /// # Errors
    /// As [`Recording::advance`].
    pub async fn give_up(mut self, why: GiveUp) -> Result<Recorded<Turn>, Failure> {
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

    /// The turn as it stands, when somebody else has ended it.
    ///
    /// # Errors
    /// The ledger's.
    pub fn turn(&self) -> impl Future<Output = Result<Recorded<Turn>, Failure>> + Send {
        self.recording.standing()
    }
}

/// Whoever sends a stream is gone before its end.
#[must_use]
pub fn client_gone() -> GiveUp {
    GiveUp::Failed(StreamError {
        code: "client_gone".into(),
        message: JsonText::from_plain("who sent the stream was gone before its end"),
        source: StreamErrorSource::Client,
        retryable: true,
        raw: None,
    })
}

/// Records a whole stream of bytes, in whatever chunks they come; gives the turn as it stands at the end. When somebody
/// else has ended the turn meanwhile, the rest is not waited for.
///
/// An error of `body` means that it has broken off. `give_up` ends the recording early.
///
/// # Errors
/// As [`Engine::record`] and [`Recording::advance`].
pub async fn record<S, B, E>(
    engine: &Arc<Engine>,
    scope: &Scope,
    what: RecordStream,
    body: S,
    give_up: impl Future<Output = GiveUp>,
) -> Result<Recorded<Turn>, Failure>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]>,
{
    let mut recorder = Recorder::begin(engine, scope, what).await?;
    let (mut body, mut give_up) = (pin!(body), pin!(give_up));
    loop {
        let step = tokio::select! {
            bytes = next(body.as_mut()) => match bytes {
                None => return recorder.end().await,
                Some(Err(_)) => return recorder.give_up(client_gone()).await,
                Some(Ok(bytes)) => recorder.push(bytes.as_ref()).await,
            },
            () = sleep_until(recorder.due()) => recorder.tick().await,
            why = give_up.as_mut() => return recorder.give_up(why).await,
        };
        match step {
            Err(failure) if ended_elsewhere(&failure) => return recorder.turn().await,
            step => step?,
        }
        if recorder.has_ended() {
            return recorder.end().await;
        }
    }
}

async fn next<S: Stream>(mut body: Pin<&mut S>) -> Option<S::Item> {
    std::future::poll_fn(|cx| body.as_mut().poll_next(cx)).await
}
