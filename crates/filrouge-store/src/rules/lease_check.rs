//! Decides which writes, and which requests to acquire, renew or release the lease, a session's newest lease permits
//! (DESIGN §6). The decision depends only on the lease and the time. The spool runs the same code, over rows in memory,
//! while the ledger does not answer.

use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, LONGEST_LEASE, SessionId, Timestamp};

use crate::command::{LeaseCommand, LeaseRequest};
use crate::rows::HeadLease;

/// A session's newest lease at one moment.
#[derive(Clone, Copy)]
pub struct LeaseCheck<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The session's newest lease, live or not.
    pub lease: &'a HeadLease,
    /// The current time by which leases end.
    pub now: Timestamp,
    /// The time that is recorded as the beginning of a new lease.
    pub written_at: Timestamp,
    /// The server that is recorded in a lease that is acquired or renewed.
    pub server: &'a (dyn Fn() -> String + Sync),
}

impl LeaseCheck<'_> {
    /// Checks that `holder` has a live lease of the session with the number `fence`.
    ///
    /// # Errors
    /// `stale_fence` if `fence` is not the newest one, `lease_expired` if the lease has ended, `lease_held` if another
    /// holder has it.
    pub fn check_holder(&self, holder: &str, fence: u64) -> Result<(), Failure> {
        if fence != self.lease.fence || fence == 0 {
            return Err(self.stale_fence_failure(fence));
        }
        if !self.lease.is_live(self.now) {
            let hint = "acquire the lease again: possibly no other holder has acquired the session";
            return Err(lease_ended_failure(fence).with_hint(hint));
        }
        if *self.lease.holder != *holder {
            return Err(self.held_failure(ErrorCode::LeaseHeld));
        }
        Ok(())
    }

    /// Checks that a write under this fence is allowed. A write that has waited in the spool (`is_queued`) stays
    /// allowed after the lease has expired.
    ///
    /// # Errors
    /// `stale_fence`, `lease_expired`.
    pub fn check_fence(&self, fence: u64, is_queued: bool) -> Result<(), Failure> {
        if fence != self.lease.fence || fence == 0 {
            return Err(self.stale_fence_failure(fence));
        }
        if !is_queued && !self.lease.is_live(self.now) {
            let hint = "resume the session: possibly no other holder has acquired it";
            return Err(lease_ended_failure(fence).with_hint(hint));
        }
        Ok(())
    }

    /// Computes the session's lease after a request to acquire, renew or release it. Releasing a lease that has already
    /// ended changes nothing and succeeds.
    ///
    /// # Errors
    /// `lease_timeout` if another holder has a live lease. A renewal fails as [`Self::check_holder`] does, a release
    /// only with `lease_held`.
    pub fn after_request(&self, command: &LeaseCommand) -> Result<HeadLease, Failure> {
        let lease = self.lease;
        match &command.request {
            LeaseRequest::Acquire(acquire) => {
                let exited = acquire.exited.as_deref().filter(|name| !name.is_empty());
                let is_live = lease.is_live(self.now) && exited != Some(&*lease.server);
                if is_live && lease.holder != command.holder {
                    return Err(self.held_failure(ErrorCode::LeaseTimeout));
                }
                // The current holder keeps its fence.
                let fence = lease.fence + u64::from(!is_live);
                Ok(self.granted(command, fence, acquire.ttl))
            }
            LeaseRequest::Renew { fence, ttl } => {
                self.check_holder(&command.holder, *fence)?;
                Ok(self.granted(command, *fence, *ttl))
            }
            LeaseRequest::Release { fence } => match self.check_holder(&command.holder, *fence) {
                Ok(()) => Ok(self.released()),
                Err(failure) if failure.code == ErrorCode::LeaseHeld => Err(failure),
                Err(_) => Ok(lease.clone()),
            },
        }
    }

    /// The lease that the command's holder gets now, for `ttl`. `fence` is the current fence for a renewal, otherwise a
    /// new one.
    #[must_use]
    pub fn granted(&self, command: &LeaseCommand, fence: u64, ttl: Duration) -> HeadLease {
        HeadLease {
            fence,
            holder: command.holder.clone(),
            server: (self.server)().into(),
            expires_at: expiry(self.now, ttl),
            ttl: ttl.min(LONGEST_LEASE),
            since: match fence == self.lease.fence {
                true => self.lease.since,
                false => self.written_at,
            },
        }
    }

    /// The newest lease after its release: without a holder, and with the current time as its end. It keeps its fence,
    /// because the next fence must be greater.
    #[must_use]
    pub fn released(&self) -> HeadLease {
        HeadLease {
            holder: Box::default(),
            expires_at: self.now,
            ..self.lease.clone()
        }
    }

    /// The failure for a session whose lease another holder has. It states the holder and the end of the lease.
    pub fn held_failure(&self, code: ErrorCode) -> Failure {
        let current = self.lease.to_lease(self.now);
        let holder = current.holder.as_deref().unwrap_or_default();
        let detail = format!("session {:?} is held by {holder:?}", self.session.as_str());
        let hint = "wait until it is released or expires, and try again";
        let mut failure = Failure::new(code, detail).with_hint(hint);
        failure.held = Some(Box::new(current));
        failure
    }

    /// The failure for a fence that is not the newest one.
    pub fn stale_fence_failure(&self, fence: u64) -> Failure {
        let detail = format!(
            "fence {fence} is not the newest fence of session {:?}: the newest is {}",
            self.session.as_str(),
            self.lease.fence
        );
        Failure::new(ErrorCode::StaleFence, detail)
            .with_hint("resume the session, and continue from its newest items")
    }
}

/// The failure for a lease that has expired or was released.
fn lease_ended_failure(fence: u64) -> Failure {
    ErrorCode::LeaseExpired.failure(format!("the lease with fence {fence} has ended"))
}

/// The expiry of a lease that is acquired or renewed now. No lease is longer than [`LONGEST_LEASE`].
pub fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    now.after(ttl.min(LONGEST_LEASE))
}
