//! One recording from its first byte to the end of its turn.

use std::pin::{Pin, pin};
use std::time::Duration;

use axum::body::{Body, Bytes};
use filrouge_engine::Caller;
use filrouge_engine::Written;
use filrouge_engine::following::Follower;

use filrouge_engine::stream::StreamError;
use filrouge_transcode::{GiveUp, RecordStream, Recorder, Step};
use filrouge_types::{ErrorCode, Failure, Turn, TurnId};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::app::App;
use crate::recordings::{Flush, Listening, UnderWay};
use filrouge_http::access::Principal;
use filrouge_http::extract::RawBody;
use filrouge_http::limits::Reservation;

/// How long a stream may go on once the server is told to stop: time for its end and its answer is left of what
/// connections have.
const STOP_AFTER: Duration = Duration::from_secs(7);
/// What is read behind the end of a stream, so that its connection can be used again.
const REST_BYTES: usize = 64 << 10;
const REST_WITHIN: Duration = Duration::from_secs(1);

/// A stream that is to be recorded.
pub(super) struct Flow {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) principal: Principal,
    pub(super) what: RecordStream,
    pub(super) body: RawBody,
}

/// What has happened.
enum Heard {
    Bytes(Bytes),
    /// The body is over.
    Over,
    /// Something is due to be written.
    Due,
    /// Somebody has written to the session.
    Changed,
    /// Somebody is about to end the turn.
    Flush(Flush),
    GiveUp(GiveUp),
}

impl Flow {
    /// Records; gives the turn as it stands at the end.
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
        let mut ear = Ear {
            flushes: app.recordings.listen(turn_id),
            body,
            follower,
            idle: app.limits().settings().stream_idle,
            heard: Instant::now(),
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
        let turn = flow(recorder, &mut ear, room, &mut under_way, gives_up).await;
        let outcome = match &turn {
            Ok((turn, _)) => turn.status.as_str(),
            Err(failure) => not_recorded(failure, turn_id),
        };
        under_way.ended(format, outcome);
        let (turn, told) = turn?;
        if told {
            rest(&mut ear.body).await;
        }
        Ok(turn)
    }
}

/// What a recording listens to.
struct Ear<'r> {
    flushes: Listening<'r>,
    body: Body,
    follower: Follower,
    idle: Duration,
    heard: Instant,
}

impl Ear<'_> {
    async fn next(&mut self, due: Instant) -> Heard {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = sleep_until(due) => return Heard::Due,
                () = self.follower.changed() => return Heard::Changed,
                flush = self.flushes.asked() => return Heard::Flush(flush),
                () = sleep_until(self.heard + self.idle) => {
                    return Heard::GiveUp(failed("stream_idle", "nothing came for longer than is waited"));
                }
            };
            match frame {
                None => return Heard::Over,
                Some(Err(_)) => return Heard::GiveUp(GiveUp::client_gone()),
                Some(Ok(frame)) => {
                    self.heard = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        return Heard::Bytes(data);
                    }
                }
            }
        }
    }
}

/// Reads what stands behind a stream's end, or what a refused one sends, if it is little.
async fn rest(body: &mut Body) {
    let reading = Limited::new(body, REST_BYTES).collect();
    // What does not come is not waited for: the connection is closed then.
    let _ = timeout(REST_WITHIN, reading).await;
}

/// Takes one step after the other, to the end; tells with the turn whether the stream has told its end.
async fn flow(
    mut recorder: Box<Recorder>,
    ear: &mut Ear<'_>,
    room: &Reservation,
    under_way: &mut UnderWay<'_>,
    mut gives_up: Pin<&mut impl Future<Output = GiveUp>>,
) -> Result<(Written<Turn>, bool), Failure> {
    loop {
        let heard = tokio::select! {
            why = gives_up.as_mut() => Heard::GiveUp(why),
            heard = ear.next(recorder.due()) => heard,
        };
        let written = match heard {
            Heard::Bytes(bytes) => {
                under_way.received(bytes.len());
                recorder.push(&bytes).await
            }
            Heard::Due => recorder.tick().await,
            Heard::Flush(flush) => {
                let written = recorder.flush().await;
                // Whoever has asked may be gone.
                let _ = flush.send(());
                written
            }
            Heard::Changed => match recorder.changed().await? {
                Step::Goes(goes) => {
                    recorder = goes;
                    continue;
                }
                Step::Ended { turn, told } => return Ok((*turn, told)),
            },
            Heard::Over => return Ok((recorder.end().await?, false)),
            Heard::GiveUp(why) => return Ok((recorder.give_up(why).await?, false)),
        };
        under_way.counts(recorder.counts());
        match recorder.after(written).await? {
            Step::Goes(goes) => recorder = goes,
            Step::Ended { turn, told } => return Ok((*turn, told)),
        }
        if !room.hold(recorder.held()) {
            let why = failed("overloaded", "too many bytes are held at once");
            return Ok((recorder.give_up(why).await?, false));
        }
    }
}

/// What becomes of a recording that may not write any more: its turn is open still, and the draft holds what has come,
/// for whoever goes on with the session.
fn not_recorded(failure: &Failure, turn_id: TurnId) -> &'static str {
    use ErrorCode::{LeaseExpired, LeaseHeld, StaleFence};
    if !matches!(failure.code, StaleFence | LeaseExpired | LeaseHeld) {
        return "lost";
    }
    let code = failure.code.as_str();
    tracing::warn!(%turn_id, code, "a stream is recorded no longer: its lease does not hold the session");
    code
}

fn failed(code: &str, message: &str) -> GiveUp {
    GiveUp::Failed(StreamError::of_stream(code, message))
}
