//! Taking, renewing and releasing leases, and waiting for them (DESIGN §6).

use std::time::Duration;

use filrouge_store::command::{
    Acquire, Hold, LeaseAsk, NewSession, Outcome, Scope, TakeLease, Write,
};
use filrouge_store::{Durability, Stored};
use filrouge_types::{ErrorCode, Failure, Lease, SessionId};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::requests::{AcquireLease, RenewLease};
use super::settings::Journal;
use super::unclaimed::{self, Holds, Unclaimed};
use super::words::{word, word_of};
use crate::caller::{Caller, Permission};
use crate::core::{Core, unexpected};
use crate::engine::Calls;
use crate::written::Written;

/// How often who waits looks for itself: of a session that is not in the ledger no commit tells.
const LOOK: Duration = Duration::from_millis(100);
/// How long who was woken waits at least before the next look: commits of other sessions wake as well.
const PAUSE: Duration = Duration::from_millis(10);

/// The scope of a write that names the fence it is made under, in the request or before.
///
/// # Errors
/// `invalid` when both name one, and not the same, or when a session is to be given free under none.
pub(crate) fn held(scope: &Scope, fence: Option<u64>, release: bool) -> Result<Scope, Failure> {
    let hold = match (scope.hold, fence) {
        (Some(hold), Some(fence)) if hold.fence != fence => {
            let what = format!(
                "the request names fence {fence}, and {} beside it",
                hold.fence
            );
            return Err(Failure::new(ErrorCode::Invalid, what)
                .with_hint("name one fence, in the body or in Filrouge-Fence"));
        }
        (Some(hold), _) => Some(hold),
        (None, fence) => fence.map(Hold::by),
    };
    let Some(mut hold) = hold else {
        if release {
            return Err(
                Failure::new(ErrorCode::Invalid, "release is asked for without a fence")
                    .with_hint("only who holds the session gives it free: name the fence"),
            );
        }
        return Ok(scope.clone());
    };
    hold.release |= release;
    Ok(scope.clone().with_hold(Some(hold)))
}

/// A lease that was taken.
pub(super) struct Taken {
    pub(super) lease: Lease,
    pub(super) new: bool,
    pub(super) created: bool,
    pub(super) resumed: bool,
    pub(super) durability: Durability,
    /// Given free unless it is claimed.
    pub(super) unclaimed: Unclaimed,
}

impl Taken {
    /// What the lease was taken for.
    pub(super) const fn written<T>(&self, value: T) -> Written<T> {
        Written::new(value, !self.new, self.durability)
    }
}

/// How a lease is to be taken.
pub(super) struct Taking<'a> {
    pub(super) holder: &'a str,
    pub(super) wait: Duration,
    pub(super) acquire: Acquire,
}

