//! What a caller wants when somebody else is at work: `on_busy` (DESIGN §6).

use std::future::Future;
use std::time::Duration;

use filrouge_engine::OnBusy;
use filrouge_types::{ErrorCode, Failure};
use serde::Deserialize;
use tokio::task::{JoinError, JoinHandle};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use filrouge_http::access::Principal;
use filrouge_http::extract::wait;
use filrouge_http::problem::Problem;

/// Waits for what may take its time, unless the server stops or the credentials end. What was written by then stays.
///
/// # Errors
/// `overloaded` when the server stops, `unauthenticated`, and those of `waiting`.
pub(super) async fn waited<T>(
    app: &App,
    principal: &Principal,
    waiting: impl Future<Output = Result<T, Failure>>,
) -> Result<Result<T, Failure>, Problem> {
    let _slot = app.limits().stream(principal.name())?;
    tokio::select! {
        done = waiting => Ok(done),
        () = app.stopped() => Err(Problem::new(ErrorCode::Overloaded, "the server is stopping")),
        () = principal.ended() => Err(Principal::no_longer_valid()),
    }
}

/// What a task of its own has done; its panic is this request's.
///
/// # Errors
/// `internal` when it was given up.
pub(super) async fn done<T>(task: JoinHandle<T>) -> Result<T, Failure> {
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(done) => Ok(done),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(given_up)) => Err(Failure::new(ErrorCode::Internal, given_up.to_string())),
    }
}

/// How long a turn is waited for unless the caller says.
const WAIT: Duration = Duration::from_secs(30);

/// What is wanted when somebody else is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenBusy {
    /// To wait.
    Wait,
    /// To be refused at once.
    Reject,
    /// To get no answer: 204.
    #[serde(rename = "204")]
    NoContent,
}

/// For a turn that may be open already.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OnOpenTurn {
    /// What happens when the turn of this request is open already, so that somebody works at it: `wait` for its end and
    /// get it then, 409 `turn_busy` by `reject`, or 204. Without it, the turn comes as it stands.
    #[param(inline)]
    on_busy: Option<WhenBusy>,
    /// With `on_busy=wait`: for how many milliseconds, 30000 unless said; 409 `turn_busy` afterwards.
    #[param(minimum = 0, maximum = 60_000)]
    wait: Option<u64>,
}

impl OnOpenTurn {
    /// What the engine is told; `None` when the turn is wanted as it stands.
    ///
    /// # Errors
    /// `invalid` for a time that is not waited.
    pub(super) fn policy(&self) -> Result<Option<OnBusy>, Problem> {
        if self.wait.is_some() && self.on_busy != Some(WhenBusy::Wait) {
            return Err(
                Problem::new(ErrorCode::Invalid, "wait: only with on_busy=wait")
                    .with_hint("leave wait out, or say on_busy=wait"),
            );
        }
        let time = self.wait.map_or(Ok(WAIT), |ms| wait(Some(ms)))?;
        Ok(self.on_busy.map(|when| match when {
            WhenBusy::Wait => OnBusy::Wait(time),
            WhenBusy::Reject => OnBusy::Reject,
            WhenBusy::NoContent => OnBusy::NoContent,
        }))
    }
}

/// For a session that somebody else may hold.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OnHeld {
    /// What happens while somebody else holds the session: `wait` for `wait_ms`, then 423 `lease_timeout`; `reject`, 423
    /// at once; `204`, as `wait`, and no answer in the end.
    #[param(inline)]
    on_busy: Option<WhenBusy>,
}

impl OnHeld {
    /// How long is waited, of what the body says.
    ///
    /// # Errors
    /// `invalid` for a time that is not waited.
    pub(super) fn wait_ms(&self, asked: Option<u64>) -> Result<Option<u64>, Problem> {
        if self.on_busy != Some(WhenBusy::Reject) {
            return Ok(asked);
        }
        match asked {
            None | Some(0) => Ok(Some(0)),
            Some(_) => {
                let what = "wait_ms: nothing is waited for with on_busy=reject";
                Err(Problem::new(ErrorCode::Invalid, what)
                    .with_hint("leave wait_ms out, or say on_busy=wait"))
            }
        }
    }

    /// Passes on a failure, but for a session that is held when no answer is wanted then.
    ///
    /// # Errors
    /// The failure.
    pub(super) fn unless_held(&self, failure: Failure) -> Result<(), Problem> {
        let held = failure.code == ErrorCode::LeaseTimeout;
        if held && self.on_busy == Some(WhenBusy::NoContent) {
            return Ok(());
        }
        Err(failure.into())
    }
}
