//! Runs one recording, from the first byte of the stream to the end of its turn.

use std::pin::{Pin, pin};
use std::time::Duration;

use axum::body::{Body, Bytes};
use filrouge_engine::Caller;
use filrouge_engine::Written;
use filrouge_engine::following::Follower;

use filrouge_engine::stream::StreamError;
use filrouge_transcode::{GiveUp, RecordStream, Recorder, RecordingStep};
use filrouge_types::{ErrorCode, Failure, Turn, TurnId};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::app::App;
use crate::recordings::{Flush, FlushHandle, RecordingInProgress};
use filrouge_http::access::Principal;
use filrouge_http::extract::RawBody;
use filrouge_http::limits::Reservation;

/// How long a stream may continue after the server was asked to stop. After that, there is still time to end the turn
/// and to respond before connections are cut off.
const STOP_DELAY: Duration = Duration::from_secs(7);
/// The maximum number of bytes, and the maximum time, for reading the rest of a body after the recording has ended, so
/// that the connection can be reused.
const TRAILING_MAX_BYTES: usize = 64 << 10;
const TRAILING_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream to record.
pub(super) struct RecordingTask {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) principal: Principal,
    pub(super) request: RecordStream,
    pub(super) body: RawBody,
}

/// An event to which the recording reacts.
enum Input {
    Bytes(Bytes),
    /// The body has ended.
    BodyEnded,
    /// The next write is due.
    WriteDue,
    /// The session has changed.
    Changed,
    /// Another request is about to end the turn.
    Flush(Flush),
    GiveUp(GiveUp),
}

impl RecordingTask {
    /// Records the stream; returns the turn in its state at the end of the recording.
    pub(super) async fn run(self) -> Result<Written<Turn>, Failure> {
        let (app, request) = (self.app, self.request);
        let mut progress = app.recordings.begin();
        let caller = &self.caller;
        let (format, turn_id) = (request.format.as_str(), request.turn_id);
        let begin = async {
            let following = &app.following;
            let follower = following.follow(caller, &request.session_id).await?;
            let recorder = Recorder::begin(app.engine(), caller, request).await?;
            Ok::<_, Failure>((follower, Box::new(recorder)))
        };
        let mut body = self.body.body;
        let (follower, recorder) = match begin.await {
            Ok(started) => started,
            Err(failure) => {
                discard_trailing(&mut body).await;
                return Err(failure);
            }
        };
        let mut inputs = InputSources {
            flushes: app.recordings.register(turn_id),
            body,
            follower,
            idle: app.limits().settings().stream_idle,
            last_frame: Instant::now(),
        };
        let giving_up = pin!(async {
            tokio::select! {
                () = self.principal.wait_until_ended() => {
                    fail_stream("credentials", "the credentials stopped being valid while the stream flowed")
                }
                () = async { app.wait_until_stopping().await; sleep(STOP_DELAY).await } => GiveUp::Interrupted,
            }
        });
        let reservation = &self.body.reservation;
        let turn = record(recorder, &mut inputs, reservation, &mut progress, giving_up).await;
        let outcome = match &turn {
            Ok((turn, _)) => turn.status.as_str(),
            Err(failure) => failure_outcome(failure, turn_id),
        };
        progress.count_end(format, outcome);
        let (turn, by_stream) = turn?;
        if by_stream {
            discard_trailing(&mut inputs.body).await;
        }
        Ok(turn)
    }
}

/// The sources of a recording's events.
struct InputSources<'r> {
    flushes: FlushHandle<'r>,
    body: Body,
    follower: Follower,
    /// How long the recording waits for the next bytes.
    idle: Duration,
    /// When the newest frame arrived.
    last_frame: Instant,
}

impl InputSources<'_> {
    async fn next(&mut self, write_at: Instant) -> Input {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = sleep_until(write_at) => return Input::WriteDue,
                () = self.follower.changed() => return Input::Changed,
                flush = self.flushes.flush_requested() => return Input::Flush(flush),
                () = sleep_until(self.last_frame + self.idle) => {
                    return Input::GiveUp(fail_stream("stream_idle", "nothing arrived within the idle timeout"));
                }
            };
            match frame {
                None => return Input::BodyEnded,
                Some(Err(_)) => return Input::GiveUp(GiveUp::client_gone()),
                Some(Ok(frame)) => {
                    self.last_frame = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        return Input::Bytes(data);
                    }
                }
            }
        }
    }
}

/// Reads and discards the rest of a body, within limits: the bytes after the end of a stream, or the body of a refused
/// request.
async fn discard_trailing(body: &mut Body) {
    let reading = Limited::new(body, TRAILING_MAX_BYTES).collect();
    // If the rest does not arrive in time, the connection is closed.
    let _ = timeout(TRAILING_TIMEOUT, reading).await;
}

/// Runs the recording until it ends; returns the turn, and whether an event of the stream marked the end, so that the
/// body may continue.
async fn record(
    mut recorder: Box<Recorder>,
    inputs: &mut InputSources<'_>,
    reservation: &Reservation,
    progress: &mut RecordingInProgress<'_>,
    mut giving_up: Pin<&mut impl Future<Output = GiveUp>>,
) -> Result<(Written<Turn>, bool), Failure> {
    loop {
        let input = tokio::select! {
            why = giving_up.as_mut() => Input::GiveUp(why),
            input = inputs.next(recorder.due()) => input,
        };
        let written = match input {
            Input::Bytes(bytes) => {
                progress.count_bytes(bytes.len());
                recorder.push(&bytes).await
            }
            Input::WriteDue => recorder.tick().await,
            Input::Flush(flush) => {
                let written = recorder.flush().await;
                // The caller may have disconnected.
                let _ = flush.send(());
                written
            }
            Input::Changed => match recorder.recheck_turn().await? {
                RecordingStep::Continues(next) => {
                    recorder = next;
                    continue;
                }
                RecordingStep::Ended { turn, by_stream } => return Ok((*turn, by_stream)),
            },
            Input::BodyEnded => return Ok((recorder.end().await?, false)),
            Input::GiveUp(why) => return Ok((recorder.give_up(why).await?, false)),
        };
        progress.update_counts(recorder.counts());
        match recorder.continue_after(written).await? {
            RecordingStep::Continues(next) => recorder = next,
            RecordingStep::Ended { turn, by_stream } => return Ok((*turn, by_stream)),
        }
        if !reservation.resize(recorder.buffered_bytes()) {
            let why = fail_stream("overloaded", "too many bytes are held at once");
            return Ok((recorder.give_up(why).await?, false));
        }
    }
}

/// Returns the outcome of a recording that failed, and logs it if the recording lost its lease. The turn then stays
/// open, and its draft contains what has arrived, for the next holder of the session.
fn failure_outcome(failure: &Failure, turn_id: TurnId) -> &'static str {
    use ErrorCode::{LeaseExpired, LeaseHeld, StaleFence};
    if !matches!(failure.code, StaleFence | LeaseExpired | LeaseHeld) {
        return "lost";
    }
    let code = failure.code.as_str();
    tracing::warn!(%turn_id, code, "a recording was ended: its lease no longer holds the session");
    code
}

fn fail_stream(code: &str, message: &str) -> GiveUp {
    GiveUp::Failed(StreamError::new(code, message))
}
