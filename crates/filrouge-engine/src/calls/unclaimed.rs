//! Leases that were granted but that no caller has claimed yet (DESIGN §6). A caller may be cancelled before its lease
//! is granted, or may fail before it uses the lease. Then the lease is released at once, so that it does not block
//! others until it expires.

use std::sync::Arc;

use filrouge_store::command::{LeaseCommand, LeaseRequest, Outcome, Scope, Write};
use filrouge_store::{CommittedWrite, Durability, Ledger};
use filrouge_types::{Clock, ErrorCode, Failure, Lease, SessionId};
use tokio::runtime::Handle;
use tracing::Instrument;

use super::words::log_word;
use crate::core::Core;
use crate::shared::command_as;
use crate::spool::SpooledLedger;

/// A new lease, which is released on drop unless it was claimed. Empty if the holder already had the lease: such a
/// lease is not released on drop.
#[derive(Default)]
pub(super) struct UnclaimedLease(Option<GrantedLease>);

/// Reads a session's lease.
#[derive(Clone)]
pub(super) struct LeaseReader {
    ledger: Arc<dyn Ledger>,
    spool: Option<Arc<SpooledLedger>>,
    clock: Arc<dyn Clock>,
}

/// A granted lease.
struct GrantedLease {
    reader: LeaseReader,
    runtime: Handle,
    scope: Scope,
    lease_command: LeaseCommand,
    lease: Lease,
    /// Whether the spool granted the lease. When the ledger applies the queued write later, it may compute another
    /// expiry.
    spooled: bool,
}

impl UnclaimedLease {
    /// Keeps the lease: its caller has received it.
    pub(super) fn claim(mut self) {
        self.0 = None;
    }

    /// Whether there is a lease to release.
    pub(super) const fn has_lease(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for UnclaimedLease {
    fn drop(&mut self) {
        if let Some(granted) = self.0.take() {
            let runtime = granted.runtime.clone();
            runtime.spawn(granted.release_and_log().in_current_span());
        }
    }
}

/// Acquires a lease in a separate task, which continues if the caller is cancelled.
///
/// # Errors
/// As [`Calls::acquire`](crate::Calls::acquire), and `internal` if the task panics.
pub(super) async fn acquire(
    reader: LeaseReader,
    scope: Scope,
    lease_command: LeaseCommand,
) -> Result<(CommittedWrite, UnclaimedLease), Failure> {
    let acquire_task = async move {
        let command = command_as(&scope, Write::Lease(Box::new(lease_command.clone())));
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
                lease_command,
                spooled: stored.durability == Durability::Spooled,
            }),
            _ => None,
        };
        Ok((stored, UnclaimedLease(granted)))
    };
    // If the caller was cancelled, the result is dropped, which releases the lease.
    let acquired = tokio::spawn(acquire_task.in_current_span()).await;
    acquired.unwrap_or_else(|e| {
        Err(ErrorCode::Internal.failure(format!("the task that acquires a lease ended: {e}")))
    })
}

impl GrantedLease {
    async fn release_and_log(self) {
        let tenant = log_word(self.scope.tenant.as_str());
        let call = log_word(self.lease_command.session_id.as_str());
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
        let session = &self.lease_command.session_id;
        let current = self.reader.lease(&self.scope, session).await?;
        let is_unchanged = current.fence == self.lease.fence
            && current.holder.as_deref() == Some(&*self.lease_command.holder)
            && (self.spooled || current.expires_at == self.lease.expires_at);
        if !is_unchanged {
            return Ok(false);
        }
        let release = LeaseCommand {
            request: LeaseRequest::Release {
                fence: current.fence,
            },
            ..self.lease_command.clone()
        };
        let command = command_as(&self.scope, Write::Lease(Box::new(release)));
        self.reader.ledger.write(command).await.map(|_| true)
    }
}

impl LeaseReader {
    pub(super) fn new(core: &Core) -> Self {
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
        if let Some(lease) = self.spooled_lease(scope, session) {
            return Ok(lease);
        }
        let now = self.clock.lease_now();
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                snapshot.lease(scope, id, now)
            })
            .await
    }

    /// The session's lease in the spool while the ledger does not answer.
    fn spooled_lease(&self, scope: &Scope, session: &SessionId) -> Option<Lease> {
        let spooled = self.spool.as_ref()?.spooled_session(scope, session)?;
        spooled.down.then_some(spooled.lease)
    }

    /// The server that the holder of the session's lease used last, if it has exited; `None` while the ledger does not
    /// answer.
    ///
    /// # Errors
    /// `session_not_found`, and those of the ledger.
    pub(super) async fn exited_server(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Option<Box<str>>, Failure> {
        if self.spooled_lease(scope, session).is_some() {
            return Ok(None);
        }
        let server = self
            .ledger
            .query_session(scope, session, |snapshot, scope, id| {
                Ok(snapshot.get(scope, id)?.head.lease.server)
            })
            .await;
        let server = match server {
            Err(failure) if failure.code == ErrorCode::StoreUnavailable => return Ok(None),
            server => server?,
        };
        Ok((!server.is_empty() && self.ledger.has_exited(&server).await).then_some(server))
    }
}
