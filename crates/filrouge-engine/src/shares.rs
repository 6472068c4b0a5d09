//! Shares: secret addresses at which anybody can read a session, or a part of it, for a while.
//!
//! A share is an event of its session, so it is authenticated, shown by the audit, and erased with the session. A note,
//! the directory, says which session an address leads to, and has the hash of the address's secret. A share shows what
//! its creator could read now: it ends when the creator's API key ends or the creator no longer sees the session.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{NewEvent, Write};
use filrouge_store::{Scope, Viewer};
use filrouge_types::{
    ErrorCode, Failure, IdentityId, RawJson, Session, SessionEvent, SessionId, TenantId,
};

use self::directory::{Directory, Entry};
use self::record::{OPENED, REVOKED, SHARED, ShareAct, ShareList, detail, event_key, read_share};
use self::token::PresentedToken;
use crate::api_keys::Role;
use crate::caller::{Caller, CallerRole, Permission};
use crate::engine::{Keys, Shares};
use crate::shared::invalid;

mod directory;
mod record;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use record::share_event;
pub use record::{ListedShare, NewShare, Share};
pub use token::ShareToken;

/// The number of events that one query reads.
const EVENTS_PER_READ: usize = 500;

/// A share that a visitor opened.
#[derive(Debug, Clone)]
pub struct OpenedShare {
    /// The share.
    pub share: Share,
    /// Its session.
    pub session: Session,
    /// The creator, on whose behalf the session is read.
    pub creator: Caller,
}

fn not_found() -> Failure {
    ErrorCode::SessionNotFound.failure("there is no such share")
}

impl Shares {
    /// Shares a session, or a part of it. Only this call returns the token, because the store has only a hash of it.
    /// `needs_credentials`: whether every request to this server needs credentials.
    ///
    /// # Errors
    /// `forbidden` without the permission to write, for a caller whose credentials are no API key, and if sharing is
    /// off; `invalid` for a duration that is too long or a range without items; `limit_exceeded`, `session_not_found`,
    /// `session_ephemeral`, and the ledger's errors.
    pub async fn create(
        &self,
        caller: &Caller,
        session_id: &SessionId,
        new: NewShare,
        needs_credentials: bool,
    ) -> Result<(Share, ShareToken), Failure> {
        let scope = caller.scope(Permission::Write)?;
        self.check_duration(new.valid_for)?;
        let (tenant, identity) = (caller.tenant(), caller.identity());
        let creator = self.creator(tenant, caller.name(), identity, needs_credentials);
        let creator = creator.await?.ok_or_else(|| {
            ErrorCode::Forbidden
                .failure("a share ends with its creator's API key, and the caller has none")
                .with_hint("sign in with an API key")
        })?;
        self.check_in_ledger(&scope, session_id).await?;
        self.ledger.session(&scope, session_id).await?;
        let viewer = creator.scope(Permission::Read)?;
        let session = self.ledger.session(&viewer, session_id).await?;
        let now = self.clock.now();
        let (token, share_id, hash) = ShareToken::random(self.entropy.as_ref())?;
        let share = new.into_share(share_id, caller, &session, now)?;
        let entry = Entry {
            tenant_id: tenant.clone(),
            session_id: session_id.clone(),
            hash,
            expires_at: share.expires_at,
        };
        Directory::add(self.ledger.as_ref(), &share.share_id, &entry, now).await?;
        let data = detail(&share)?;
        self.record(&scope, session_id, SHARED, &share.share_id, data)
            .await?;
        tracing::info!(%session_id, share_id = share.share_id, "[SHARES][CREATE]");
        Ok((share, token))
    }

    /// The longest duration of a share; zero if sharing is off.
    pub fn max_duration(&self) -> Duration {
        self.settings.share_max
    }

