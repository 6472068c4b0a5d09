//! Acquires, renews and releases leases, and waits for them (DESIGN §6).

use std::time::Duration;

use filrouge_store::Durability;
use filrouge_store::command::{
    Acquire, FencingToken, LeaseCommand, LeaseRequest, NewSession, Outcome, Scope, Write,
};
use filrouge_types::{ErrorCode, Failure, Lease, Result, SessionId};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::requests::{AcquireLease, RenewLease};
use super::settings::Journal;
use super::unclaimed::{self, LeaseReader, UnclaimedLease};
use super::words::{log_word, optional_log_word};
use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Calls;
use crate::shared::unexpected_outcome;
use crate::written::Written;

/// The poll interval of a waiting caller. Polling is needed because no commit announces a change of a session that is
/// only in the hot store or the spool.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which a waiting caller checks whether the server of the lease's holder has exited.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The shortest pause of a waiting caller between two checks: commits of other sessions wake the caller, too.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// Adds to `scope` the fence of a write: `fence` from the request's body, or the fence from its header, which `scope`
/// has already. With `release`, the write also releases the lease.
///
/// # Errors
/// `invalid` if body and header name different fences, or if the write is to release the lease and neither names a
/// fence.
pub(crate) fn fenced_scope(scope: &Scope, fence: Option<u64>, release: bool) -> Result<Scope> {
    if let (Some(token), Some(fence)) = (scope.fence, fence)
        && token.fence != fence
    {
        let detail = format!(
            "the request names fence {fence}, and its header {}",
            token.fence
        );
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("name one fence, in the body or in Filrouge-Fence"));
    }
    let Some(mut token) = scope.fence.or(fence.map(FencingToken::new)) else {
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
    /// Whether the lease is new, with a new fence; `false` if its holder already had it.
    pub(super) is_new: bool,
    /// Whether the session was created.
    pub(super) created: bool,
    /// Whether the ledger recorded an event for the resume ([`Acquire::resumes`]).
    pub(super) resumed: bool,
    pub(super) durability: Durability,
    /// Releases the lease when it is dropped without having been claimed.
    pub(super) unclaimed: UnclaimedLease,
}

