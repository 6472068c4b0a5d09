//! One recording from its first byte to the end of its turn.

use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use filrouge_engine::Recorded;
use filrouge_engine::live::Follower;
use filrouge_engine::stream::{StreamError, ended_elsewhere};
use filrouge_store::Scope;
use filrouge_transcode::{GiveUp, RecordStream, Recorder, client_gone};
use filrouge_types::{ErrorCode, Failure, Turn, TurnStatus};
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::access::Principal;
use crate::extract::RawBody;
use crate::limits::Reservation;
use crate::recordings::UnderWay;
use crate::serve::App;

/// How long a stream may go on once the server is told to stop: time for its end and its answer is left of what
/// connections have.
const STOP_AFTER: Duration = Duration::from_secs(7);
/// What is read behind the end of a stream, so that its connection can be used again.
const REST_BYTES: usize = 64 << 10;
const REST_WITHIN: Duration = Duration::from_secs(1);

/// A stream that is to be recorded.
pub(super) struct Flow {
    pub(super) app: App,
    pub(super) scope: Scope,
    pub(super) principal: Principal,
    pub(super) what: RecordStream,
    pub(super) body: RawBody,
}

/// What has happened.
enum Step {
    Bytes(Bytes),
    /// The body is over.
    Over,
    /// Something is due to be written.
    Due,
    /// Somebody has written to the session.
    Changed,
    GiveUp(GiveUp),
}

/// How the recording goes on.
enum Then {
    Goes(Recorder),
    /// It is over; whether it was the stream that told its end.
    Ended(Recorded<Turn>, bool),
}

impl Flow {
    /// Records; gives the turn as it stands at the end.
    pub(super) async fn run(self) -> Result<Recorded<Turn>, Failure> {
        let (app, what) = (self.app, self.what);
        let mut under_way = app.recordings().begin();
        let (scope, ledger) = (&self.scope, app.engine().ledger());
        let follower = app.live().follow(ledger, scope, &what.session_id).await?;
        let format = what.format.as_str();
        let recorder = Recorder::begin(app.engine(), scope, what).await?;
        let mut ear = Ear {
            body: self.body.body,
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
            Err(_) => "lost",
        };
        under_way.ended(format, outcome);
        let (turn, told) = turn?;
        if told {
            ear.rest().await;
        }
        Ok(turn)
    }
}

/// What a recording listens to.
struct Ear {
    body: Body,
    follower: Follower,
    idle: Duration,
    heard: Instant,
}

impl Ear {
    async fn step(&mut self, due: Instant) -> Step {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = sleep_until(due) => return Step::Due,
                () = self.follower.changed() => return Step::Changed,
                () = sleep_until(self.heard + self.idle) => {
                    return Step::GiveUp(failed("stream_idle", "nothing came for longer than is waited"));
                }
            };
            match frame {
                None => return Step::Over,
                Some(Err(_)) => return Step::GiveUp(client_gone()),
                Some(Ok(frame)) => {
                    self.heard = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        return Step::Bytes(data);
                    }
                }
            }
        }
    }

    /// Reads what stands behind a stream's end, if it is little.
    async fn rest(&mut self) {
        let mut left = REST_BYTES;
        let reading = async {
            while let Some(Ok(frame)) = self.body.frame().await {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match left.checked_sub(bytes) {
                    Some(fewer) => left = fewer,
                    None => return,
                }
            }
        };
        // What does not come is not waited for: the connection is closed then.
        let _ = timeout(REST_WITHIN, reading).await;
    }
}

async fn flow(
    mut recorder: Recorder,
    ear: &mut Ear,
    room: &Reservation,
    under_way: &mut UnderWay<'_>,
    mut gives_up: std::pin::Pin<&mut impl Future<Output = GiveUp>>,
) -> Result<(Recorded<Turn>, bool), Failure> {
    loop {
        let step = tokio::select! {
            why = gives_up.as_mut() => Step::GiveUp(why),
            step = ear.step(recorder.due()) => step,
        };
        if let Step::Bytes(bytes) = &step {
            under_way.received(bytes.len());
        }
        match take(recorder, step, room, under_way).await? {
            Then::Goes(goes) => recorder = goes,
            Then::Ended(turn, told) => return Ok((turn, told)),
        }
    }
}

/// Does what a step asks for.
async fn take(
    mut recorder: Recorder,
    step: Step,
    room: &Reservation,
    under_way: &mut UnderWay<'_>,
) -> Result<Then, Failure> {
    let written = match step {
        Step::Bytes(bytes) => recorder.push(&bytes).await,
        Step::Due => recorder.tick().await,
        Step::Over => return Ok(Then::Ended(recorder.end().await?, false)),
        Step::GiveUp(why) => return Ok(Then::Ended(recorder.give_up(why).await?, false)),
        Step::Changed => {
            return match recorder.turn().await {
                Ok(turn) if turn.status != TurnStatus::Open => Ok(Then::Ended(turn, false)),
                Err(failure) if failure.code == ErrorCode::SessionErased => Err(failure),
                // What cannot be read now shows when the next piece is written.
                _ => Ok(Then::Goes(recorder)),
            };
        }
    };
    under_way.counts(recorder.counts());
    match written {
        Err(failure) if ended_elsewhere(&failure) => {
            let turn = recorder.turn().await?;
            return match turn.status {
                // It was ended, and begun again by somebody else.
                TurnStatus::Open => Err(failure),
                _ => Ok(Then::Ended(turn, false)),
            };
        }
        written => written?,
    }
    if recorder.has_ended() {
        return Ok(Then::Ended(recorder.end().await?, true));
    }
    if !room.hold(recorder.held()) {
        let why = failed("overloaded", "too many bytes are held at once");
        return Ok(Then::Ended(recorder.give_up(why).await?, false));
    }
    Ok(Then::Goes(recorder))
}

fn failed(code: &str, message: &str) -> GiveUp {
    GiveUp::Failed(StreamError::of_stream(code, message))
}
