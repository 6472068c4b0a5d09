//! Leases while the ledger does not answer. If this process granted a session's last lease, it grants the next by the ledger's
//! rules, to one holder at a time and under growing fences. Each is queued for the ledger, in order among the writes. If another
//! caller has acquired the session's lease elsewhere in the meantime, the ledger refuses the lease, and everything written under
//! it in the spool.

use std::sync::Arc;

use filrouge_store::CommittedWrite;
use filrouge_store::command::{Command, LeaseRequest, TakeLease, Write};
use filrouge_types::{Failure, Lease, Timestamp};

use super::Core;
use super::frame::LeaseNow;
use super::known::Key;
use super::state::Attempt;

impl Core {
    /// A lease request for a session that continues here. When the ledger answers again, the request waits until the queue is
    /// drained, and the ledger decides.
    pub(super) async fn lease_in_spool(
        self: &Arc<Self>,
        key: &Key,
        command: Command,
        attempt: Option<Attempt>,
        ledger_is_down: bool,
    ) -> Result<CommittedWrite, Failure> {
        // Leases are granted here only while the ledger does not answer. A request whose own try has just shown that is queued
        // without another check.
        if !ledger_is_down && !self.state().is_ledger_unavailable() {
            match self.wait_settled(key).await {
                Ok(()) => return Box::pin(self.write_or_queue(command)).await,
                Err(failure) if !self.state().is_ledger_unavailable() => return Err(failure),
                Err(_) => {}
            }
        }
        self.enqueue(key, command, attempt).await
    }

    /// Releases a lease that a late first try was granted, if it differs from the lease that the spool granted: then it has no
    /// holder.
    pub(super) async fn release_unclaimed(
        &self,
        granted: &LeaseNow,
        command: &Command,
        lease: &Lease,
    ) {
        let Write::Lease(take) = &command.write else {
            return;
        };
        if lease.fence == granted.fence || lease.holder.as_deref() != Some(&*take.holder) {
            return;
        }
        let fence = lease.fence;
        let release = TakeLease {
            ask: LeaseRequest::Release { fence },
            ..(**take).clone()
        };
        let release_write = Command {
            scope: command.scope.clone().with_fence(None),
            write: Write::Lease(Box::new(release)),
        };
        if let Err(failure) = self.inner.write(release_write).await {
            // The lease expires later.
            tracing::warn!(err = %failure.code, call_id = %crate::calls::word(take.session_id.as_str()), fence, "[SPOOL] an unclaimed lease is not released");
        }
    }
}

pub(super) fn lease_now(lease: &Lease, now: Timestamp) -> LeaseNow {
    LeaseNow {
        fence: lease.fence,
        holder: lease.holder.as_deref().unwrap_or_default().to_owned(),
        expires_at: lease.expires_at.unwrap_or(now).as_micros(),
    }
}
