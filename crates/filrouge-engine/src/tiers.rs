//! Access to the layers of the ledger, the hot store and the spool, for callers that need more than the ledger port offers.

use filrouge_store::Scope;
use filrouge_types::{Failure, SessionId};

use crate::core::Core;
use crate::engine::Engine;
use crate::scopes::{RecentTurns, TieredLedger, session_ephemeral};
use crate::spool::{Spooling, Waiting};

impl Engine {
    /// The ledger with its hot store, if there is one.
    #[must_use]
    pub fn tiers(&self) -> Option<&TieredLedger> {
        self.core.tiers.as_deref()
    }

    /// The ledger with its spool, if there is one.
    #[must_use]
    pub fn spool(&self) -> Option<&Spooling> {
        self.core.spool.as_deref()
    }
}

impl Core {
    /// The newest finalized turns that lists show, from a copy that is verified to match the ledger; `None` means that the caller
    /// must read the ledger.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub(crate) async fn recent_turns(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>, Failure> {
        match &self.tiers {
            Some(tiers) => tiers.recent_turns(scope, session, limit).await,
            None => Ok(None),
        }
    }

    /// Refuses a session that is not in the ledger, for operations that need its entire chain.
    pub(crate) async fn check_in_ledger(
        &self,
        scope: &Scope,
        id: &SessionId,
    ) -> Result<(), Failure> {
        match self.in_hot(scope, id).await? {
            true => Err(session_ephemeral(id)),
            false => Ok(()),
        }
    }

    /// Whether the session is only in the hot store. Then no commit of the ledger concerns it.
    pub(crate) async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        match &self.tiers {
            Some(tiers) => tiers.in_hot(scope, session).await,
            None => Ok(false),
        }
    }

    /// Whether a write to this session would now reach only the hot store. A session that the spool knows is in the ledger.
    pub(crate) async fn is_ephemeral(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<bool, Failure> {
        match &self.tiers {
            Some(tiers) if !self.spool.as_ref().is_some_and(|s| s.knows(scope, session)) => {
                tiers.is_ephemeral(scope, session).await
            }
            _ => Ok(false),
        }
    }

    /// The state of a session whose writes wait in the spool, if the ledger does not answer.
    pub(crate) fn spooled_state(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        let waiting = self.spool.as_ref()?.waiting(scope, session)?;
        waiting.down.then_some(waiting)
    }
}
