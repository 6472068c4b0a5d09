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
use crate::recordings::{Flush, Registered, UnderWay};
use filrouge_http::access::Principal;
use filrouge_http::extract::RawBody;
use filrouge_http::limits::Reservation;

/// How long a stream may continue after the server was asked to stop. After that, there is still time to end the turn
/// and to respond before connections are cut off.
const STOP_AFTER: Duration = Duration::from_secs(7);
/// The maximum number of bytes, and the maximum time, for reading the rest of a body after the recording has ended, so
/// that the connection can be reused.
const REST_BYTES: usize = 64 << 10;
const REST_WITHIN: Duration = Duration::from_secs(1);

/// A stream to record.
pub(super) struct Flow {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) principal: Principal,
    pub(super) what: RecordStream,
    pub(super) body: RawBody,
}

/// An event to which the recording reacts.
enum Input {
    Bytes(Bytes),
    /// The body has ended.
    Over,
    /// The time of the next write has come.
    Due,
    /// The session has changed.
    Changed,
    /// Another request is about to end the turn.
    Flush(Flush),
    GiveUp(GiveUp),
}

impl Flow {
    /// Records the stream; returns the turn as it is when the recording ends.
    pub(super) async fn run(self) -> Result<Written<Turn>, Failure> {
        let (app, what) = (self.app, self.what);
        let mut under_way = app.recordings.begin();
        let caller = &self.caller;
        let (format, turn_id) = (what.format.as_str(), what.turn_id);
        let begin = async {
            let following = &app.following;
            let follower = following.follow(caller, &what.session_id).await?;
            let recorder = Recorder::begin(app.engine(), caller, what).await?;
            Ok::<_, Failure>((follower, Box::new(recorder)))
        };
        let mut body = self.body.body;
        let (follower, recorder) = match begin.await {
            Ok(begun) => begun,
            Err(failure) => {
                rest(&mut body).await;
                return Err(failure);
            }
        };
        let mut inputs = Inputs {
            flushes: app.recordings.register(turn_id),
            body,
            follower,
            idle: app.limits().settings().stream_idle,
            last_frame: Instant::now(),
        };
        let gives_up = pin!(async {
            tokio::select! {
                () = self.principal.ended() => {
                    failed("credentials", "the credentials stopped being valid while the stream flowed")
                }
                () = async { app.stopped().await; sleep(STOP_AFTER).await } => GiveUp::Interrupted,
            }
        });
        let room = &self.body.room;
        let turn = flow(recorder, &mut inputs, room, &mut under_way, gives_up).await;
        let outcome = match &turn {
            Ok((turn, _)) => turn.status.as_str(),
            Err(failure) => not_recorded(failure, turn_id),
        };
        under_way.ended(format, outcome);
        let (turn, by_stream) = turn?;
        if by_stream {
            rest(&mut inputs.body).await;
        }
        Ok(turn)
    }
}

/// The sources of a recording's events.
struct Inputs<'r> {
    flushes: Registered<'r>,
    body: Body,
    follower: Follower,
    /// How long the recording waits for the next bytes.
    idle: Duration,
    /// When something last arrived.
    last_frame: Instant,
}

impl Inputs<'_> {
    async fn next(&mut self, due: Instant) -> Input {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = sleep_until(due) => return Input::Due,
                () = self.follower.changed() => return Input::Changed,
                flush = self.flushes.flush_requested() => return Input::Flush(flush),
                () = sleep_until(self.last_frame + self.idle) => {
                    return Input::GiveUp(failed("stream_idle", "nothing arrived within the idle timeout"));
                }
            };
            match frame {
                None => return Input::Over,
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

/// Reads the rest of a body, within limits: what follows the end of a stream, or the body of a refused request.
async fn rest(body: &mut Body) {
    let reading = Limited::new(body, REST_BYTES).collect();
    // If the rest does not arrive in time, the connection is closed.
    let _ = timeout(REST_WITHIN, reading).await;
}

/// Runs the recording until it ends; returns the turn, and whether an event of the stream marked the end, so that the
/// body may continue.
async fn flow(
    mut recorder: Box<Recorder>,
    inputs: &mut Inputs<'_>,
    room: &Reservation,
    under_way: &mut UnderWay<'_>,
    mut gives_up: Pin<&mut impl Future<Output = GiveUp>>,
) -> Result<(Written<Turn>, bool), Failure> {
    loop {
        let input = tokio::select! {
            why = gives_up.as_mut() => Input::GiveUp(why),
            input = inputs.next(recorder.due()) => input,
        };
        let written = match input {
            Input::Bytes(bytes) => {
                under_way.received(bytes.len());
                recorder.push(&bytes).await
            }
            Input::Due => recorder.tick().await,
            Input::Flush(flush) => {
                let written = recorder.flush().await;
                // The caller may have disconnected.
                let _ = flush.send(());
                written
            }
            Input::Changed => match recorder.changed().await? {
                RecordingStep::Continues(next) => {
                    recorder = next;
                    continue;
                }
                RecordingStep::Ended { turn, by_stream } => return Ok((*turn, by_stream)),
            },
            Input::Over => return Ok((recorder.end().await?, false)),
            Input::GiveUp(why) => return Ok((recorder.give_up(why).await?, false)),
        };
        under_way.counts(recorder.counts());
        match recorder.after(written).await? {
            RecordingStep::Continues(next) => recorder = next,
            RecordingStep::Ended { turn, by_stream } => return Ok((*turn, by_stream)),
        }
        if !room.hold(recorder.held()) {
            let why = failed("overloaded", "too many bytes are held at once");
            return Ok((recorder.give_up(why).await?, false));
        }
    }
}

/// Returns the outcome of a recording that failed, and logs it if the recording lost its lease. The turn then stays
/// open, and its draft contains what has arrived, for the next holder of the session.
fn not_recorded(failure: &Failure, turn_id: TurnId) -> &'static str {
    use ErrorCode::{LeaseExpired, LeaseHeld, StaleFence};
    if !matches!(failure.code, StaleFence | LeaseExpired | LeaseHeld) {
        return "lost";
    }
    let code = failure.code.as_str();
    tracing::warn!(%turn_id, code, "a recording was ended: its lease no longer holds the session");
    code
}

fn failed(code: &str, message: &str) -> GiveUp {
    GiveUp::Failed(StreamError::of_stream(code, message))
}
