//! Leases while the ledger does not answer: given here by the ledger's rules, to one holder at a time and under fences that
//! grow, if this process has given the last one. Each is reported to the ledger in its turn among the writes. If somebody has
//! taken the session elsewhere meanwhile, it refuses that, and all that was written here under it is refused with it.

use std::sync::Arc;

use filrouge_store::Stored;
use filrouge_store::command::{Command, LeaseAsk, TakeLease, Write};
use filrouge_types::{Failure, Lease, Timestamp};

use super::Core;
use super::frame::LeaseNow;
use super::known::Key;
use super::state::Attempt;

impl Core {
    /// A lease of a session that goes on here. When the ledger answers again it waits for what is queued, and is the
    /// ledger's affair.
    pub(super) async fn lease_here(
        self: &Arc<Self>,
        key: &Key,
        command: Command,
        attempt: Option<Attempt>,
        is_away: bool,
    ) -> Result<Stored, Failure> {
        // Given here only while the ledger is away: one whose try has just shown that is queued without another.
        if !is_away && !self.state().is_down() {
            match self.wait_settled(key).await {
                Ok(()) => return Box::pin(self.written(command)).await,
                Err(failure) if !self.state().is_down() => return Err(failure),
                Err(_) => {}
            }
        }
        self.enqueue(key, command, attempt).await
    }

    /// A try that came through late was given another lease than the one that was given here: nobody has it.
    pub(super) async fn give_back(&self, given: &LeaseNow, command: &Command, lease: &Lease) {
        let Write::Lease(take) = &command.write else {
            return;
        };
        if lease.fence == given.fence || lease.holder.as_deref() != Some(&*take.holder) {
            return;
        }
        let fence = lease.fence;
        let release = TakeLease {
            ask: LeaseAsk::Release { fence },
            ..(**take).clone()
        };
        let asked = Command {
            scope: command.scope.clone().with_hold(None),
            write: Write::Lease(Box::new(release)),
        };
        if let Err(failure) = self.inner.write(asked).await {
            // It ends by itself when its time is up.
            tracing::warn!(err = %failure.code, call_id = %crate::calls::word(take.session_id.as_str()), fence, "[SPOOL] a lease that nobody has is not given free");
        }
    }
}

pub(super) fn kept(lease: &Lease, now: Timestamp) -> LeaseNow {
    LeaseNow {
        fence: lease.fence,
        holder: lease.holder.as_deref().unwrap_or_default().to_owned(),
        expires_at: lease.expires_at.unwrap_or(now).as_micros(),
    }
}
