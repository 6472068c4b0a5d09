//! Routing: decides which tier a request for a session goes to. That is the hot store for a session that exists only
//! there, and the ledger for any other (DESIGN §7).

use filrouge_store::command::{Command, LeaseRequest, Scope, Viewer, Write};
use filrouge_store::hot::HotKey;
use filrouge_store::read::{session_conflict, session_not_found};
use filrouge_types::{ErrorCode, Failure, IdentityId, SessionId};

use super::tally::is_hot;
use super::{DurablePolicy, TieredLedger};

/// The tier that a write to a session goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionTier {
    /// The ledger: the session is there, or is to be created there.
    Ledger,
    /// The hot store: the session is only there, or is to be created there.
    Hot,
}

/// What this process remembers of a session that is in the ledger. A session never leaves the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InLedger {
    /// Whether the hot store was searched for turns of the session from before it was moved into the ledger, and none
    /// are left.
    pub(super) searched: bool,
}

/// Whether a write may create its session.
pub(super) fn may_create(write: &Write) -> bool {
    match write {
        Write::CreateSession(_) | Write::Adopt(_) => true,
        Write::Start(start) => start.event.replaces.is_none(),
        Write::Lease(take) => {
            matches!(&take.ask, LeaseRequest::Acquire(acquire) if acquire.create.is_some())
        }
        _ => false,
    }
}

/// The failure with which the ledger's rules refuse a write to another owner's session (P6).
pub(super) fn foreign(write: &Write, session: &SessionId) -> Failure {
    if may_create(write) {
        session_conflict()
    } else {
        session_not_found(session)
    }
}

impl TieredLedger {
    /// The session's key in the hot store.
    pub(super) fn key(&self, scope: &Scope, session: &SessionId) -> HotKey {
        HotKey::new(self.ledger.store_id(), &scope.tenant, session)
    }

    /// Whether there may be ephemeral sessions, which are only in the hot store.
    pub(super) fn has_scopes(&self) -> bool {
        self.options.durable == DurablePolicy::Authenticated
    }

    /// What is remembered of the session if the ledger has it, under any owner, or has its tombstone; otherwise `None`.
    pub(super) async fn in_ledger(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Option<InLedger>, Failure> {
        let key = self.key(scope, session);
        if let Some(state) = self.known_in_ledger.get(&key) {
            return Ok(Some(state));
        }
        let (viewer, id) = (scope.clone(), session.clone());
        let found = self
            .ledger
            .query(move |snapshot| match snapshot.find_any(&viewer, &id) {
                Ok(found) => Ok(found.is_some()),
                Err(failure) if was_erased(&failure) => Ok(true),
                Err(failure) => Err(failure),
            })
            .await?;
        Ok(found.then(|| {
            self.known_in_ledger.insert(key, InLedger::default());
            InLedger::default()
        }))
    }

    /// The tier that a write goes to. If the caller has an identity, or the write links the session to one, an
    /// ephemeral session is first moved into the ledger.
    pub(super) async fn tier_of_write(&self, command: &Command) -> Result<SessionTier, Failure> {
        let (scope, write) = (&command.scope, &command.write);
        let Some(session) = write.session_id() else {
            return Ok(SessionTier::Ledger);
        };
        if scope.viewer == Viewer::Operator {
            return self.tier_of_operator_write(command, session).await;
        }
        let identity = identity_of(command);
        match (self.in_ledger(scope, session).await?, identity) {
            (Some(state), Some(identity)) => {
                if !state.searched {
                    self.search(scope, session, identity).await;
                }
                Ok(SessionTier::Ledger)
            }
            (Some(_), None) => Ok(SessionTier::Ledger),
            (None, None) => Ok(SessionTier::Hot),
            (None, Some(identity)) => {
                self.login(command, session, identity).await?;
                Ok(SessionTier::Ledger)
            }
        }
    }

    /// The tier that a write of the operator goes to. Only a link moves an ephemeral session into the ledger. While the
    /// hot store does not answer, a write that may create its session goes to the ledger, and any other write fails.
    async fn tier_of_operator_write(
        &self,
        command: &Command,
        session: &SessionId,
    ) -> Result<SessionTier, Failure> {
        let (scope, write) = (&command.scope, &command.write);
        if self.in_ledger(scope, session).await?.is_some() {
            if write.retracts() {
                self.search_for_owner(scope, session).await;
            }
            return Ok(SessionTier::Ledger);
        }
        let held = self.ephemeral.holds(&scope.tenant, session).await;
        match (self.tally.observe(held), write) {
            (Ok(true), Write::Link(link)) => {
                self.login(command, session, &link.identity_id).await?;
                Ok(SessionTier::Ledger)
            }
            (Ok(true), _) => Ok(SessionTier::Hot),
            (Ok(false), _) => Ok(SessionTier::Ledger),
            (Err(failure), write) if is_hot(&failure) && may_create(write) => {
                Ok(SessionTier::Ledger)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Whether the session is only in the hot store, so that no commit of the ledger concerns it.
    ///
    /// # Errors
    /// Those of both stores.
    pub async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        if !self.has_scopes() || self.in_ledger(scope, session).await?.is_some() {
            return Ok(false);
        }
        let held = self.ephemeral.holds(&scope.tenant, session).await;
        self.tally.observe(held)
    }
}

/// The identity that owns the session after the write: the one that the write links it to, or else the caller. `None`
/// if the caller is anonymous or the operator.
pub(super) fn identity_of(command: &Command) -> Option<&IdentityId> {
    match &command.write {
        Write::Link(link) => Some(&link.identity_id),
        _ => command.scope.viewer.identity(),
    }
}

fn was_erased(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::SessionErased | ErrorCode::SessionConflict
    )
}
