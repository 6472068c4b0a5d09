//! Login: an ephemeral session gets an owner and is moved into the ledger completely (DESIGN §7).
//!
//! A login has three steps. It links the ephemeral session to the identity, which the rules allow to only one identity.
//! It writes the session into the ledger, in one transaction. It removes the ephemeral session. If the process is
//! killed after a step, a retry or the owner's next write completes the remaining steps.

use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_store::command::{
    AFTER_ANY_HEARTBEAT, Adopt, Command, Interrupt, Link, NewEvent, Outcome, Scope, Viewer, Write,
};
use filrouge_store::hot::FieldRetention;
use filrouge_store::read::SessionOrTombstone;
use filrouge_types::{ErrorCode, IdentityId, Result, SessionId, TenantId};

use super::TieredLedger;
use super::route::{LedgerPresence, foreign_session_failure, may_create};
use super::tally::is_hot_outage;
use crate::shared::{command_as, unexpected_outcome};

/// The maximum number of rounds of a login. Each round after the first moves what others have written to the ephemeral
/// session during the round before. The owner's next write moves the remainder.
const ROUNDS: usize = 8;
/// The number of events per read.
const EVENTS_PER_PAGE: usize = 500;

impl TieredLedger {
    /// Moves the session of a command into the ledger if the hot store has it. If the hot store does not answer, a
    /// write that may create its session proceeds without the move; [`Self::search_hot_store`] moves the turns later.
    pub(super) async fn login(
        &self,
        command: &Command,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<()> {
        let scope = &command.scope;
        let move_session = async {
            if !self.ephemeral.has_session(&scope.tenant, session).await? {
                return Ok(());
            }
            self.link(command, session, identity).await?;
            self.move_to_ledger(&scope.tenant, session, identity)
                .await
                .map(|_| ())
        };
        match self.tally.observe(move_session.await) {
            Err(failure) if is_hot_outage(&failure) => {
                let key = self.key(scope, session);
                if may_create(&command.write) || self.known_in_ledger.get(&key).is_some() {
                    return Ok(());
                }
                Err(failure)
            }
            result => result,
        }
    }

    /// Links the ephemeral session to the identity. If it fails, it returns the error that the ledger would return for
    /// this command.
    async fn link(
        &self,
        command: &Command,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<()> {
        let scope = &command.scope;
        let Err(failure) = self.link_ephemeral(scope, session, identity).await else {
            return Ok(());
        };
        match failure.code {
            ErrorCode::SessionLinked => {
                let creates_or_links =
                    may_create(&command.write) || matches!(command.write, Write::Link(_));
                Err(if creates_or_links {
                    failure
                } else {
                    foreign_session_failure(&command.write, session)
                })
            }
            // Either the caller did not present the session's token, or the session has been removed. In the latter
            // case there is nothing to link.
            ErrorCode::SessionNotFound => {
                if self.ephemeral.has_session(&scope.tenant, session).await? {
                    return Err(foreign_session_failure(&command.write, session));
                }
                Ok(())
            }
            _ => Err(failure),
        }
    }

    async fn link_ephemeral(
        &self,
        scope: &Scope,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<()> {
        let link = Link {
            session_id: session.clone(),
            identity_id: identity.clone(),
        };
        let command = command_as(scope, Write::Link(link));
        self.ephemeral.write(&command).await.map(|_| ())
    }

    /// Moves a linked session into the ledger, and removes the ephemeral one. Returns `false` if others kept writing to
    /// the ephemeral session, so that a part of it remains.
    async fn move_to_ledger(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<bool> {
        self.interrupt_streams(tenant, session).await?;
        for _ in 0..ROUNDS {
            let retention = self.retention(tenant);
            let extracted = self.ephemeral.extract(tenant, session, retention).await?;
            let Some((edition, adopt)) = extracted else {
                return Ok(true);
            };
            self.adopt(tenant, identity, adopt).await?;
            self.move_events(tenant, session, identity).await?;
            // `forget` returns `false` if the ephemeral session has changed since `edition`, so that more is to be
            // moved.
            if self
                .ephemeral
                .forget(tenant, session, Some(edition))
                .await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Interrupts running recordings, because their recorders may no longer write to the session. Their drafts are kept
    /// as items.
    async fn interrupt_streams(&self, tenant: &TenantId, session: &SessionId) -> Result<()> {
        let operator = Scope::new(tenant.clone(), Viewer::Operator);
        let ephemeral: &dyn Ledger = &self.ephemeral;
        let streams = ephemeral.query_session(&operator, session, move |snapshot, scope, id| {
            let Some(loaded) = snapshot.find(scope, id)? else {
                return Ok(Vec::new());
            };
            let drafts = snapshot.view.drafts(loaded.pk)?.into_iter();
            Ok(drafts.map(|d| (d.turn_id, d.stream)).collect::<Vec<_>>())
        });
        for (turn_id, stream) in streams.await? {
            let interrupt = Interrupt {
                session_id: session.clone(),
                turn_id,
                before: AFTER_ANY_HEARTBEAT,
                stream: Some(stream),
            };
            let command = command_as(&operator, Write::Interrupt(interrupt));
            self.ephemeral.write(&command).await?;
            tracing::info!(tenant_id = %tenant, session_id = %session, %turn_id, %stream,
                "[SESSIONS][LOGIN] a stream was ended by the login");
        }
        Ok(())
    }

    /// Writes the entire session into the ledger, or only its new turns if the ledger already has the session.
    async fn adopt(&self, tenant: &TenantId, identity: &IdentityId, adopt: Adopt) -> Result<()> {
        let owner = Scope::new(tenant.clone(), Viewer::EndUser(Some(identity.clone())));
        let session = adopt.session.session_id.clone();
        let write = Write::Adopt(Arc::new(adopt.clone()));
        let put = self.write_to_ledger(command_as(&owner, write));
        match put.await.map(|stored| stored.outcome) {
            Ok(Outcome::Session {
                session, created, ..
            }) => {
                let (id, key) = (&session.session_id, self.key(&owner, &session.session_id));
                self.known_in_ledger.insert(key, LedgerPresence::default());
                if created {
                    self.tally.count(|counts| counts.logins += 1);
                    self.tally
                        .count(|counts| counts.backfilled_turns += session.turn_count);
                    tracing::info!(tenant_id = %tenant, session_id = %id, turns = session.turn_count,
                        items = session.last_seq, "[SESSIONS][LOGIN]");
                }
                Ok(())
            }
            Ok(_) => Err(unexpected_outcome()),
            Err(failure) if failure.code == ErrorCode::SessionConflict => {
                self.move_late_turns(&owner, &session, &adopt).await
            }
            Err(failure) => Err(failure),
        }
    }

    async fn move_events(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<()> {
        let owner = Scope::new(tenant.clone(), Viewer::EndUser(Some(identity.clone())));
        let ephemeral: &dyn Ledger = &self.ephemeral;
        let mut after = 0;
        loop {
            let page = ephemeral
                .events(&owner, session, after, EVENTS_PER_PAGE)
                .await;
            let (events, next) = match page {
                Err(failure) if failure.code == ErrorCode::SessionNotFound => return Ok(()),
                page => page?,
            };
            for event in events {
                let event = NewEvent {
                    session_id: session.clone(),
                    key: event.key,
                    kind: event.kind,
                    at: Some(event.at),
                    detail: event.detail,
                };
                let write = Write::RecordEvent(Box::new(event));
                self.write_to_ledger(command_as(&owner, write)).await?;
            }
            match next.and_then(|next| next.parse().ok()) {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// The fields that a login keeps when it moves a session of this tenant into the ledger.
    pub(super) fn retention(&self, tenant: &TenantId) -> &FieldRetention {
        self.options
            .keep_by_tenant
            .get(tenant)
            .unwrap_or(&self.options.keep)
    }

    /// Searches the hot store for turns of a session that is in the ledger, and moves them into the ledger. Once this
    /// has succeeded, this process does not search for the session again. A failure is only logged.
    pub(super) async fn search_hot_store(
        &self,
        scope: &Scope,
        session: &SessionId,
        identity: &IdentityId,
    ) {
        let search = async {
            if !self.ephemeral.has_session(&scope.tenant, session).await? {
                return Ok(true);
            }
            if !self.is_owner(scope, session, identity).await? {
                return Ok(false);
            }
            self.move_remaining(scope, session, identity).await
        };
        match self.tally.observe(search.await) {
            Ok(false) => {}
            Ok(true) => {
                let key = self.key(scope, session);
                self.known_in_ledger
                    .insert(key, LedgerPresence { searched: true });
            }
            Err(failure) => {
                tracing::debug!(tenant_id = %scope.tenant, session_id = %session, code = failure.code.as_str(),
                    "[SESSIONS][LOGIN] turns from before the login are searched for later");
            }
        }
    }

    /// Like [`Self::search_hot_store`], on behalf of the session's owner. Call it before a redaction or an erasure by
    /// the operator, because the contents concerned may still be in the hot store.
    pub(super) async fn search_hot_store_for_owner(&self, scope: &Scope, session: &SessionId) {
        let key = self.key(scope, session);
        if self.is_searched(&key) {
            return;
        }
        // A failure of the ledger is ignored here: the write that follows reports it.
        let found = self.ledger.session(scope, session).await;
        if let Some(identity) = found.ok().and_then(|session| session.identity_id) {
            let viewer = Viewer::EndUser(Some(identity.clone()));
            let owner = Scope::new(scope.tenant.clone(), viewer);
            self.search_hot_store(&owner, session, &identity).await;
        }
    }

    /// Moves the part of a session that is left in the hot store. Links that part first, so that the rules check its
    /// token and its owner. Returns `true` if the hot store has nothing more for this owner: no part at all, or only a
    /// part of another owner.
    async fn move_remaining(
        &self,
        scope: &Scope,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<bool> {
        match self.link_ephemeral(scope, session, identity).await {
            Ok(()) => self.move_to_ledger(&scope.tenant, session, identity).await,
            Err(failure) if failure.code.retry() => Err(failure),
            Err(failure) => {
                if !self.ephemeral.has_session(&scope.tenant, session).await? {
                    return Ok(true);
                }
                self.tally.count(|counts| counts.late_refused += 1);
                tracing::warn!(tenant_id = %scope.tenant, session_id = %session, code = failure.code.as_str(),
                    "[SESSIONS][LOGIN] the hot store's part of the session has another owner");
                // A part of another owner stays with that owner. If only the session's token was missing, a later write
                // that presents the token moves the part.
                Ok(failure.code == ErrorCode::SessionLinked)
            }
        }
    }

    /// Whether this identity is the session's owner in the ledger.
    async fn is_owner(
        &self,
        scope: &Scope,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<bool> {
        let (viewer, id, identity) = (scope.clone(), session.clone(), identity.clone());
        let is_owner = self.ledger.query_listed(scope, move |snapshot| {
            let session = snapshot.find_or_tombstone(&viewer, &id)?;
            Ok(match session {
                Some(SessionOrTombstone::Live(s)) => s.row.identity_id == Some(identity),
                _ => false,
            })
        });
        is_owner.await
    }
}
