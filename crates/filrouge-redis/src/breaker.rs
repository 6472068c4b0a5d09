//! The circuit breaker: after Redis fails to answer, it blocks requests for a while and then lets one probe through.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long requests are blocked after a failure.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Default)]
struct State {
    /// The reason, and the time until which requests are blocked; `None` when closed.
    broken: Option<(String, Instant)>,
    /// A probe is in progress that will show whether Redis answers.
    probing: bool,
}

/// Permission for one request. A dropped permit reports neither an answer nor a failure.
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Breaker {
    /// Requests permission; `Err` is the reason for blocking.
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

    /// The reason why requests are blocked now; `None` when they are not.
    pub(crate) fn why(&self) -> Option<String> {
        self.state().broken.as_ref().map(|(why, _)| why.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step panics while it changes the state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Records that Redis answered.
    pub(crate) fn answered(self) {
        // Only the probe's answer counts: other requests may have been sent before the failure.
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
