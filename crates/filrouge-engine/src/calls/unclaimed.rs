//! Leases that nobody has been told of yet (DESIGN §6). Who asked for one may be gone before it is given, or fail before it
//! is used: then it is given free at once, and blocks nobody until its time is up.

use std::sync::Arc;

use filrouge_store::command::{Command, LeaseAsk, Outcome, Scope, TakeLease, Write};
use filrouge_store::{Durability, Ledger, Stored};
use filrouge_types::{Clock, ErrorCode, Failure, Lease, SessionId};
use tokio::runtime::Handle;
use tracing::Instrument;

use super::words::word;
use crate::core::Core;
use crate::spool::Spooling;

/// A lease that was just taken; given free when this is dropped, unless it was claimed. One that its holder had before is
/// nobody's to give free.
#[derive(Default)]
pub(super) struct Unclaimed(Option<Given>);

/// What it takes to find out who holds a session.
#[derive(Clone)]
pub(super) struct Holds {
    ledger: Arc<dyn Ledger>,
    spool: Option<Arc<Spooling>>,
    clock: Arc<dyn Clock>,
}

/// A lease as it was given.
struct Given {
    holds: Holds,
    runtime: Handle,
    scope: Scope,
    take: TakeLease,
    lease: Lease,
    /// Whether the ledger is to learn of it later, and of another end of it then.
    spooled: bool,
}

impl Unclaimed {
    /// Whoever asked for it has it.
    pub(super) fn claim(mut self) {
        self.0 = None;
    }

    /// Whether there is a lease to give free.
    pub(super) const fn is_new(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(given) = self.0.take() {
            let runtime = given.runtime.clone();
            runtime.spawn(given.give_free().in_current_span());
        }
    }
}

/// Asks for a lease in a task of its own, which goes on when whoever waits for it is gone.
///
/// # Errors
/// Those of the rules and of the ledger.
pub(super) async fn asked(
    holds: Holds,
    scope: Scope,
    take: TakeLease,
) -> Result<(Stored, Unclaimed), Failure> {
    let asking = async move {
        let command = Command {
            scope: scope.clone(),
            write: Write::Lease(Box::new(take.clone())),
        };
        let stored = holds.ledger.write(command).await?;
        let given = match &stored.outcome {
            Outcome::Lease {
                lease, taken: true, ..
            } => Some(Given {
                lease: lease.clone(),
                runtime: Handle::current(),
                scope: scope.with_hold(None),
                holds,
                take,
                spooled: stored.durability == Durability::Spooled,
            }),
            _ => None,
        };
        Ok((stored, Unclaimed(given)))
    };
    // Once nobody waits for it any more, what it gives is dropped.
    let asked = tokio::spawn(asking.in_current_span()).await;
    asked.unwrap_or_else(|e| {
        let what = format!("taking a lease was ended: {e}");
        Err(Failure::new(ErrorCode::Internal, what))
    })
}

impl Given {
    async fn give_free(self) {
        let (tenant, call) = (self.scope.tenant.clone(), self.take.session_id.clone());
        let (tenant, call) = (word(tenant.as_str()), word(call.as_str()));
        let fence = self.lease.fence;
        match self.released().await {
            Ok(true) => {
                tracing::info!(tenant_id = %tenant, call_id = %call, fence, "[CALL_LOCK] given back");
            }
            Ok(false) => {}
            // It ends by itself when its time is up.
            Err(failure) => {
                tracing::warn!(err = %failure.code, tenant_id = %tenant, call_id = %call, fence, "[CALL_LOCK_WARN]");
            }
        }
    }

    /// Gives the lease free; `false` when it is not what was given any more, as when the same holder has asked again.
    async fn released(&self) -> Result<bool, Failure> {
        let session = &self.take.session_id;
        let now = self.holds.lease(&self.scope, session).await?;
        let same = now.fence == self.lease.fence
            && now.holder.as_deref() == Some(&*self.take.holder)
            && (self.spooled || now.expires_at == self.lease.expires_at);
        if !same {
            return Ok(false);
        }
        let release = TakeLease {
            ask: LeaseAsk::Release { fence: now.fence },
            ..self.take.clone()
        };
        let command = Command {
            scope: self.scope.clone(),
            write: Write::Lease(Box::new(release)),
        };
        self.holds.ledger.write(command).await.map(|_| true)
    }
}

impl Holds {
    pub(super) fn of(core: &Core) -> Self {
        Self {
            ledger: core.ledger.clone(),
            spool: core.spool.clone(),
            clock: core.clock.clone(),
        }
    }

    /// The lease of a session as it stands; as it is known here while the ledger does not answer.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's.
    pub(super) async fn lease(&self, scope: &Scope, session: &SessionId) -> Result<Lease, Failure> {
        let waiting = self.spool.as_ref().and_then(|s| s.waiting(scope, session));
        if let Some(waiting) = waiting.filter(|w| w.down) {
            return Ok(waiting.lease);
        }
        let (viewer, id, now) = (scope.clone(), session.clone(), self.clock.now());
        self.ledger
            .ask_in(scope, session, move |sight| sight.lease(&viewer, &id, now))
            .await
    }
}