impl AcquiredLease {
    /// The result of an operation under the lease.
    pub(super) const fn to_written<T>(&self, value: T) -> Written<T> {
        Written::new(value, !self.is_new, self.durability)
    }
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
    ) -> Result<Written<Lease>> {
        let scope = &caller.scope(Permission::Write)?;
        let wait = self.lease_wait(request.wait_ms)?;
        let acquire = self.acquire_options(request.ttl_ms, None, None)?;
        let holder = &*request.holder;
        match self
            .acquire_lease(scope, session, holder, wait, acquire)
            .await
        {
            Ok(acquired) => {
                let written = Written::new(acquired.lease, !acquired.is_new, acquired.durability);
                acquired.unclaimed.claim();
                Ok(written)
            }
            Err(failure) => {
                let refused = (holder, !wait.is_zero(), &failure);
                self.report_refused(scope, session, refused).await;
                Err(failure)
            }
        }
    }

    /// Renews a lease: its duration restarts now.
    ///
    /// # Errors
    /// `stale_fence`, `lease_expired`, `lease_held` by another holder; `session_not_found`, `invalid`, and those of the
    /// ledger.
    pub async fn renew(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: RenewLease,
    ) -> Result<Written<Lease>> {
        let scope = &caller.scope(Permission::Write)?;
        self.check_journal()?;
        let Some(token) = fenced_scope(scope, request.fence, false)?.fence else {
            return Err(Failure::new(ErrorCode::Invalid, "fence is missing")
                .with_hint("only the holder can renew the lease: name the fence"));
        };
        let lease_request = LeaseRequest::Renew {
            fence: token.fence,
            ttl: self.lease_ttl(request.ttl_ms)?,
        };
        let acquired = self
            .request_lease(scope, session, request.holder, lease_request)
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
    ) -> Result<Written<Lease>> {
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
    pub async fn lease(&self, caller: &Caller, session: &SessionId) -> Result<Lease> {
        let scope = &caller.scope(Permission::Read)?;
        LeaseReader::new(self).lease(scope, session).await
    }

    pub(super) fn check_journal(&self) -> Result<()> {
        if self.settings.calls.journal != Journal::Off {
            return Ok(());
        }
        Err(
            Failure::new(ErrorCode::JournalOff, "live calls are not journaled here")
                .with_hint("set the setting `calls.journal` to `shadow` or `on`"),
        )
    }

    pub(super) fn acquire_options(
        &self,
        ttl_ms: Option<u64>,
        create: Option<NewSession>,
        resumes: Option<Option<u64>>,
    ) -> Result<Acquire> {
        self.check_journal()?;
        Ok(Acquire {
            ttl: self.lease_ttl(ttl_ms)?,
            exited: None,
            create,
            terminal: self.settings.calls.terminal_states().to_vec(),
            resumes,
        })
    }

    pub(super) fn lease_ttl(&self, ms: Option<u64>) -> Result<Duration> {
        let calls = &self.settings.calls;
        checked_duration(ms, "ttl_ms", 1, calls.lease_ttl, calls.lease_ttl_max)
    }

    pub(super) fn lease_wait(&self, ms: Option<u64>) -> Result<Duration> {
        let calls = &self.settings.calls;
        checked_duration(ms, "wait_ms", 0, calls.lease_wait, calls.lease_wait_max)
    }

    /// Acquires a lease as soon as it is free, within the attempt's wait; at once if the server that its holder used has
    /// exited. Does not report a refusal. The caller reports it, unless the webhook was already answered.
    pub(super) async fn acquire_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        holder: &str,
        wait: Duration,
        acquire: Acquire,
    ) -> Result<AcquiredLease> {
        let deadline = Instant::now() + wait;
        let mut commits = self.ledger.commits();
        let mut acquire = acquire;
        loop {
            commits.mark_unchanged();
            let lease_request = LeaseRequest::Acquire(Box::new(acquire.clone()));
            let refused = match self
                .request_lease(scope, session, holder.into(), lease_request)
                .await
            {
                Err(failure) if failure.code == ErrorCode::LeaseTimeout => failure,
                Err(failure) => {
                    warn_if_down(scope, session, &failure);
                    return Err(failure);
                }
                Ok(acquired) => {
                    self.counters.leases.add(1);
                    tracing::info!(tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), fence = acquired.lease.fence, "[CALL_LOCK] acquired");
                    return Ok(acquired);
                }
            };
            let exited = LeaseReader::new(self).exited_server(scope, session).await?;
            if exited.is_some() && exited != acquire.exited {
                acquire.exited = exited;
                continue;
            }
            if Instant::now() >= deadline {
                return Err(refused);
            }
            self.wait_while_held(scope, session, &mut commits, deadline)
                .await
                .inspect_err(|failure| warn_if_down(scope, session, failure))?;
        }
    }

    /// Waits until the lease seems free or its server has exited, at most until `deadline`.
    pub(super) async fn wait_while_held(
        &self,
        scope: &Scope,
        session: &SessionId,
        commits: &mut tokio::sync::watch::Receiver<u64>,
        deadline: Instant,
    ) -> Result<()> {
        let reader = LeaseReader::new(self);
        let mut next_exit_check = Instant::now() + EXIT_CHECK_INTERVAL;
        loop {
            let next_poll = (Instant::now() + POLL_INTERVAL).min(deadline);
            tokio::select! {
                changed = commits.changed() => if changed.is_err() { tokio::time::sleep_until(next_poll).await },
                () = tokio::time::sleep_until(next_poll) => {}
            }
            let now = Instant::now();
            if now >= deadline || reader.lease(scope, session).await?.holder.is_none() {
                return Ok(());
            }
            if now >= next_exit_check {
                if reader.exited_server(scope, session).await?.is_some() {
                    return Ok(());
                }
                next_exit_check = now + EXIT_CHECK_INTERVAL;
            }
            tokio::time::sleep(MIN_PAUSE).await;
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
        let current = refused.held.as_deref();
        let fence = current.map_or(0, |current| current.fence);
        // One event for each pair of the awaited lease's fence and the waiting holder.
        let holder_hash = hex::encode(&Sha256::digest(holder)[..8]);
        let instance = format!("{fence}:{holder_hash}");
        let recorded = self
            .record_engine_event(scope, session, "call_lock_timeout", &instance, None)
            .await;
        let holder = current.and_then(|current| current.holder.as_deref());
        tracing::warn!(tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), holder = %optional_log_word(holder), "[CALL_LOCK_TIMEOUT]");
        if let Err(failure) = recorded {
            self.counters.count_dropped_event(failure.code);
            tracing::warn!(err = %failure.code, tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), "[CALL_LOCK_WARN]");
        }
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
    ) -> Result<Written<Lease>> {
        let lease_request = LeaseRequest::Release { fence };
        let released = self
            .request_lease(scope, session, holder.into(), lease_request)
            .await?;
        Ok(Written::new(released.lease, false, released.durability))
    }

    /// Releases the session's lease if it has this fence; otherwise changes nothing and returns `None`.
    pub(crate) async fn release_lease_with_fence(
        &self,
        scope: &Scope,
        session: &SessionId,
        fence: u64,
    ) -> Result<Option<Durability>> {
        let lease = LeaseReader::new(self).lease(scope, session).await?;
        let Some(holder) = lease.holder.filter(|_| lease.fence == fence) else {
            return Ok(None);
        };
        let released = self.release_lease(scope, session, &holder, fence).await?;
        Ok(Some(released.durability))
    }

    /// Performs a request for a lease. An acquired lease is released if its caller was cancelled in the meantime.
    pub(super) async fn request_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        holder: Box<str>,
        lease_request: LeaseRequest,
    ) -> Result<AcquiredLease> {
        if holder.is_empty() || holder.len() > 256 || holder.chars().any(char::is_control) {
            return Err(ErrorCode::Invalid
                .failure("holder must be 1 to 256 bytes without control characters"));
        }
        let lease_command = LeaseCommand {
            session_id: session.clone(),
            holder,
            request: lease_request,
        };
        let (stored, unclaimed) = if matches!(lease_command.request, LeaseRequest::Acquire(_)) {
            unclaimed::acquire(LeaseReader::new(self), scope.clone(), lease_command)
                .await
                .inspect_err(|failure| self.counters.count_refused_write(failure.code))?
        } else {
            let write = Write::Lease(Box::new(lease_command));
            (self.write(scope, write).await?, UnclaimedLease::default())
        };
        let Outcome::Lease {
            lease,
            acquired: is_new,
            created,
            resumed,
        } = stored.outcome
        else {
            return Err(unexpected_outcome());
        };
        Ok(AcquiredLease {
            lease,
            is_new,
            created,
            resumed,
            durability: stored.durability,
            unclaimed,
        })
    }
}

/// Logs a failure of the ledger during the acquisition of a lease.
pub(super) fn warn_if_down(scope: &Scope, session: &SessionId, failure: &Failure) {
    if failure.code.status() >= 500 {
        tracing::warn!(err = %failure.code, tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), "[CALL_LOCK_WARN]");
    }
}

/// A duration that a request gives in milliseconds, from `min` to `max`; `default` if the request gives none.
fn checked_duration(
    ms: Option<u64>,
    name: &str,
    min: u64,
    default: Duration,
    max: Duration,
) -> Result<Duration> {
    let Some(ms) = ms else { return Ok(default) };
    let max_ms = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    if (min..=max_ms).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    Err(ErrorCode::Invalid.failure(format!("{name} is {ms}, and must be {min} to {max_ms}")))
}
