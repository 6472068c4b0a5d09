//! The parameter `on_busy`: what a request does while another caller is at work (DESIGN §6).

use std::future::Future;
use std::time::Duration;

use filrouge_engine::{Caller, OnBusy};
use filrouge_types::{ErrorCode, Failure};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use filrouge_http::access::Principal;
use filrouge_http::extract::wait;
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, no_content};

/// Runs `work` to its end, unless the server stops or the credentials become invalid before. Everything that `work` has
/// written by then stays.
///
/// # Errors
/// The outer error: `overloaded` when the server stops, `unauthenticated`, or too many waiting requests of the caller.
/// The inner result is that of `work`.
pub(super) async fn run_while_valid<T>(
    app: &App,
    (principal, caller): (&Principal, &Caller),
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Result<T, Failure>, Problem> {
    let _slot = app.limits().open_stream(caller)?;
    tokio::select! {
        result = work => Ok(result),
        () = app.wait_until_stopping() => Err(Problem::new(ErrorCode::Overloaded, "the server is stopping")),
        () = principal.wait_until_ended() => Err(Principal::credentials_ended()),
    }
}

/// How long a request with `on_busy=wait` waits for a turn by default.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The caller's choice when another caller is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenBusy {
    /// Wait.
    Wait,
    /// Refuse at once.
    Reject,
    /// Respond with 204 and no body.
    #[serde(rename = "204")]
    NoContent,
}

/// The query parameters of a request whose turn may already be open.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenTurnQuery {
    /// What to do when this request's turn is already open, so that another caller works on it: `wait` for its end and
    /// return it then; `reject` with 409 `turn_busy`; or `204`. By default the turn is returned in its present state.
    #[param(inline)]
    on_busy: Option<WhenBusy>,
    /// With `on_busy=wait`: the milliseconds to wait, 30000 by default; then 409 `turn_busy`.
    #[param(minimum = 0, maximum = 60_000)]
    wait: Option<u64>,
}

impl OpenTurnQuery {
    /// Returns the policy for the engine; `None` means that the turn is returned in its present state.
    ///
    /// # Errors
    /// `invalid` for a `wait` that is out of range, or without `on_busy=wait`.
    pub(super) fn on_busy(&self) -> Result<Option<OnBusy>, Problem> {
        if self.wait.is_some() && self.on_busy != Some(WhenBusy::Wait) {
            return Err(
                Problem::new(ErrorCode::Invalid, "wait: only with on_busy=wait")
                    .with_hint("leave wait out, or send on_busy=wait"),
            );
        }
        let time = self.wait.map_or(Ok(WAIT_DEFAULT), |ms| wait(Some(ms)))?;
        Ok(self.on_busy.map(|choice| match choice {
            WhenBusy::Wait => OnBusy::Wait(time),
            WhenBusy::Reject => OnBusy::Reject,
            WhenBusy::NoContent => OnBusy::NoContent,
        }))
    }
}

/// The query parameters of a request for a session that another caller may hold.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct HeldSessionQuery {
    /// What to do while another caller holds the session: `wait` for `wait_ms`, then 423 `lease_timeout`; `reject`
    /// with 423 at once; `204` like `wait`, but with no body at the end.
    #[param(inline)]
    on_busy: Option<WhenBusy>,
}

impl HeldSessionQuery {
    /// Returns the time to wait in milliseconds; `requested` is `wait_ms` of the body. `None` means the default of the
    /// engine.
    ///
    /// # Errors
    /// `invalid` for a `wait_ms` other than 0 together with `on_busy=reject`.
    pub(super) fn wait_ms(&self, requested: Option<u64>) -> Result<Option<u64>, Problem> {
        if self.on_busy != Some(WhenBusy::Reject) {
            return Ok(requested);
        }
        match requested {
            None | Some(0) => Ok(Some(0)),
            Some(_) => {
                let detail = "wait_ms: with on_busy=reject the request does not wait";
                Err(Problem::new(ErrorCode::Invalid, detail)
                    .with_hint("leave wait_ms out, or send on_busy=wait"))
            }
        }
    }

    /// Returns 204 for the failure of a request whose wait for the session's lease timed out, if the caller chose 204;
    /// returns every other failure.
    ///
    /// # Errors
    /// The failure.
    pub(super) fn accept_lease_timeout(&self, failure: Failure) -> RouteResult {
        let timed_out = failure.code == ErrorCode::LeaseTimeout;
        if timed_out && self.on_busy == Some(WhenBusy::NoContent) {
            return Ok(no_content());
        }
        Err(failure.into())
    }
}
