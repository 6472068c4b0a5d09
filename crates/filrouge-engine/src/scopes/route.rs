//! Who answers: the ledger, or the hot store for a session that is nowhere else (DESIGN §7).

use filrouge_store::command::{Command, LeaseAsk, Scope, Viewer, Write};
use filrouge_store::hot::HotKey;
use filrouge_store::read::{session_conflict, session_not_found};
use filrouge_types::{ErrorCode, Failure, IdentityId, SessionId};

use super::tally::is_hot;
use super::{DurablePolicy, TwoScopes};

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the ledger, or to be made there.
    Ledger,
    /// In the hot store alone, or to be made there.
    Hot,
}

/// What is known of a session that was found in the ledger, where it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InLedger {
    /// Whether the hot store is known to have nothing more of it.
    pub(super) searched: bool,
}

/// Whether a write may make its session.
pub(super) fn makes(write: &Write) -> bool {
    match write {
        Write::CreateSession(_) | Write::Adopt(_) => true,
        Write::Start(start) => start.event.replaces.is_none(),
        Write::Lease(take) => {
            matches!(&take.ask, LeaseAsk::Acquire(acquire) if acquire.create.is_some())
        }
        _ => false,
    }
}

/// A session that is somebody else's, as the rules put it to who writes (P6).
pub(super) fn foreign(write: &Write, session: &SessionId) -> Failure {
    if makes(write) {
        session_conflict()
    } else {
        session_not_found(session)
    }
}

impl TwoScopes {
    /// The hot store's name of a session.
    pub(super) fn key(&self, scope: &Scope, session: &SessionId) -> HotKey {
        HotKey::new(self.ledger.store_id(), &scope.tenant, session)
    }

    /// Whether sessions may be elsewhere than in the ledger.
    pub(super) fn has_scopes(&self) -> bool {
        self.options.durable == DurablePolicy::Authenticated
    }

    /// Whether the session is in the ledger, whosever it is; what was erased counts as being there.
    pub(super) async fn in_ledger(
        &self,
        scope: &Scope,
        session: &SessionId,
    ) -> Result<Option<InLedger>, Failure> {
        let key = self.key(scope, session);
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known));
        }
        let (of, id) = (scope.clone(), session.clone());
        let found = self
            .ledger
            .ask(move |sight| match sight.find_any(&of, &id) {
                Ok(found) => Ok(found.is_some()),
                Err(failure) if was_erased(&failure) => Ok(true),
                Err(failure) => Err(failure),
            })
            .await?;
        Ok(found.then(|| {
            self.known.insert(key, InLedger::default());
            InLedger::default()
        }))
    }

    /// Where a write goes. A known identity takes the session into the ledger first.
    pub(super) async fn place_of_write(&self, command: &Command) -> Result<Place, Failure> {
        let (scope, write) = (&command.scope, &command.write);
        let Some(session) = write.session_id() else {
            return Ok(Place::Ledger);
        };
        if scope.viewer == Viewer::Operator {
            return self.place_of_operators(command, session).await;
        }
        let identity = identity_of(command);
        match (self.in_ledger(scope, session).await?, identity) {
            (Some(known), Some(identity)) => {
                if !known.searched {
                    self.search(scope, session, identity).await;
                }
                Ok(Place::Ledger)
            }
            (Some(_), None) => Ok(Place::Ledger),
            (None, None) => Ok(Place::Hot),
            (None, Some(identity)) => {
                self.login(command, session, identity).await?;
                Ok(Place::Ledger)
            }
        }
    }

    /// Where a write of the operator goes: nobody logs in by it, unless it is a link. One that makes its session goes on
    /// in the ledger alone while the hot store does not answer.
    async fn place_of_operators(
        &self,
        command: &Command,
        session: &SessionId,
    ) -> Result<Place, Failure> {
        let (scope, write) = (&command.scope, &command.write);
        if self.in_ledger(scope, session).await?.is_some() {
            if write.takes_away() {
                self.search_for_owner(scope, session).await;
            }
            return Ok(Place::Ledger);
        }
        let held = self.ephemeral.holds(&scope.tenant, session).await;
        match (self.tally.noted(held), write) {
            (Ok(true), Write::Link(link)) => {
                self.login(command, session, &link.identity_id).await?;
                Ok(Place::Ledger)
            }
            (Ok(true), _) => Ok(Place::Hot),
            (Ok(false), _) => Ok(Place::Ledger),
            (Err(failure), write) if is_hot(&failure) && makes(write) => Ok(Place::Ledger),
            (Err(failure), _) => Err(failure),
        }
    }

    /// Whether the session is in the hot store and nowhere else. No commit of the ledger concerns it then.
    ///
    /// # Errors
    /// The stores'.
    pub async fn in_hot(&self, scope: &Scope, session: &SessionId) -> Result<bool, Failure> {
        if !self.has_scopes() || self.in_ledger(scope, session).await?.is_some() {
            return Ok(false);
        }
        let held = self.ephemeral.holds(&scope.tenant, session).await;
        self.tally.noted(held)
    }
}

/// Who the session is to belong to once the write is done: who asks, or who it is linked to.
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
