//! What a session's newest lease lets happen (DESIGN §6), by nothing but that lease and the time: for the rules, and for
//! whoever has to keep them while no store answers.

use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp};

use crate::command::{LeaseAsk, TakeLease};
use crate::rows::HeadLease;

/// A session's newest lease at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Tenure<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// Its newest lease.
    pub lease: &'a HeadLease,
    /// The time.
    pub now: Timestamp,
}

impl Tenure<'_> {
    /// That the session has not come to one of the states that end it.
    ///
    /// # Errors
    /// `session_terminated`.
    pub fn check_state(&self, state: Option<&str>, terminal: &[Box<str>]) -> Result<(), Failure> {
        match state.filter(|state| terminal.iter().any(|t| **t == **state)) {
            None => Ok(()),
            Some(state) => {
                let what = format!("session {:?} has come to {state}", self.session.as_str());
                Err(Failure::new(ErrorCode::SessionTerminated, what)
                    .with_hint("begin another session: this one does not go on"))
            }
        }
    }

    /// That the session is held by this holder under this fence.
    ///
    /// # Errors
    /// `stale_fence`, `lease_expired`, `lease_held`.
    pub fn check_holder(&self, holder: &str, fence: u64) -> Result<(), Failure> {
        if fence != self.lease.fence || fence == 0 {
            return Err(self.stale(fence));
        }
        if !self.lease.is_live(self.now) {
            let hint = "take another lease: nobody else may have taken the session yet";
            return Err(ended(fence).with_hint(hint));
        }
        if *self.lease.holder != *holder {
            return Err(self.refused(ErrorCode::LeaseHeld));
        }
        Ok(())
    }

    /// That a write under this fence may be done; one that was `queued` also after the lease's time.
    ///
    /// # Errors
    /// `stale_fence`, `lease_expired`.
    pub fn check_fence(&self, fence: u64, queued: bool) -> Result<(), Failure> {
        if fence != self.lease.fence || fence == 0 {
            return Err(self.stale(fence));
        }
        if !queued && !self.lease.is_live(self.now) {
            let hint = "resume the session: nobody else may have taken it yet";
            return Err(ended(fence).with_hint(hint));
        }
        Ok(())
    }

    /// The lease as it stands once this was asked.
    ///
    /// # Errors
    /// `lease_timeout` for one that somebody else has, and those of [`Self::check_holder`].
    pub fn asked(&self, take: &TakeLease) -> Result<HeadLease, Failure> {
        let lease = self.lease;
        match &take.ask {
            LeaseAsk::Acquire(acquire) => {
                let live = lease.is_live(self.now);
                if live && lease.holder != take.holder {
                    return Err(self.refused(ErrorCode::LeaseTimeout));
                }
                // Who holds it keeps the fence.
                let fence = lease.fence + u64::from(!live);
                Ok(self.given(take, fence, acquire.ttl))
            }
            LeaseAsk::Renew { fence, ttl } => {
                self.check_holder(&take.holder, *fence)?;
                Ok(self.given(take, *fence, *ttl))
            }
            LeaseAsk::Release { fence } => match self.check_holder(&take.holder, *fence) {
                Ok(()) => Ok(self.free()),
                Err(failure) if failure.code == ErrorCode::LeaseHeld => Err(failure),
                Err(_) => Ok(lease.clone()),
            },
        }
    }

    /// The lease under this fence, from now on.
    #[must_use]
    pub fn given(&self, take: &TakeLease, fence: u64, ttl: Duration) -> HeadLease {
        HeadLease {
            fence,
            holder: take.holder.clone(),
            expires_at: end_of(self.now, ttl),
            since: match fence == self.lease.fence {
                true => self.lease.since,
                false => self.now,
            },
        }
    }

    /// The lease, given free now.
    #[must_use]
    pub fn free(&self) -> HeadLease {
        HeadLease {
            holder: Box::default(),
            expires_at: self.now,
            ..self.lease.clone()
        }
    }

    /// Somebody else holds the session.
    #[must_use]
    pub fn refused(&self, code: ErrorCode) -> Failure {
        let held = self.lease.shown(self.now);
        let holder = held.holder.as_deref().unwrap_or_default();
        let what = format!("session {:?} is held by {holder:?}", self.session.as_str());
        let hint = "wait until it is given free or its time is up, and try again";
        let mut failure = Failure::new(code, what).with_hint(hint);
        failure.held = Some(Box::new(held));
        failure
    }

    /// Another fence is the newest one.
    #[must_use]
    pub fn stale(&self, fence: u64) -> Failure {
        let what = format!(
            "fence {fence} is not the newest one of session {:?}, which is {}",
            self.session.as_str(),
            self.lease.fence
        );
        Failure::new(ErrorCode::StaleFence, what)
            .with_hint("resume the session, and go on from what was written meanwhile")
    }
}

fn ended(fence: u64) -> Failure {
    let what = format!("the lease with fence {fence} has ended");
    Failure::new(ErrorCode::LeaseExpired, what)
}

/// When a lease ends that is taken or renewed now.
#[must_use]
pub fn end_of(now: Timestamp, ttl: Duration) -> Timestamp {
    let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_add(micros))
}
