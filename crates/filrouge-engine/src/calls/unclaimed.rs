//! Leases that were granted but that no caller has claimed yet (DESIGN §6). A caller may be gone before its lease is
//! granted, or may fail before it uses the lease. Then the lease is released at once, instead of blocking others until
//! it expires.

use std::sync::Arc;

use filrouge_store::command::{Command, LeaseRequest, Outcome, Scope, TakeLease, Write};
use filrouge_store::{CommittedWrite, Durability, Ledger};
use filrouge_types::{Clock, ErrorCode, Failure, Lease, SessionId};
use tokio::runtime::Handle;
use tracing::Instrument;

use super::words::word;
use crate::core::Core;
use crate::spool::Spooling;

/// A new lease, which is released on drop unless it was claimed. Empty for a lease that its holder already had, which
/// is never released here.
#[derive(Default)]
pub(super) struct Unclaimed(Option<GrantedLease>);

/// Reads a session's lease.
#[derive(Clone)]
pub(super) struct LeaseReader {
    ledger: Arc<dyn Ledger>,
    spool: Option<Arc<Spooling>>,
    clock: Arc<dyn Clock>,
}

/// A granted lease.
struct GrantedLease {
    reader: LeaseReader,
    runtime: Handle,
    scope: Scope,
    take: TakeLease,
    lease: Lease,
    /// Whether the spool granted the lease. When the ledger applies the queued write later, it may compute another
    /// expiry.
    spooled: bool,
}

impl Unclaimed {
    /// Keeps the lease: its caller has received it.
    pub(super) fn claim(mut self) {
        self.0 = None;
    }

    /// Whether there is a lease to release.
    pub(super) const fn is_new(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(granted) = self.0.take() {
            let runtime = granted.runtime.clone();
            runtime.spawn(granted.release_and_log().in_current_span());
        }
    }
}

/// Acquires a lease in its own task, which continues if the caller is gone.
///
/// # Errors
/// As [`Calls::acquire`](crate::Calls::acquire), and `internal` if the task panics.
pub(super) async fn acquire(
    reader: LeaseReader,
    scope: Scope,
    take: TakeLease,
) -> Result<(CommittedWrite, Unclaimed), Failure> {
    let acquiring = async move {
        let command = Command {
            scope: scope.clone(),
            write: Write::Lease(Box::new(take.clone())),
        };
        let stored = reader.ledger.write(command).await?;
        let granted = match &stored.outcome {
            Outcome::Lease {
                lease,
                acquired: true,
                ..
            } => Some(GrantedLease {
                lease: lease.clone(),
                runtime: Handle::current(),
                scope: scope.with_fence(None),
                reader,
                take,
                spooled: stored.durability == Durability::Spooled,
            }),
            _ => None,
        };
        Ok((stored, Unclaimed(granted)))
    };
    // If the caller is gone, the result is dropped, which releases the lease.
    let acquired = tokio::spawn(acquiring.in_current_span()).await;
    acquired.unwrap_or_else(|e| {
        let what = format!("the task that acquires a lease ended: {e}");
        Err(Failure::new(ErrorCode::Internal, what))
    })
}

impl GrantedLease {
    async fn release_and_log(self) {
        let (tenant, call) = (self.scope.tenant.clone(), self.take.session_id.clone());
        let (tenant, call) = (word(tenant.as_str()), word(call.as_str()));
        let fence = self.lease.fence;
        match self.release().await {
            Ok(true) => {
                tracing::info!(tenant_id = %tenant, call_id = %call, fence, "[CALL_LOCK] released");
            }
            Ok(false) => {}
            // The lease then expires.
            Err(failure) => {
                tracing::warn!(err = %failure.code, tenant_id = %tenant, call_id = %call, fence, "[CALL_LOCK_WARN]");
            }
        }
    }

    /// Releases the lease; `false` if it is no longer the granted one, for example because the same holder has renewed
    /// it.
    async fn release(&self) -> Result<bool, Failure> {
        let session = &self.take.session_id;
        let now = self.reader.lease(&self.scope, session).await?;
        let same = now.fence == self.lease.fence
            && now.holder.as_deref() == Some(&*self.take.holder)
            && (self.spooled || now.expires_at == self.lease.expires_at);
        if !same {
            return Ok(false);
        }
        let release = TakeLease {
            ask: LeaseRequest::Release { fence: now.fence },
            ..self.take.clone()
        };
        let command = Command {
            scope: self.scope.clone(),
            write: Write::Lease(Box::new(release)),
        };
        self.reader.ledger.write(command).await.map(|_| true)
    }
}

impl LeaseReader {
    pub(super) fn of(core: &Core) -> Self {
        Self {
            ledger: core.ledger.clone(),
            spool: core.spool.clone(),
            clock: core.clock.clone(),
        }
    }

    /// The lease of a session in its present state; while the ledger does not answer, the lease that the spool knows.
    ///
    /// # Errors
    /// `session_not_found`, and those of the ledger.
    pub(super) async fn lease(&self, scope: &Scope, session: &SessionId) -> Result<Lease, Failure> {
        let waiting = self.spool.as_ref().and_then(|s| s.waiting(scope, session));
        if let Some(waiting) = waiting.filter(|w| w.down) {
            return Ok(waiting.lease);
        }
        let (viewer, id, now) = (scope.clone(), session.clone(), self.clock.now());
        self.ledger
            .query_session(scope, session, move |snapshot| {
                snapshot.lease(&viewer, &id, now)
            })
            .await
    }
}