impl Calls {
    /// Takes the lease of a session, waiting while somebody else holds it. Who holds it already keeps the fence, for
    /// longer: that counts as a replay.
    ///
    /// # Errors
    /// `lease_timeout` when it was held all the time: the failure names the holder, and an event tells of it;
    /// `session_terminated`, `session_closed`, `session_not_found`, `journal_off`, `invalid`, and the ledger's.
    pub async fn acquire(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: AcquireLease,
    ) -> Result<Written<Lease>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let taking = Taking {
            holder: &request.holder,
            wait: self.lease_wait(request.wait_ms)?,
            acquire: self.acquisition(request.ttl_ms, None, None)?,
        };
        let waited = !taking.wait.is_zero();
        match self.take_lease(scope, session, taking).await {
            Ok(taken) => {
                let written = Written::new(taken.lease, !taken.new, taken.durability);
                taken.unclaimed.claim();
                Ok(written)
            }
            Err(failure) => {
                let refused = (&*request.holder, waited, &failure);
                self.tell_refused(scope, session, refused).await;
                Err(failure)
            }
        }
    }

    /// Renews a lease from now on.
    ///
    /// # Errors
    /// `stale_fence`, `lease_expired`, `lease_held` by somebody else; `session_not_found`, `invalid`, and the ledger's.
    pub async fn renew(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: RenewLease,
    ) -> Result<Written<Lease>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.check_journal()?;
        let Some(hold) = held(scope, request.fence, false)?.hold else {
            return Err(Failure::new(ErrorCode::Invalid, "fence is missing")
                .with_hint("only who holds the session renews the lease: name the fence"));
        };
        let ask = LeaseAsk::Renew {
            fence: hold.fence,
            ttl: self.lease_ttl(request.ttl_ms)?,
        };
        let taken = self.ask_lease(scope, session, request.holder, ask).await?;
        Ok(Written::new(taken.lease, false, taken.durability))
    }

    /// Releases a lease; one that was taken over or has expired is free already. Gives the lease as it stands.
    ///
    /// # Errors
    /// `invalid` without a fence, or with two; `lease_held` by somebody else under this fence, `session_not_found`, and
    /// the ledger's.
    pub async fn release(
        &self,
        caller: &Caller,
        session: &SessionId,
        holder: &str,
        fence: Option<u64>,
    ) -> Result<Written<Lease>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let Some(hold) = held(scope, fence, false)?.hold else {
            return Err(Failure::new(ErrorCode::Invalid, "fence is missing")
                .with_hint("only who holds the session gives it free: name the fence"));
        };
        self.free(scope, session, holder, hold.fence).await
    }

    /// Who holds a session; also where the journal of live calls is off.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's.
    pub async fn lease(&self, caller: &Caller, session: &SessionId) -> Result<Lease, Failure> {
        self.held_now(&caller.scope(Permission::Read)?, session)
            .await
    }

    pub(super) fn check_journal(&self) -> Result<(), Failure> {
        if self.settings.calls.journal != Journal::Off {
            return Ok(());
        }
        Err(
            Failure::new(ErrorCode::JournalOff, "live calls are not journaled here")
                .with_hint("set the setting `calls.journal` to `shadow` or `on`"),
        )
    }

    pub(super) fn acquisition(
        &self,
        ttl_ms: Option<u64>,
        create: Option<NewSession>,
        resumes: Option<Option<u64>>,
    ) -> Result<Acquire, Failure> {
        self.check_journal()?;
        Ok(Acquire {
            ttl: self.lease_ttl(ttl_ms)?,
            create,
            // What is not read does not end a session.
            terminal: match self.settings.calls.journal {
                Journal::On => self.settings.calls.terminal.clone(),
                Journal::Shadow | Journal::Off => Vec::new(),
            },
            resumes,
        })
    }

    pub(super) fn lease_ttl(&self, ms: Option<u64>) -> Result<Duration, Failure> {
        let calls = &self.settings.calls;
        within(ms, "ttl_ms", 1, calls.lease_ttl, calls.lease_ttl_max)
    }

    pub(super) fn lease_wait(&self, ms: Option<u64>) -> Result<Duration, Failure> {
        let calls = &self.settings.calls;
        within(ms, "wait_ms", 0, calls.lease_wait, calls.lease_wait_max)
    }

    /// Takes a lease as soon as it is free. Nobody is told of one that is not to be had: whoever asked may have another
    /// answer.
    pub(super) async fn take_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        taking: Taking<'_>,
    ) -> Result<Taken, Failure> {
        let until = Instant::now() + taking.wait;
        let mut commits = self.ledger.commits();
        loop {
            commits.mark_unchanged();
            let ask = LeaseAsk::Acquire(Box::new(taking.acquire.clone()));
            let refused = match self
                .ask_lease(scope, session, taking.holder.into(), ask)
                .await
            {
                Err(failure) if failure.code == ErrorCode::LeaseTimeout => failure,
                Err(failure) => {
                    warn_if_down(scope, session, &failure);
                    return Err(failure);
                }
                Ok(taken) => {
                    self.counters.leases.add(1);
                    tracing::info!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), fence = taken.lease.fence, "[CALL_LOCK] acquired");
                    return Ok(taken);
                }
            };
            if Instant::now() >= until {
                return Err(refused);
            }
            self.wait_while_held(scope, session, &mut commits, until)
                .await
                .inspect_err(|failure| warn_if_down(scope, session, failure))?;
        }
    }

    /// Waits until the lease may be free, or time is over.
    pub(super) async fn wait_while_held(
        &self,
        scope: &Scope,
        session: &SessionId,
        commits: &mut tokio::sync::watch::Receiver<u64>,
        until: Instant,
    ) -> Result<(), Failure> {
        loop {
            let look = (Instant::now() + LOOK).min(until);
            tokio::select! {
                changed = commits.changed() => if changed.is_err() { tokio::time::sleep_until(look).await },
                () = tokio::time::sleep_until(look) => {}
            }
            if Instant::now() >= until || self.held_now(scope, session).await?.holder.is_none() {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Tells of a lease that could not be had by `holder`: in the log, and by an event of the session. Where it was not
    /// `waited` for, it is counted as refused; other failures are told elsewhere.
    pub(super) async fn tell_refused(
        &self,
        scope: &Scope,
        session: &SessionId,
        (holder, waited, refused): (&str, bool, &Failure),
    ) {
        if refused.code != ErrorCode::LeaseTimeout {
            return;
        }
        if !waited {
            self.counters.leases_refused.add(1);
            return;
        }
        self.counters.lease_timeouts.add(1);
        let held = refused.held.as_deref();
        let fence = held.map_or(0, |held| held.fence);
        let recorded = self.record_timeout(scope, session, fence, holder).await;
        let holder = held.and_then(|held| held.holder.as_deref());
        tracing::warn!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), holder = %word_of(holder), "[CALL_LOCK_TIMEOUT]");
        if let Err(failure) = recorded {
            self.counters.event_dropped(failure.code);
            tracing::warn!(err = %failure.code, tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), "[CALL_LOCK_WARN]");
        }
    }

    /// Once for each fence that was waited for in vain, and for each who did.
    async fn record_timeout(
        &self,
        scope: &Scope,
        session: &SessionId,
        fence: u64,
        holder: &str,
    ) -> Result<(), Failure> {
        let waiter = hex::encode(&Sha256::digest(holder)[..8]);
        let of = format!("{fence}:{waiter}");
        self.record_own_event(scope, session, "call_lock_timeout", &of, None)
            .await
    }
}

