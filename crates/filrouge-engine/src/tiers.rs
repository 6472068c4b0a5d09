//! What is in front of the ledger and behind it: the hot store and the spool, for the few who ask more of them than a
//! ledger answers.

use filrouge_store::Scope;
use filrouge_types::{Failure, SessionId};

use crate::core::Core;
use crate::engine::Engine;
use crate::scopes::{RecentTurns, TwoScopes, session_ephemeral};
use crate::spool::{Spooling, Waiting};

impl Engine {
    /// The ledger with its hot store, if there is one.
    #[must_use]
    pub fn tiers(&self) -> Option<&TwoScopes> {
        self.core.tiers.as_deref()
    }

    /// The ledger with its spool, if there is one.
    #[must_use]
    pub fn spool(&self) -> Option<&Spooling> {
        self.core.spool.as_deref()
    }
}

impl Core {
    /// The newest finalized turns that are shown, from a copy that is known to be what the ledger would answer; `None`
    /// sends to the ledger.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's.
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

    /// Refuses a session that is not in the ledger, for what needs its whole chain.
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

    /// Whether the session is in the hot store and nowhere else. No commit of the ledger concerns it then.
    pub(crate) async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        match &self.tiers {
            Some(tiers) => tiers.in_hot(scope, session).await,
            None => Ok(false),
        }
    }

    /// Whether a write to this session, asked now, goes to the hot store and nowhere else. What the spool knows is in the
    /// ledger.
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

    /// What is known of a session whose writes wait in the spool, if the ledger does not answer.
    pub(crate) fn away(&self, scope: &Scope, session: &SessionId) -> Option<Waiting> {
        let waiting = self.spool.as_ref()?.waiting(scope, session)?;
        waiting.down.then_some(waiting)
    }
}
