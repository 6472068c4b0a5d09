//! Waiting for changes of a session, and for the end of a turn.

use std::time::Duration;

use filrouge_store::Scope;
use filrouge_types::{ErrorCode, Result, SessionId, Turn, TurnId, TurnStatus};
use tokio::time::Instant;

use super::live::Follower;
use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Following;

impl Following {
    /// Follows a session from now on: later commits that touch it wake the follower. Read the session after this call,
    /// not before.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's errors.
    pub async fn follow(&self, caller: &Caller, session: &SessionId) -> Result<Follower> {
        let scope = caller.scope(Permission::Read)?;
        self.follow_session(&scope, session).await
    }

    /// Returns a turn as soon as it is closed, or after `wait` in its state at that time.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_mismatch`, and the ledger's errors.
    pub async fn turn(
        &self,
        caller: &Caller,
        session: &SessionId,
        id: TurnId,
        wait: Duration,
    ) -> Result<Turn> {
        let scope = caller.scope(Permission::Read)?;
        let deadline = Instant::now() + wait;
        self.wait_for_status(&scope, session, id, deadline, TurnStatus::is_closed)
            .await
    }
}

impl Core {
    /// Follows a session from now on: later commits that touch it wake the follower. Read the session after this call,
    /// not before. No commit announces changes of a session outside the ledger: its followers are woken every second.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's errors.
    async fn follow_session(&self, scope: &Scope, session: &SessionId) -> Result<Follower> {
        let only_hot = self.in_hot(scope, session).await?;
        let pk = self
            .ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                Ok(snapshot.get(scope, id)?.pk)
            })
            .await?;
        Ok(self.commit_notifier().follow((!only_hot).then_some(pk)))
    }

    /// Returns a turn as soon as `accepts` accepts its status, or at `deadline` in its state at that time.
    pub(crate) async fn wait_for_status(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: TurnId,
        deadline: Instant,
        accepts: impl Fn(TurnStatus) -> bool,
    ) -> Result<Turn> {
        let mut follower = match self.follow_session(scope, session).await {
            // Reading the turn returns a more precise failure: an anonymous session may have expired with its turns
            // (`turn_expired`).
            Err(failure) if failure.code == ErrorCode::SessionNotFound => {
                return self.ledger.turn(scope, session, id).await;
            }
            follower => follower?,
        };
        loop {
            let turn = self.ledger.turn(scope, session, id).await?;
            if accepts(turn.status) || Instant::now() >= deadline {
                return Ok(turn);
            }
            // After the deadline the turn is read one last time, so that no timely change is missed.
            let _ = tokio::time::timeout_at(deadline, follower.changed()).await;
        }
    }
}
