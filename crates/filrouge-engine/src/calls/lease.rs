//! Acquires, renews and releases leases, and waits for them (DESIGN §6).

use std::time::Duration;

use filrouge_store::command::{
    Acquire, FencingToken, LeaseRequest, NewSession, Outcome, Scope, TakeLease, Write,
};
use filrouge_store::{CommittedWrite, Durability};
use filrouge_types::{ErrorCode, Failure, Lease, SessionId};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::requests::{AcquireLease, RenewLease};
use super::settings::Journal;
use super::unclaimed::{self, LeaseReader, Unclaimed};
use super::words::{word, word_of};
use crate::caller::{Caller, Permission};
use crate::core::{Core, unexpected};
use crate::engine::Calls;
use crate::written::Written;

/// The poll interval of a waiting caller: no commit announces a change of a session outside the ledger.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest pause of a waiting caller between two checks, because commits of other sessions wake the caller as
/// well.
const PAUSE: Duration = Duration::from_millis(10);

/// Adds to `scope` the fence of a write: `fence` from the request's body, or the fence from its header, which `scope`
/// has already. With `release`, the write also releases the lease.
///
/// # Errors
/// `invalid` if body and header name different fences, or if the write is to release the lease and neither names a
/// fence.
pub(crate) fn fenced_scope(
    scope: &Scope,
    fence: Option<u64>,
    release: bool,
) -> Result<Scope, Failure> {
    let token = match (scope.fence, fence) {
        (Some(token), Some(fence)) if token.fence != fence => {
            let what = format!(
                "the request names fence {fence}, and its header {}",
                token.fence
            );
            return Err(Failure::new(ErrorCode::Invalid, what)
                .with_hint("name one fence, in the body or in Filrouge-Fence"));
        }
        (Some(token), _) => Some(token),
        (None, fence) => fence.map(FencingToken::by),
    };
    let Some(mut token) = token else {
        if release {
            return Err(Failure::new(ErrorCode::Invalid, "release needs a fence")
                .with_hint("only the holder can release the session: name the fence"));
        }
        return Ok(scope.clone());
    };
    token.release |= release;
    Ok(scope.clone().with_fence(Some(token)))
}

/// The result of requesting a lease: a new lease, or the changed lease of the same holder.
pub(super) struct AcquiredLease {
    pub(super) lease: Lease,
    /// Whether the lease is new, with a new fence, rather than one that its holder already had.
    pub(super) new: bool,
    /// Whether the session was created.
    pub(super) created: bool,
    /// Whether the ledger recorded an event for the resume ([`Acquire::resumes`]).
    pub(super) resumed: bool,
    pub(super) durability: Durability,
    /// Releases the lease when it is dropped without having been claimed.
    pub(super) unclaimed: Unclaimed,
}

impl AcquiredLease {
    /// The result of an operation under the lease.
    pub(super) const fn written<T>(&self, value: T) -> Written<T> {
        Written::new(value, !self.new, self.durability)
    }
}

/// The conditions of acquiring a lease.
pub(super) struct LeaseAttempt<'a> {
    pub(super) holder: &'a str,
    pub(super) wait: Duration,
    pub(super) acquire: Acquire,
}

