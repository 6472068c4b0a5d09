//! The circuit breaker. When Redis does not answer, the breaker blocks requests for a while. Then it permits one
//! request as a probe, and blocks all others until Redis has answered the probe.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use filrouge_types::lock;

/// The time for which requests are blocked after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// A circuit breaker.
#[derive(Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Default)]
struct State {
    /// While requests are blocked: the reason, and the earliest time of the next probe. `None` while they are
    /// permitted.
    blocked: Option<(String, Instant)>,
    /// Whether a probe is in progress.
    probing: bool,
}

/// Permission for one request. A permit that is dropped without a call of [`Permit::record_answer`] or
/// [`Permit::record_failure`] reports nothing.
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
}

impl Breaker {
    /// Requests permission for one request. `Err` is the reason why requests are blocked.
    pub(crate) fn request_permit(&self) -> Result<Permit<'_>, String> {
        let permit = |is_probe| Permit {
            breaker: self,
            is_probe,
        };
        let mut state = lock(&self.0);
        match &state.blocked {
            None => Ok(permit(false)),
            Some((why, until)) if state.probing || Instant::now() < *until => Err(why.clone()),
            Some(_) => {
                state.probing = true;
                Ok(permit(true))
            }
        }
    }

    /// The reason why requests are blocked; `None` while they are permitted.
    pub(crate) fn blocked_reason(&self) -> Option<String> {
        lock(&self.0).blocked.as_ref().map(|(why, _)| why.clone())
    }
}

impl Permit<'_> {
    /// Records that Redis answered.
    pub(crate) fn record_answer(self) {
        // Only the answer to a probe ends the blocking: other requests may have been sent before the failure.
        if self.is_probe && lock(&self.breaker.0).blocked.take().is_some() {
            tracing::info!("[SESSIONS][HOT_UP] Redis answers again");
        }
    }

    /// Records that Redis did not answer.
    pub(crate) fn record_failure(self, why: &str) {
        let until = Instant::now() + PAUSE;
        // The guard must be dropped before the permit, whose `drop` locks the state.
        let blocked = (why.to_owned(), until);
        let before = lock(&self.breaker.0).blocked.replace(blocked);
        if before.is_none() {
            tracing::warn!(why, "[SESSIONS][HOT_DOWN] Redis is not used");
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            lock(&self.breaker.0).probing = false;
        }
    }
}
