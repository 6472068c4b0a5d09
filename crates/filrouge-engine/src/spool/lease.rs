//! Leases while the ledger does not answer. If a session's newest lease was granted through this process, the spool
//! grants the next one by the ledger's rules, to one holder at a time and under growing fences. Each granted lease is
//! queued for the ledger, in order with the session's writes. If another process has meanwhile granted the session's
//! lease, the ledger refuses the queued lease. That lease and all writes queued after it then become dead letters.

use std::sync::Arc;

use filrouge_store::CommittedWrite;
use filrouge_store::command::{Command, LeaseCommand, LeaseRequest, Write};
use filrouge_types::{Lease, Result, Timestamp};

use super::Core;
use super::frame::SpooledLease;
use super::known::{KnownSession, SessionKey};
use super::local_session::unavailable;
use super::state::Attempt;

/// The first fence of a session that begins in the spool is random, from this number to its double. So it identifies the
/// beginning: two servers do not choose the same one. A double represents it, and those that follow, exactly.
const FIRST_FENCE_MIN: u64 = 1 << 51;

impl Core {
    /// Answers a lease request for a session that continues in the spool. If the ledger answers, the request waits
    /// until the session's queue is drained, and then goes to the ledger.
    ///
    /// `attempt` is the first attempt to send the request to the ledger, if it has not ended. `ledger_is_down` means
    /// that this attempt has just shown that the ledger does not answer.
    pub(super) async fn lease_in_spool(
        self: &Arc<Self>,
        key: &SessionKey,
        command: Command,
        attempt: Option<Attempt>,
        ledger_is_down: bool,
    ) -> Result<CommittedWrite> {
        // The spool grants leases only while the ledger does not answer.
        if !ledger_is_down && !self.state().is_ledger_unavailable() {
            match self.wait_until_drained(key).await {
                Ok(()) => return Box::pin(self.write_or_queue(command)).await,
                Err(failure) if !self.state().is_ledger_unavailable() => return Err(failure),
                Err(_) => {}
            }
        }
        self.enqueue(key, command, attempt).await
    }

    /// Whether the write may begin its session in the spool: it acquires a lease, and may create the session, which is
    /// durable. A caller that has a copy of the session knows that it exists.
    pub(super) fn may_begin(&self, command: &Command) -> bool {
        let Write::Lease(lease_command) = &command.write else {
            return false;
        };
        let LeaseRequest::Acquire(acquire) = &lease_command.request else {
            return false;
        };
        let has_copy = matches!(acquire.resumes, Some(Some(1..)));
        let is_durable = self.options.anonymous || command.scope.viewer.identity().is_some();
        acquire.create.is_some() && !has_copy && is_durable
    }

    /// Makes a session known that the caller begins in the spool. Does nothing if the caller's session is known. Returns
    /// whether it begins.
    ///
    /// # Errors
    /// `store_unavailable` if the session may not begin here, or is another caller's.
    pub(super) fn begin_if_unknown(&self, key: &SessionKey, command: &Command) -> Result<bool> {
        let mut state = self.state();
        let refused =
            || unavailable("the session is not known here, and the ledger does not answer");
        match state.known(key) {
            Some(known) if known.was_shown_to(&command.scope) => return Ok(false),
            Some(_) => return Err(refused()),
            None if !self.may_begin(command) => return Err(refused()),
            None => {}
        }
        match self.seen.contains(key) {
            Ok(false) => {}
            Ok(true) => return Err(refused()),
            Err(e) => return Err(unavailable(&format!("the spool: {e}"))),
        }
        let mut fence = [0; 8];
        self.entropy.fill(&mut fence)?;
        let fence = FIRST_FENCE_MIN + u64::from_be_bytes(fence) % FIRST_FENCE_MIN;
        state.known.forget(key);
        let begun = KnownSession::begun(&command.scope, fence);
        state.change(key, |known| *known = begun);
        Ok(true)
    }

    /// Releases `lease`, which the ledger granted to a late first attempt, if the spool has meanwhile answered the same
    /// request with a lease under another fence (`granted`). No caller has received `lease`.
    pub(super) async fn release_unclaimed(
        &self,
        granted: &SpooledLease,
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
        let release = LeaseCommand {
            request: LeaseRequest::Release { fence },
            ..(**take).clone()
        };
        let release_write = Command {
            scope: command.scope.clone().with_fence(None),
            write: Write::Lease(Box::new(release)),
        };
        if let Err(failure) = self.inner.write(release_write).await {
            // The lease stays until it expires.
            tracing::warn!(err = %failure.code, call_id = %crate::calls::log_word(take.session_id.as_str()), fence, "[SPOOL] an unclaimed lease is not released");
        }
    }
}

pub(super) fn spooled_lease(lease: &Lease, now: Timestamp) -> SpooledLease {
    SpooledLease {
        fence: lease.fence,
        holder: lease.holder.as_deref().unwrap_or_default().to_owned(),
        expires_at: lease.expires_at.unwrap_or(now).as_micros(),
    }
}
