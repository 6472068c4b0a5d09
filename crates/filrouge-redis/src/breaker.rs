//! The circuit breaker. When Redis does not answer, the breaker blocks requests for a while. Then it permits one
//! request as a probe, and blocks all others until Redis has answered the probe.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long requests are blocked after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// A circuit breaker.
#[derive(Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Default)]
struct State {
    /// While requests are blocked: the reason, and the earliest time of the next probe. `None` while they are
    /// permitted.
    broken: Option<(String, Instant)>,
    /// Whether a probe is in progress.
    probing: bool,
}

/// Permission for one request. A permit that is dropped without a call of [`Permit::answered`] or [`Permit::failed`]
/// reports nothing.
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Breaker {
    /// Requests permission for one request. `Err` is the reason why requests are blocked.
    pub(crate) fn enter(&self) -> Result<Permit<'_>, String> {
        let permit = |probe| Permit {
            breaker: self,
            probe,
        };
        let mut state = self.state();
        match &state.broken {
            None => Ok(permit(false)),
            Some((why, until)) if state.probing || Instant::now() < *until => Err(why.clone()),
            Some(_) => {
                state.probing = true;
                Ok(permit(true))
            }
        }
    }

    /// The reason why requests are blocked; `None` while they are permitted.
    pub(crate) fn why(&self) -> Option<String> {
        self.state().broken.as_ref().map(|(why, _)| why.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid even if the lock is poisoned, because no code panics while it changes the state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Records that Redis answered.
    pub(crate) fn answered(self) {
        // Only the answer to a probe ends the blocking: other requests may have been sent before the failure.
        if self.probe && self.breaker.state().broken.take().is_some() {
            tracing::info!("[SESSIONS][HOT_UP] Redis answers again");
        }
    }

    /// Records that Redis did not answer.
    pub(crate) fn failed(self, why: &str) {
        let until = Instant::now() + PAUSE;
        // The guard must be dropped before the permit, whose `drop` locks the state.
        let before = self.breaker.state().broken.replace((why.to_owned(), until));
        if before.is_none() {
            tracing::warn!(why, "[SESSIONS][HOT_DOWN] Redis is not used");
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.state().probing = false;
        }
    }
}
