//! Routing: decides which tier a request for a session goes to. That is the hot store for a session that exists only
//! there, and the ledger for any other (DESIGN §7).

use filrouge_store::command::{Command, LeaseRequest, Scope, Viewer, Write};
use filrouge_store::hot::HotKey;
use filrouge_store::read::{session_conflict, session_not_found};
use filrouge_types::{ErrorCode, Failure, IdentityId, Result, SessionId};

use super::tally::is_hot_outage;
use super::{DurablePolicy, TieredLedger};

/// The tier that a write to a session goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// The ledger: the session is there, or is to be created there.
    Ledger,
    /// The hot store: the session is only there, or is to be created there.
    Hot,
}

/// Data that this process remembers about a session that is in the ledger. A session never leaves the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LedgerPresence {
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
            matches!(&take.request, LeaseRequest::Acquire(acquire) if acquire.create.is_some())
        }
        _ => false,
    }
}

/// The failure with which the ledger's rules refuse a write to another owner's session (P6).
pub(super) fn foreign_session_failure(write: &Write, session: &SessionId) -> Failure {
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
    pub(super) fn allows_ephemeral(&self) -> bool {
        self.options.durable == DurablePolicy::Authenticated
    }

    /// Whether the session is known to be in the ledger, and the hot store was searched for its other turns.
    pub(super) fn is_searched(&self, key: &HotKey) -> bool {
        let state = self.known_in_ledger.get(key);
        state.is_some_and(|state| state.searched)
    }

    /// The remembered data of a session that the ledger has, under any owner, or whose tombstone it has. `None` if the
    /// ledger has neither.
    pub(super) async fn ledger_presence(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Option<LedgerPresence>> {
        let key = self.key(scope, session);
        if let Some(state) = self.known_in_ledger.get(&key) {
            return Ok(Some(state));
        }
        let (viewer, id) = (scope.clone(), session.clone());
        let is_present = self
            .ledger
            .query_listed(scope, move |snapshot| {
                match snapshot.find_any(&viewer, &id) {
                    Ok(found) => Ok(found.is_some()),
                    Err(failure) if has_tombstone(&failure) => Ok(true),
                    Err(failure) => Err(failure),
                }
            })
            .await?;
        Ok(is_present.then(|| {
            self.known_in_ledger.insert(key, LedgerPresence::default());
            LedgerPresence::default()
        }))
    }

    /// The tier that a write goes to. If the caller has an identity, or the write links the session to one, an
    /// ephemeral session is first moved into the ledger.
    pub(super) async fn tier_of_write(&self, command: &Command) -> Result<Tier> {
        let (scope, write) = (&command.scope, &command.write);
        let Some(session) = write.session_id() else {
            return Ok(Tier::Ledger);
        };
        if scope.viewer == Viewer::Operator {
            return self.tier_of_operator_write(command, session).await;
        }
        let identity = identity_of(command);
        match (self.ledger_presence(scope, session).await?, identity) {
            (Some(state), Some(identity)) => {
                if !state.searched {
                    self.search_hot_store(scope, session, identity).await;
                }
                Ok(Tier::Ledger)
            }
            (Some(_), None) => Ok(Tier::Ledger),
            (None, None) => Ok(Tier::Hot),
            (None, Some(identity)) => {
                self.login(command, session, identity).await?;
                Ok(Tier::Ledger)
            }
        }
    }

    /// The tier that a write of the operator goes to. Only a link moves an ephemeral session into the ledger. While the
    /// hot store does not answer, a write that may create its session goes to the ledger, and any other write fails.
    async fn tier_of_operator_write(&self, command: &Command, session: &SessionId) -> Result<Tier> {
        let (scope, write) = (&command.scope, &command.write);
        if self.ledger_presence(scope, session).await?.is_some() {
            if write.is_retraction() {
                self.search_hot_store_for_owner(scope, session).await;
            }
            return Ok(Tier::Ledger);
        }
        match (self.has_ephemeral(scope, session).await, write) {
            (Ok(true), Write::Link(link)) => {
                self.login(command, session, &link.identity_id).await?;
                Ok(Tier::Ledger)
            }
            (Ok(true), _) => Ok(Tier::Hot),
            (Ok(false), _) => Ok(Tier::Ledger),
            (Err(failure), write) if is_hot_outage(&failure) && may_create(write) => {
                Ok(Tier::Ledger)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Whether the session is only in the hot store, so that no commit of the ledger concerns it.
    ///
    /// # Errors
    /// Those of both stores.
    pub async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool> {
        if !self.allows_ephemeral() || self.ledger_presence(scope, session).await?.is_some() {
            return Ok(false);
        }
        self.has_ephemeral(scope, session).await
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

fn has_tombstone(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::SessionErased | ErrorCode::SessionConflict
    )
}