impl Calls {
    /// Acquires the lease of a session, waiting while another holder has it. If the requested holder already has the
    /// lease, its fence stays and the lease lasts longer; that counts as a replay.
    ///
    /// # Errors
    /// `lease_timeout` if another holder had the lease for the entire wait: the failure names that holder, and an event
    /// records the timeout if there was a wait. `session_terminated`, `session_closed`, `session_not_found`,
    /// `journal_off`, `invalid`, and those of the ledger.
    pub async fn acquire(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: AcquireLease,
    ) -> Result<Written<Lease>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let attempt = LeaseAttempt {
            holder: &request.holder,
            wait: self.lease_wait(request.wait_ms)?,
            acquire: self.acquisition(request.ttl_ms, None, None)?,
        };
        let waited = !attempt.wait.is_zero();
        match self.take_lease(scope, session, attempt).await {
            Ok(acquired) => {
                let written = Written::new(acquired.lease, !acquired.new, acquired.durability);
                acquired.unclaimed.claim();
                Ok(written)
            }
            Err(failure) => {
                let refused = (&*request.holder, waited, &failure);
                self.report_refused(scope, session, refused).await;
                Err(failure)
            }
        }
    }

    /// Renews a lease, whose new duration begins now.
    ///
    /// # Errors
    /// `stale_fence`, `lease_expired`, `lease_held` by another holder; `session_not_found`, `invalid`, and those of the
    /// ledger.
    pub async fn renew(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: RenewLease,
    ) -> Result<Written<Lease>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.check_journal()?;
        let Some(token) = fenced_scope(scope, request.fence, false)?.fence else {
            return Err(Failure::new(ErrorCode::Invalid, "fence is missing")
                .with_hint("only the holder can renew the lease: name the fence"));
        };
        let ask = LeaseRequest::Renew {
            fence: token.fence,
            ttl: self.lease_ttl(request.ttl_ms)?,
        };
        let acquired = self
            .request_lease(scope, session, request.holder, ask)
            .await?;
        Ok(Written::new(acquired.lease, false, acquired.durability))
    }

    /// Releases a lease. If the lease has expired or has a newer fence, nothing is changed. Returns the lease in its
    /// present state.
    ///
    /// # Errors
    /// `invalid` without a fence, or with two different ones; `lease_held` if this fence belongs to another holder;
    /// `session_not_found`, and those of the ledger.
    pub async fn release(
        &self,
        caller: &Caller,
        session: &SessionId,
        holder: &str,
        fence: Option<u64>,
    ) -> Result<Written<Lease>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let Some(token) = fenced_scope(scope, fence, false)?.fence else {
            return Err(Failure::new(ErrorCode::Invalid, "fence is missing")
                .with_hint("only the holder can release the session: name the fence"));
        };
        self.release_lease(scope, session, holder, token.fence)
            .await
    }

    /// The lease of a session, with its holder if there is one; available even if live calls are off.
    ///
    /// # Errors
    /// `session_not_found`, and those of the ledger.
    pub async fn lease(&self, caller: &Caller, session: &SessionId) -> Result<Lease, Failure> {
        self.current_lease(&caller.scope(Permission::Read)?, session)
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
            // A session in a terminal state cannot be resumed. This applies only where sessions are resumed from the
            // journal.
            terminal: match self.settings.calls.journal {
                Journal::On => self.settings.calls.terminal.clone(),
                Journal::Shadow | Journal::Off => Vec::new(),
            },
            resumes,
        })
    }

    pub(super) fn lease_ttl(&self, ms: Option<u64>) -> Result<Duration, Failure> {
        let calls = &self.settings.calls;
        checked_duration(ms, "ttl_ms", 1, calls.lease_ttl, calls.lease_ttl_max)
    }

    pub(super) fn lease_wait(&self, ms: Option<u64>) -> Result<Duration, Failure> {
        let calls = &self.settings.calls;
        checked_duration(ms, "wait_ms", 0, calls.lease_wait, calls.lease_wait_max)
    }

    /// Acquires a lease as soon as it is free, within the attempt's wait. Does not report a refusal: the caller does,
    /// because the webhook may turn out to be answered already.
    pub(super) async fn take_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        attempt: LeaseAttempt<'_>,
    ) -> Result<AcquiredLease, Failure> {
        let until = Instant::now() + attempt.wait;
        let mut commits = self.ledger.commits();
        loop {
            commits.mark_unchanged();
            let ask = LeaseRequest::Acquire(Box::new(attempt.acquire.clone()));
            let refused = match self
                .request_lease(scope, session, attempt.holder.into(), ask)
                .await
            {
                Err(failure) if failure.code == ErrorCode::LeaseTimeout => failure,
                Err(failure) => {
                    warn_if_down(scope, session, &failure);
                    return Err(failure);
                }
                Ok(acquired) => {
                    self.counters.leases.add(1);
                    tracing::info!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), fence = acquired.lease.fence, "[CALL_LOCK] acquired");
                    return Ok(acquired);
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

    /// Waits until the lease seems free, or until the deadline `until`.
    pub(super) async fn wait_while_held(
        &self,
        scope: &Scope,
        session: &SessionId,
        commits: &mut tokio::sync::watch::Receiver<u64>,
        until: Instant,
    ) -> Result<(), Failure> {
        loop {
            let next_poll = (Instant::now() + POLL_INTERVAL).min(until);
            tokio::select! {
                changed = commits.changed() => if changed.is_err() { tokio::time::sleep_until(next_poll).await },
                () = tokio::time::sleep_until(next_poll) => {}
            }
            if Instant::now() >= until || self.current_lease(scope, session).await?.holder.is_none()
            {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reports that `holder` did not get a lease because another holder has it. If the caller had `waited`, writes a
    /// log line and an event of the session; otherwise only counts the refusal. Ignores failures for other reasons,
    /// which are reported elsewhere.
    pub(super) async fn report_refused(
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

    /// Records the event `call_lock_timeout`, once for each pair of the awaited lease's fence and the waiting holder.
    async fn record_timeout(
        &self,
        scope: &Scope,
        session: &SessionId,
        fence: u64,
        holder: &str,
    ) -> Result<(), Failure> {
        let waiter = hex::encode(&Sha256::digest(holder)[..8]);
        let instance = format!("{fence}:{waiter}");
        self.record_own_event(scope, session, "call_lock_timeout", &instance, None)
            .await
    }
}

impl Core {
    /// Releases a lease. Returns the lease in its present state.
    pub(super) async fn release_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        holder: &str,
        fence: u64,
    ) -> Result<Written<Lease>, Failure> {
        let ask = LeaseRequest::Release { fence };
        let released = self
            .request_lease(scope, session, holder.into(), ask)
            .await?;
        Ok(Written::new(released.lease, false, released.durability))
    }

    /// Releases the session's lease if it has this fence; otherwise changes nothing and returns `None`.
    pub(crate) async fn release_held(
        &self,
        scope: &Scope,
        session: &SessionId,
        fence: u64,
    ) -> Result<Option<Durability>, Failure> {
        let lease = self.current_lease(scope, session).await?;
        let Some(holder) = lease.holder.filter(|_| lease.fence == fence) else {
            return Ok(None);
        };
        let released = self.release_lease(scope, session, &holder, fence).await?;
        Ok(Some(released.durability))
    }

    pub(super) async fn current_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Lease, Failure> {
        LeaseReader::of(self).lease(scope, session).await
    }

    pub(super) async fn request_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        holder: Box<str>,
        ask: LeaseRequest,
    ) -> Result<AcquiredLease, Failure> {
        if holder.is_empty() || holder.len() > 256 || holder.chars().any(char::is_control) {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "holder must be 1 to 256 bytes without control characters",
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
                acquired,
                created,
                resumed,
            } => Ok(AcquiredLease {
                lease,
                new: acquired,
                created,
                resumed,
                durability: stored.durability,
                unclaimed,
            }),
            _ => Err(unexpected()),
        }
    }

    /// Performs a request for a lease. A lease that was acquired is released again if its caller is gone by then.
    async fn lease_outcome(
        &self,
        scope: &Scope,
        take: TakeLease,
    ) -> Result<(CommittedWrite, Unclaimed), Failure> {
        if !matches!(take.ask, LeaseRequest::Acquire(_)) {
            let stored = self.write(scope, Write::Lease(Box::new(take))).await?;
            return Ok((stored, Unclaimed::default()));
        }
        let acquired = unclaimed::acquire(LeaseReader::of(self), scope.clone(), take).await;
        acquired.inspect_err(|failure| self.counters.write_refused(failure.code))
    }
}

/// Logs a failure of the ledger during the acquisition of a lease.
pub(super) fn warn_if_down(scope: &Scope, session: &SessionId, failure: &Failure) {
    if failure.code.status() >= 500 {
        tracing::warn!(err = %failure.code, tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), "[CALL_LOCK_WARN]");
    }
}

/// A duration that a request gives in milliseconds, from `min` to `max`; `default` if the request gives none.
fn checked_duration(
    ms: Option<u64>,
    name: &str,
    min: u64,
    default: Duration,
    max: Duration,
) -> Result<Duration, Failure> {
    let Some(ms) = ms else { return Ok(default) };
    let max_ms = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    if (min..=max_ms).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    let what = format!("{name} is {ms}, and must be {min} to {max_ms}");
    Err(Failure::new(ErrorCode::Invalid, what))
}
