//! Whether Redis is asked at all: after a failure to answer nothing is asked for a while, then one request is let through.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long nothing is asked after a failure.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Default)]
struct State {
    /// Why, and until when nothing is asked; `None`: all is well.
    broken: Option<(String, Instant)>,
    /// A request is on its way that will tell whether Redis answers again.
    probing: bool,
}

/// A request that may be made. One that is given up says nothing about Redis.
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Breaker {
    /// Asks whether a request may be made; `Err` is why not.
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

    /// Why nothing is asked at the moment.
    pub(crate) fn why(&self) -> Option<String> {
        self.state().broken.as_ref().map(|(why, _)| why.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step leaves the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Redis answered.
    pub(crate) fn answered(self) {
        // An answer to a request from before the failure says nothing about now.
        if self.probe && self.breaker.state().broken.take().is_some() {
            tracing::info!("[SESSIONS][HOT_UP] Redis answers again");
        }
    }

    /// Redis did not answer.
    pub(crate) fn failed(self, why: &str) {
        let until = Instant::now() + PAUSE;
        // The guard goes before the permit does, which takes another.
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
