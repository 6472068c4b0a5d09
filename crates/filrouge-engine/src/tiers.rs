//! Access to the layers in front of the ledger (the hot store and the spool), for code that needs more than the
//! `Ledger` trait offers.

use filrouge_store::Scope;
use filrouge_types::{Result, SessionId};

use crate::core::Core;
use crate::engine::Engine;
use crate::scopes::{RecentTurns, TieredLedger, session_ephemeral};
use crate::spool::{SpooledLedger, SpooledSession};

impl Engine {
    /// The tiered ledger; `None` if there is no hot store.
    pub fn tiers(&self) -> Option<&TieredLedger> {
        self.core.tiers.as_deref()
    }

    /// The spool; `None` if there is none.
    pub fn spool(&self) -> Option<&SpooledLedger> {
        self.core.spool.as_deref()
    }
}

impl Core {
    /// A session's newest finalized turns, in the form of lists, from the hot store's copy, if the copy is verified to
    /// match the ledger. `None` means that the caller must read the ledger instead.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub(crate) async fn recent_turns(
        &self,
        scope: &Scope,
        session: &SessionId,
        limit: usize,
    ) -> Result<Option<RecentTurns>> {
        match &self.tiers {
            Some(tiers) => tiers.recent_turns(scope, session, limit).await,
            None => Ok(None),
        }
    }

    /// Fails with `session_ephemeral` if the session is only in the hot store; for operations that need its chain in
    /// the ledger.
    pub(crate) async fn check_in_ledger(&self, scope: &Scope, id: &SessionId) -> Result<()> {
        match self.in_hot(scope, id).await? {
            true => Err(session_ephemeral(id)),
            false => Ok(()),
        }
    }

    /// Whether the session is only in the hot store, so that no commit of the ledger concerns it.
    pub(crate) async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool> {
        match &self.tiers {
            Some(tiers) => tiers.in_hot(scope, session).await,
            None => Ok(false),
        }
    }

    /// Whether a write to this session would now go only to the hot store. This is not the case for a session that can
    /// continue in the spool, because that session is in the ledger.
    pub(crate) async fn is_ephemeral(&self, scope: &Scope, session: &SessionId) -> Result<bool> {
        match &self.tiers {
            Some(tiers)
                if !self
                    .spool
                    .as_ref()
                    .is_some_and(|s| s.can_continue(scope, session)) =>
            {
                tiers.is_ephemeral(scope, session).await
            }
            _ => Ok(false),
        }
    }

    /// The spool's state of a session with queued writes; `None` if the session has none, or if the ledger answers.
    pub(crate) fn spooled_state(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Option<SpooledSession> {
        let spooled = self.spool.as_ref()?.spooled_session(scope, session)?;
        spooled.down.then_some(spooled)
    }
}
