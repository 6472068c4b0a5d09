//! Records the end of a call.
//!
//! The event `call_ended` needs no lease and is recorded first. Then an unconfirmed booking is released, and the
//! session is closed. Until all three succeed, the webhook is answered with 503, and a background task retries.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use filrouge_engine::{CloseSession, Resumed};
use filrouge_types::{ErrorCode, Failure, SessionId, lock};
use serde_json::json;
use tokio::time::Instant;

use super::Calls;
use crate::cache::CachedCall;
use crate::fsm::State;

/// The minimum time for which the task retries: an outage of the database may last longer than a lease.
const RETRY_TIME_MIN: Duration = Duration::from_secs(15 * 60);
/// The maximum pause between two attempts; it is shorter if a lease is.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The reported end of a call.
struct Ending {
    call: SessionId,
    reason: String,
    holder: String,
}

impl Calls {
    /// Records the end of a call and closes its session. Idempotent.
    ///
    /// Returns `false` while a dead instance holds the call, or the store does not answer. Then a background task of
    /// this process retries for longer than a lease lasts. If this process dies too, the platform has to repeat its
    /// message.
    pub(crate) async fn record_end(self: &Arc<Self>, call: &SessionId, reason: &str) -> bool {
        let ending = Ending {
            call: call.clone(),
            reason: reason.to_owned(),
            holder: self.new_holder_name(),
        };
        match self.end(&ending).await {
            Ok(()) => true,
            Err(failure) => {
                self.count_unrecorded(call, "call_ended", &failure);
                // A call that never began has no end to record.
                let never_began = failure.code == ErrorCode::SessionNotFound;
                if !never_began && self.endings().insert(call.clone()) {
                    tokio::spawn(self.clone().end_later(ending));
                }
                never_began
            }
        }
    }

    async fn end_later(self: Arc<Self>, ending: Ending) {
        let deadline = Instant::now() + RETRY_TIME_MIN.max(self.config.lease_ttl * 2);
        loop {
            tokio::time::sleep(RETRY_INTERVAL.min(self.config.lease_ttl)).await;
            match self.end(&ending).await {
                Ok(()) => break,
                Err(failure) if Instant::now() >= deadline => {
                    self.count_unrecorded(&ending.call, "call_ended", &failure);
                    break;
                }
                Err(failure) => self.warn(&ending.call, "call_ended", &failure),
            }
        }
        self.endings().remove(&ending.call);
    }

    fn endings(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        // Every change of the set is a single operation.
        lock(&self.ending)
    }

    async fn end(&self, ending: &Ending) -> Result<(), Failure> {
        let Ending {
            call,
            reason,
            holder,
        } = ending;
        let detail = json!({ "reason": reason });
        self.try_record_event(call, "call_ended", "call_ended", Some(detail))
            .await?;
        let cached = self.cache.get(call);
        let resume = self.resume_request(holder, cached.as_ref(), false);
        match self.engine.calls.resume(&self.caller, call, resume).await {
            Ok(resumed) => {
                let fence = resumed.fence;
                let closed = self
                    .close_held(call, reason, resumed.into_value(), cached)
                    .await;
                self.cache.remove(call);
                if closed.is_err() {
                    self.release(call, holder, fence).await;
                }
                closed
            }
            Err(failure) if failure.code == ErrorCode::SessionTerminated => {
                self.close_terminated(call, reason).await
            }
            Err(failure) if failure.code == ErrorCode::SessionClosed => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Closes a call that this process holds.
    async fn close_held(
        &self,
        call: &SessionId,
        reason: &str,
        resumed: Resumed,
        cached: Option<CachedCall>,
    ) -> Result<(), Failure> {
        let held = self.restore(call, resumed, cached).await?;
        let state = held.dialogue.state;
        if state != State::Confirmed {
            // The process that booked the slot may have been killed before it recorded the confirmation.
            self.calendar.release_slot(call, held.fence).await?;
        }
        if state.is_terminal() {
            self.save_checkpoint(call, &held).await;
        }
        let fence = Some(held.fence).filter(|_| !state.is_terminal());
        self.close(call, reason, fence).await
    }

    /// Closes a call whose newest checkpoint has a terminal state.
    async fn close_terminated(&self, call: &SessionId, reason: &str) -> Result<(), Failure> {
        let session = self.engine.sessions.get(&self.caller, call).await?;
        if session.state.as_deref() != Some(State::Confirmed.as_str()) {
            let lease = self.engine.calls.lease(&self.caller, call).await?;
            self.calendar.release_slot(call, lease.fence).await?;
        }
        self.close(call, reason, None).await
    }

    async fn close(
        &self,
        call: &SessionId,
        reason: &str,
        fence: Option<u64>,
    ) -> Result<(), Failure> {
        let request = CloseSession {
            reason: Some(reason.into()),
            fence,
            release: fence.is_some(),
        };
        self.engine
            .sessions
            .close(&self.caller, call.clone(), request)
            .await?;
        Ok(())
    }
}
