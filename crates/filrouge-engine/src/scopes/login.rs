//! Login: an ephemeral session gets its owner and goes into the ledger, whole (DESIGN §7).
//!
//! Three steps, each of which may be the last one before a kill: the link, which the rules give to one identity alone; the
//! session as it is, put into the ledger in one transaction; and the end of the ephemeral one. Whatever the owner writes
//! next goes on from there.

use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_store::command::{
    Adopt, Command, Interrupt, Link, NewEvent, Outcome, SINCE_EVER, Scope, Viewer, Write,
};
use filrouge_store::hot::Keep;
use filrouge_types::{ErrorCode, Failure, IdentityId, SessionEvent, SessionId, TenantId};

use super::TwoScopes;
use super::route::{InLedger, foreign, makes};
use super::tally::is_hot;

/// How often what is new is fetched again before the next write has to go on.
const ROUNDS: usize = 8;
/// Events read at once.
const EVENTS: usize = 500;

impl TwoScopes {
    /// Takes the session of a command into the ledger, if the hot store has it. Without an answer of the hot store a
    /// write that makes its session goes on alone; what is left is looked for later.
    pub(super) async fn login(
        &self,
        command: &Command,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<(), Failure> {
        let scope = &command.scope;
        let logged_in = async {
            if !self.ephemeral.holds(&scope.tenant, session).await? {
                return Ok(());
            }
            self.link(command, session, identity).await?;
            self.move_in(&scope.tenant, session, identity)
                .await
                .map(|_| ())
        };
        match self.tally.noted(logged_in.await) {
            Err(failure) if is_hot(&failure) => {
                let key = self.key(scope, session);
                if makes(&command.write) || self.known.get(&key).is_some() {
                    return Ok(());
                }
                Err(failure)
            }
            done => done,
        }
    }

    /// The rules say whose it is from now on.
    async fn link(
        &self,
        command: &Command,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<(), Failure> {
        let scope = &command.scope;
        let Err(failure) = self.link_ephemeral(scope, session, identity).await else {
            return Ok(());
        };
        match failure.code {
            ErrorCode::SessionLinked => {
                let tells = makes(&command.write) || matches!(command.write, Write::Link(_));
                Err(if tells {
                    failure
                } else {
                    foreign(&command.write, session)
                })
            }
            // Its secret was not shown; or it has gone, and then there is nothing to link.
            ErrorCode::SessionNotFound => {
                if self.ephemeral.holds(&scope.tenant, session).await? {
                    return Err(foreign(&command.write, session));
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
    ) -> Result<(), Failure> {
        let link = Link {
            session_id: session.clone(),
            identity_id: identity.clone(),
        };
        let command = Command {
            scope: scope.clone(),
            write: Write::Link(link),
        };
        self.ephemeral.write(&command).await.map(|_| ())
    }

    /// Takes a linked session into the ledger, and ends the ephemeral one; `false` when others have written to it all the
    /// time and some of it is left.
    async fn move_in(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<bool, Failure> {
        self.end_streams(tenant, session).await?;
        for _ in 0..ROUNDS {
            let keep = self.keep(tenant);
            let taken = self.ephemeral.take_out(tenant, session, keep).await?;
            let Some((edition, adopt)) = taken else {
                return Ok(true);
            };
            self.adopt(tenant, identity, adopt).await?;
            self.move_events(tenant, session, identity).await?;
            // Unless it is in that state any more: then there is more to take.
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

    /// Ends the streams that are being recorded: who records them may not write to the session any more. What they have
    /// shown stays.
    async fn end_streams(&self, tenant: &TenantId, session: &SessionId) -> Result<(), Failure> {
        let operator = Scope::new(tenant.clone(), Viewer::Operator);
        let ephemeral: &dyn Ledger = &self.ephemeral;
        let (viewer, id) = (operator.clone(), session.clone());
        let streams = ephemeral.ask_in(&operator, session, move |sight| {
            let Some(loaded) = sight.find(&viewer, &id)? else {
                return Ok(Vec::new());
            };
            let drafts = sight.view.drafts(loaded.pk)?.into_iter();
            Ok(drafts.map(|d| (d.turn_id, d.stream)).collect::<Vec<_>>())
        });
        for (turn_id, stream) in streams.await? {
            let interrupt = Interrupt {
                session_id: session.clone(),
                turn_id,
                before: SINCE_EVER,
                stream: Some(stream),
            };
            let command = Command {
                scope: operator.clone(),
                write: Write::Interrupt(interrupt),
            };
            self.ephemeral.write(&command).await?;
            tracing::info!(tenant_id = %tenant, session_id = %session, %turn_id, %stream,
                "[SESSIONS][LOGIN] a stream was ended by the login");
        }
        Ok(())
    }

    /// Puts the whole session into the ledger, or turn by turn what is new when the ledger has one already.
    async fn adopt(
        &self,
        tenant: &TenantId,
        identity: &IdentityId,
        adopt: Adopt,
    ) -> Result<(), Failure> {
        let owner = Scope::new(tenant.clone(), Viewer::EndUser(Some(identity.clone())));
        let session = adopt.session.session_id.clone();
        let write = Write::Adopt(Arc::new(adopt.clone()));
        let put = self.put(Command {
            scope: owner.clone(),
            write,
        });
        match put.await.map(|stored| stored.outcome) {
            Ok(Outcome::Session {
                session, created, ..
            }) => {
                let (id, key) = (&session.session_id, self.key(&owner, &session.session_id));
                self.known.insert(key, InLedger::default());
                if created {
                    self.tally.count(|counts| counts.logins += 1);
                    self.tally
                        .count(|counts| counts.backfilled_turns += session.turn_count);
                    tracing::info!(tenant_id = %tenant, session_id = %id, turns = session.turn_count,
                        items = session.last_seq, "[SESSIONS][LOGIN]");
                }
                Ok(())
            }
            Ok(_) => Err(crate::core::unexpected()),
            Err(failure) if failure.code == ErrorCode::SessionConflict => {
                self.bring_late(&owner, &session, &adopt).await
            }
            Err(failure) => Err(failure),
        }
    }

    async fn move_events(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<(), Failure> {
        let owner = Scope::new(tenant.clone(), Viewer::EndUser(Some(identity.clone())));
        let ephemeral: &dyn Ledger = &self.ephemeral;
        let mut after = 0;
        loop {
            let page = ephemeral.events(&owner, session, after, EVENTS).await;
            let (events, next) = match page {
                Err(failure) if failure.code == ErrorCode::SessionNotFound => return Ok(()),
                page => page?,
            };
            for event in events {
                self.put(Command {
                    scope: owner.clone(),
                    write: Write::RecordEvent(Box::new(as_new(session, event))),
                })
                .await?;
            }
            match next.and_then(|next| next.parse().ok()) {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// What is kept of a tenant's sessions.
    pub(super) fn keep(&self, tenant: &TenantId) -> &Keep {
        self.options
            .keep_in
            .get(tenant)
            .unwrap_or(&self.options.keep)
    }

    /// Looks for what the hot store still has of a session that is in the ledger, and brings it there: once in this
    /// process, if the hot store answers.
    pub(super) async fn search(&self, scope: &Scope, session: &SessionId, identity: &IdentityId) {
        let searched = async {
            if !self.ephemeral.holds(&scope.tenant, session).await? {
                return Ok(true);
            }
            if !self.owns(scope, session, identity).await? {
                return Ok(false);
            }
            self.bring(scope, session, identity).await
        };
        match self.tally.noted(searched.await) {
            Ok(false) => {}
            Ok(true) => {
                let key = self.key(scope, session);
                self.known.insert(key, InLedger { searched: true });
            }
            Err(failure) => {
                tracing::debug!(tenant_id = %scope.tenant, session_id = %session, code = failure.code.as_str(),
                    "[SESSIONS][LOGIN] what was said before the login is looked for later");
            }
        }
    }

    /// As [`Self::search`], on behalf of the session's owner: what the operator redacts may not be in the ledger yet.
    pub(super) async fn search_for_owner(&self, scope: &Scope, session: &SessionId) {
        let key = self.key(scope, session);
        if self.known.get(&key).is_some_and(|known| known.searched) {
            return;
        }
        // What the ledger does not say now it says to the write that follows.
        let found = self.ledger.session(scope, session).await;
        if let Some(identity) = found.ok().and_then(|session| session.identity_id) {
            let viewer = Viewer::EndUser(Some(identity.clone()));
            let owner = Scope::new(scope.tenant.clone(), viewer);
            self.search(&owner, session, &identity).await;
        }
    }

    /// Links what is left, for its secret and other owners are to be respected, and moves it; whether nothing is left that
    /// the owner may have.
    async fn bring(
        &self,
        scope: &Scope,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<bool, Failure> {
        match self.link_ephemeral(scope, session, identity).await {
            Ok(()) => self.move_in(&scope.tenant, session, identity).await,
            Err(failure) if failure.code.retry() => Err(failure),
            Err(failure) => {
                if !self.ephemeral.holds(&scope.tenant, session).await? {
                    return Ok(true);
                }
                self.tally.count(|counts| counts.late_refused += 1);
                tracing::warn!(tenant_id = %scope.tenant, session_id = %session, code = failure.code.as_str(),
                    "[SESSIONS][LOGIN] what the hot store has of the session is not its owner's");
                // What is somebody else's stays theirs. The rest comes with a write that shows the secret.
                Ok(failure.code == ErrorCode::SessionLinked)
            }
        }
    }

    /// Whether the ledger says that the session is this identity's.
    async fn owns(
        &self,
        scope: &Scope,
        session: &SessionId,
        identity: &IdentityId,
    ) -> Result<bool, Failure> {
        let (of, id, identity) = (scope.clone(), session.clone(), identity.clone());
        let found = self.ledger.ask(move |sight| {
            let found = sight.find_or_gone(&of, &id)?;
            Ok(match found {
                Some(filrouge_store::read::Gone::Not(s)) => s.row.identity_id == Some(identity),
                _ => false,
            })
        });
        found.await
    }
}

fn as_new(session: &SessionId, event: SessionEvent) -> NewEvent {
    NewEvent {
        session_id: session.clone(),
        key: event.key,
        kind: event.kind,
        at: Some(event.at),
        detail: event.detail,
    }
}