    /// The shares of a session, the oldest first, also those that have ended.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub async fn list(
        &self,
        caller: &Caller,
        session_id: &SessionId,
    ) -> Result<Vec<ListedShare>, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let (mut list, mut after) = (ShareList::default(), 0);
        loop {
            let page = self
                .ledger
                .events(&scope, session_id, after, EVENTS_PER_READ);
            let (events, next) = page.await?;
            for event in &events {
                list.add(session_id, event)?;
            }
            after += events.len() as u64;
            if next.is_none() {
                break;
            }
        }
        let directory = Directory::read(self.ledger.as_ref()).await?;
        let (now, mut listed) = (self.clock.now(), list.listed);
        for shown in &mut listed {
            shown.is_usable = shown.revoked_at.is_none()
                && now < shown.share.expires_at
                && directory.0.contains_key(&shown.share.share_id);
        }
        Ok(listed)
    }

    /// Revokes a share permanently; one that is already revoked is not changed. The address becomes unusable even if
    /// the revocation cannot be recorded.
    ///
    /// # Errors
    /// `forbidden` without the permission to write, `invalid` if the session has no such share, `session_not_found`, and
    /// the ledger's errors.
    pub async fn revoke(
        &self,
        caller: &Caller,
        session_id: &SessionId,
        share_id: &str,
    ) -> Result<(), Failure> {
        let scope = caller.scope(Permission::Write)?;
        let shares = self.list(caller, session_id).await?;
        let mut shares = shares.iter();
        let Some(known) = shares.find(|known| known.share.share_id == share_id) else {
            return Err(invalid("the session has no such share"));
        };
        Directory::remove(self.ledger.as_ref(), share_id).await?;
        if known.revoked_at.is_none() {
            let act = ShareAct {
                share_id,
                identity_id: caller.identity(),
                key_id: caller.name(),
            };
            self.record(&scope, session_id, REVOKED, share_id, detail(&act)?)
                .await?;
            tracing::info!(%session_id, share_id, "[SHARES][REVOKE]");
        }
        Ok(())
    }

    /// Whether a token is that of a share that has neither expired nor been revoked. Only the directory is read.
    ///
    /// # Errors
    /// The ledger's errors.
    pub async fn is_known(&self, token: &str) -> Result<bool, Failure> {
        Ok(self.find(token).await?.is_some())
    }

    /// The id of the share with this token, and where its address leads; `None` if there is no such share.
    async fn find<'a>(&self, token: &'a str) -> Result<Option<(&'a str, Entry)>, Failure> {
        let presented = PresentedToken::parse(token).filter(|_| !self.settings.share_max.is_zero());
        let Some(presented) = presented else {
            return Ok(None);
        };
        let (share_id, now) = (presented.share_id, self.clock.now());
        let mut directory = Directory::read(self.ledger.as_ref()).await?;
        let entry = directory.0.remove(share_id);
        let entry = entry.filter(|e| presented.hash.matches(&e.hash) && now < e.expires_at);
        Ok(entry.map(|entry| (share_id, entry)))
    }

    /// Opens the share with this token, and records its first opening. `needs_credentials`: whether every request to this
    /// server needs credentials.
    ///
    /// # Errors
    /// `session_not_found`, with the same text for every cause: an unknown token, a share that has expired or was
    /// revoked, a session that was erased, a creator who may no longer read it. And the ledger's errors.
    pub async fn open(&self, token: &str, needs_credentials: bool) -> Result<OpenedShare, Failure> {
        match self.try_open(token, needs_credentials).await {
            Ok(opened) => opened.ok_or_else(not_found),
            Err(failure) => Err(match failure.code {
                ErrorCode::SessionNotFound | ErrorCode::SessionErased | ErrorCode::Forbidden => {
                    not_found()
                }
                _ => failure,
            }),
        }
    }

    async fn try_open(
        &self,
        token: &str,
        needs_credentials: bool,
    ) -> Result<Option<OpenedShare>, Failure> {
        let Some((share_id, entry)) = self.find(token).await? else {
            return Ok(None);
        };
        let (tenant, session_id) = (&entry.tenant_id, &entry.session_id);
        let operator = Scope::new(tenant.clone(), Viewer::Operator);
        let [shared, opened, revoked] = self.events_of(&operator, session_id, share_id).await?;
        let Some(shared) = shared.filter(|_| revoked.is_none()) else {
            return Ok(None);
        };
        let share = read_share(session_id, &shared)?;
        let (key_id, identity) = (share.key_id.as_deref(), share.identity_id.as_ref());
        let creator = self.creator(tenant, key_id, identity, needs_credentials);
        let Some(creator) = creator.await? else {
            return Ok(None);
        };
        creator.scope(Permission::Write)?;
        let viewer = creator.scope(Permission::Read)?;
        let session = self.ledger.session(&viewer, session_id).await?;
        if opened.is_none() {
            let act = ShareAct {
                share_id,
                identity_id: None,
                key_id: None,
            };
            self.record(&operator, session_id, OPENED, share_id, detail(&act)?)
                .await?;
        }
        Ok(Some(OpenedShare {
            share,
            session,
            creator,
        }))
    }

    /// The caller that the creator of a share is now; `None` if the credentials are no longer valid, or are no API key.
    async fn creator(
        &self,
        tenant: &TenantId,
        key_id: Option<&str>,
        identity: Option<&IdentityId>,
        needs_credentials: bool,
    ) -> Result<Option<Caller>, Failure> {
        let Some(key_id) = key_id else {
            // On a server without keys, the user of a browser is the operator.
            let role = CallerRole::Role(Role::Admin);
            let operator = Caller::new(tenant.clone(), role, identity.cloned());
            return Ok((!needs_credentials).then_some(operator));
        };
        let (keys, now) = (Keys(self.0.clone()).all().await?.keys, self.clock.now());
        let key = keys.into_iter().find(|key| {
            let is_end_user = key.identity_id.is_none() || key.identity_id.as_ref() == identity;
            key.key_id == key_id && key.tenant_id == *tenant && key.is_valid(now) && is_end_user
        });
        Ok(key.map(|key| {
            let role = CallerRole::Role(key.role);
            let creator = Caller::new(tenant.clone(), role, identity.cloned());
            creator.with_name(Some(Arc::from(key.key_id)))
        }))
    }

    /// The events of a share's creation, first opening and revocation.
    async fn events_of(
        &self,
        scope: &Scope,
        session: &SessionId,
        share_id: &str,
    ) -> Result<[Option<SessionEvent>; 3], Failure> {
        let [shared, opened, revoked] =
            [SHARED, OPENED, REVOKED].map(|kind| event_key(kind, share_id));
        let (shared, opened, revoked) = (shared?, opened?, revoked?);
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                Ok([
                    snapshot.event(scope, id, &shared)?,
                    snapshot.event(scope, id, &opened)?,
                    snapshot.event(scope, id, &revoked)?,
                ])
            })
            .await
    }

    /// Records an event of a share. It is written without the caller's fence: a share needs no lease.
    async fn record(
        &self,
        scope: &Scope,
        session: &SessionId,
        kind: &str,
        share_id: &str,
        detail: RawJson,
    ) -> Result<(), Failure> {
        let event = NewEvent {
            session_id: session.clone(),
            key: event_key(kind, share_id)?,
            kind: kind.into(),
            at: None,
            detail: Some(detail),
        };
        let scope = scope.clone().with_fence(None);
        let write = Write::RecordEvent(Box::new(event));
        self.write(&scope, write).await.map(drop)
    }

    fn check_duration(&self, valid_for: Duration) -> Result<(), Failure> {
        let longest = self.settings.share_max;
        if longest.is_zero() {
            let off = ErrorCode::Forbidden.failure("sharing is off on this server");
            return Err(off.with_hint("an operator sets pages.share_max_days"));
        }
        if valid_for.is_zero() || valid_for > longest {
            let seconds = longest.as_secs();
            return Err(invalid(format!("a share is usable for 1 to {seconds} s")));
        }
        Ok(())
    }
}