impl Core {
    /// Releases a lease. Gives the lease as it stands.
    pub(super) async fn free(
        &self,
        scope: &Scope,
        session: &SessionId,
        holder: &str,
        fence: u64,
    ) -> Result<Written<Lease>, Failure> {
        let ask = LeaseAsk::Release { fence };
        let taken = self.ask_lease(scope, session, holder.into(), ask).await?;
        Ok(Written::new(taken.lease, false, taken.durability))
    }

    /// Gives a session free that is held under this fence, whoever holds it; `None` for one that is not held so, which
    /// stays as it is.
    pub(crate) async fn release_held(
        &self,
        scope: &Scope,
        session: &SessionId,
        fence: u64,
    ) -> Result<Option<Durability>, Failure> {
        let lease = self.held_now(scope, session).await?;
        let Some(holder) = lease.holder.filter(|_| lease.fence == fence) else {
            return Ok(None);
        };
        let released = self.free(scope, session, &holder, fence).await?;
        Ok(Some(released.durability))
    }

    pub(super) async fn held_now(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Lease, Failure> {
        Holds::of(self).lease(scope, session).await
    }

    pub(super) async fn ask_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        holder: Box<str>,
        ask: LeaseAsk,
    ) -> Result<Taken, Failure> {
        if holder.is_empty() || holder.len() > 256 || holder.chars().any(char::is_control) {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "holder is 1 to 256 bytes without control characters",
            ));
        }
        let take = TakeLease {
            session_id: session.clone(),
            holder,
            ask,
        };
        let (stored, unclaimed) = self.lease_outcome(scope, take).await?;
        match stored.outcome {
            Outcome::Lease {
                lease,
                taken,
                created,
                resumed,
            } => Ok(Taken {
                lease,
                new: taken,
                created,
                resumed,
                durability: stored.durability,
                unclaimed,
            }),
            _ => Err(unexpected()),
        }
    }

    /// One that is taken is given free again when the caller does not live to have it.
    async fn lease_outcome(
        &self,
        scope: &Scope,
        take: TakeLease,
    ) -> Result<(Stored, Unclaimed), Failure> {
        if !matches!(take.ask, LeaseAsk::Acquire(_)) {
            let stored = self.write(scope, Write::Lease(Box::new(take))).await?;
            return Ok((stored, Unclaimed::default()));
        }
        let asked = unclaimed::asked(Holds::of(self), scope.clone(), take).await;
        asked.inspect_err(|failure| self.counters.write_refused(failure.code))
    }
}

/// Tells of a ledger that failed while a lease was asked for.
pub(super) fn warn_if_down(scope: &Scope, session: &SessionId, failure: &Failure) {
    if failure.code.status() >= 500 {
        tracing::warn!(err = %failure.code, tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), "[CALL_LOCK_WARN]");
    }
}

/// A time in milliseconds as the caller says, within bounds.
fn within(
    ms: Option<u64>,
    name: &str,
    least: u64,
    usual: Duration,
    most: Duration,
) -> Result<Duration, Failure> {
    let Some(ms) = ms else { return Ok(usual) };
    let most_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    if (least..=most_ms).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    let what = format!("{name} is {ms}, and must be {least} to {most_ms}");
    Err(Failure::new(ErrorCode::Invalid, what))
}
