//! Waiting for a session, and for a turn's end.

use std::time::Duration;

use filrouge_store::Scope;
use filrouge_types::{ErrorCode, Failure, SessionId, Turn, TurnId, TurnStatus};
use tokio::time::Instant;

use super::live::Follower;
use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Following;

impl Following {
    /// Follows a session from now on: a commit that touches it afterwards wakes. Read it after this, not before.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's.
    pub async fn follow(&self, caller: &Caller, session: &SessionId) -> Result<Follower, Failure> {
        let scope = caller.scope(Permission::Read)?;
        self.follow_session(&scope, session).await
    }

    /// A turn, once it is closed, or as it stands when `wait` is over.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_mismatch`, and the ledger's.
    pub async fn turn(
        &self,
        caller: &Caller,
        session: &SessionId,
        id: TurnId,
        wait: Duration,
    ) -> Result<Turn, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let until = Instant::now() + wait;
        self.closed_turn(&scope, session, id, until).await
    }
}

impl Core {
    /// Follows a session from now on: a commit that touches it afterwards wakes. Read it after this, not before. No
    /// commit reports a session that is not in the ledger: its followers are woken every second.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's.
    async fn follow_session(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Follower, Failure> {
        let looking = self.in_hot(scope, session).await?;
        let (viewer, id) = (scope.clone(), session.clone());
        let pk = self
            .ledger
            .ask_in(scope, session, move |sight| Ok(sight.get(&viewer, &id)?.pk))
            .await?;
        Ok(self.live().follow((!looking).then_some(pk)))
    }

    /// A turn, once it is closed, or as it stands at `until`.
    pub(crate) async fn closed_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: TurnId,
        until: Instant,
    ) -> Result<Turn, Failure> {
        let closed = |status: TurnStatus| status.is_closed();
        self.wait_for_status(scope, session, id, until, closed)
            .await
    }

    /// A turn, once its status is a wanted one, or as it stands at `until`.
    pub(crate) async fn wait_for_status(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: TurnId,
        until: Instant,
        wanted: impl Fn(TurnStatus) -> bool,
    ) -> Result<Turn, Failure> {
        let mut follower = match self.follow_session(scope, session).await {
            // The ledger says more about a turn that was deleted than about its session.
            Err(failure) if failure.code == ErrorCode::SessionNotFound => {
                return self.ledger.turn(scope, session, id).await;
            }
            follower => follower?,
        };
        loop {
            let turn = self.ledger.turn(scope, session, id).await?;
            if wanted(turn.status) || Instant::now() >= until {
                return Ok(turn);
            }
            // When time is over, the turn is read once more, so that nothing that came in time is missed.
            let _ = tokio::time::timeout_at(until, follower.changed()).await;
        }
    }
}
