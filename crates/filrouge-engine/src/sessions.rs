//! Operations on sessions: create, list, change, link, close, verify.

use filrouge_store::Scope;
use filrouge_store::command::{
    CloseSession, Link, NewSession, Outcome, Patch, SessionFilter, SessionPatch, Viewer, Write,
};
use filrouge_store::read::SessionPage;
use filrouge_store::verify::{Finding, VerificationReport};
use filrouge_types::{
    ErrorCode, IdentityId, RawJson, Result, Session, SessionId, Timestamp, TurnId,
};
use secrecy::{ExposeSecret, SecretString};

use crate::caller::{Caller, Permission};
use crate::calls::fenced_scope;
use crate::engine::Sessions;
use crate::requests::{CloseSession as CloseRequest, CreateSession, PatchSession};
use crate::secrets::Masked;
use crate::shared::{internal, unexpected_outcome};
use crate::written::Written;

impl Sessions {
    /// Creates a session, under a random id if the request has none. If the session exists and the caller may see it,
    /// returns it unchanged as a replay.
    ///
    /// # Errors
    /// `session_conflict` when a session of another owner has the id, `invalid`, and the ledger's errors.
    pub async fn create(
        &self,
        caller: &Caller,
        request: CreateSession,
    ) -> Result<Written<Session>> {
        self.create_with_times(caller, request, None).await
    }

    /// As [`Self::create`], for a session with a past elsewhere: `times` are those of its creation and its last change
    /// there. If the session exists and has changed there since, it gets the new time of its last change.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn import(
        &self,
        caller: &Caller,
        request: CreateSession,
        times: [Timestamp; 2],
    ) -> Result<Written<Session>> {
        self.create_with_times(caller, request, Some(times)).await
    }

    async fn create_with_times(
        &self,
        caller: &Caller,
        request: CreateSession,
        times: Option<[Timestamp; 2]>,
    ) -> Result<Written<Session>> {
        let scope = &caller.scope(Permission::Write)?;
        let limits = self.limits();
        limits.check_metadata(request.metadata.as_ref(), "metadata")?;
        limits.check_label(request.title.as_deref(), "title")?;
        limits.check_label(request.team_id.as_deref(), "team_id")?;
        let session_id = match request.session_id {
            Some(id) => id,
            None => self.random_session_id()?,
        };
        let mut title = request.title;
        let mut metadata = self.hash_addresses(&scope.tenant, request.metadata);
        let ((), masked) = self.mask_with(self.masker(None), |masker| {
            masker.mask_label(&mut title, "title")?;
            masker.mask_data(&mut metadata, "metadata")
        })?;
        let new = NewSession {
            session_id,
            parent_session_id: request.parent_session_id,
            project_id: request.project_id,
            team_id: request.team_id,
            title,
            metadata: metadata.unwrap_or_else(|| RawJson::from_checked("{}")),
            times,
        };
        let stored = self.write(scope, Write::CreateSession(new)).await?;
        match stored.outcome {
            Outcome::Session {
                session, created, ..
            } => {
                let written = Written::new(*session, !created, stored.durability);
                Ok(self.count_masked(written, &masked))
            }
            _ => Err(unexpected_outcome()),
        }
    }

    fn random_session_id(&self) -> Result<SessionId> {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes)?;
        // The id begins with the time, so that ids generated one after the other are adjacent in an index.
        let millis = self.clock.now().as_millis().to_be_bytes();
        bytes[..6].copy_from_slice(&millis[2..]);
        SessionId::new(TurnId::from_bytes(bytes).to_string()).map_err(|e| internal(e.to_string()))
    }

    /// Changes those fields of a session that the request contains. If `versions` is given, the session's version must
    /// be one of them.
    ///
    /// # Errors
    /// `precondition_failed` if the version is none of them, `session_not_found`, `session_erased`, `invalid`,
    /// `limit_exceeded`, the errors of fences, and the ledger's.
    pub async fn patch(
        &self,
        caller: &Caller,
        session_id: SessionId,
        mut request: PatchSession,
        versions: Option<Vec<[u8; 16]>>,
    ) -> Result<Written<Session>> {
        let scope = &caller.scope(Permission::Write)?;
        let limits = self.limits();
        let text = |field: &Option<Option<Box<str>>>| field.clone().flatten();
        let scope = &fenced_scope(scope, request.fence, request.release)?;
        limits.check_label(text(&request.title).as_deref(), "title")?;
        limits.check_label(text(&request.state).as_deref(), "state")?;
        let metadata = request.metadata;
        limits.check_metadata(metadata.iter().flatten().next(), "metadata")?;
        let mut metadata = metadata
            .map(|value| value.map(|patch| self.hash_addresses_in_patch(&scope.tenant, patch)));
        let ((), masked) = self.mask_with(self.masker(None), |masker| {
            if let Some(title) = &mut request.title {
                masker.mask_label(title, "title")?;
            }
            if let Some(state) = &mut request.state {
                masker.mask_label(state, "state")?;
            }
            match &mut metadata {
                Some(patch) => masker.mask_data(patch, "metadata"),
                None => Ok(()),
            }
        })?;
        let patch = Patch {
            session_id,
            patch: SessionPatch {
                title: request.title,
                status: request.status,
                state: request.state,
                project_id: request.project_id,
                metadata,
            },
            versions,
            metadata_max: limits.metadata_bytes,
        };
        let write = Write::Patch(Box::new(patch));
        self.write_session(scope, write, &masked).await
    }

    /// Closes a session: it accepts no new turns, while open ones may still end. Closing it again changes nothing.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `limit_exceeded`, the errors of fences, and the ledger's.
    pub async fn close(
        &self,
        caller: &Caller,
        session_id: SessionId,
        request: CloseRequest,
    ) -> Result<Written<Session>> {
        let scope = &caller.scope(Permission::Write)?;
        let mut reason = request.reason;
        self.limits().check_label(reason.as_deref(), "reason")?;
        let scope = &fenced_scope(scope, request.fence, request.release)?;
        let ((), masked) = self.mask_with(self.masker(None), |masker| {
            masker.mask_label(&mut reason, "reason")
        })?;
        let close = Write::CloseSession(CloseSession { session_id, reason });
        self.write_session(scope, close, &masked).await
    }

    /// Makes an identity the owner of an anonymous session (DESIGN §7). If it is the owner already, nothing changes.
    ///
    /// # Errors
    /// `forbidden` if the caller acts for an end user other than `identity_id`, `session_linked` if the session has
    /// another owner, `session_not_found`, and the ledger's errors.
    pub async fn link(
        &self,
        caller: &Caller,
        session_id: SessionId,
        identity_id: IdentityId,
    ) -> Result<Written<Session>> {
        let scope = &caller.scope(Permission::Link)?;
        let identity = caller.identity();
        if identity.is_some_and(|identity| *identity != identity_id) {
            return Err(ErrorCode::Forbidden
                .failure("the request is on behalf of another end user than its identity_id"));
        }
        let link = Link {
            session_id,
            identity_id,
        };
        self.write_session(scope, Write::Link(link), &Masked::default())
            .await
    }

    /// Returns the session with this id.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's errors.
    pub async fn get(&self, caller: &Caller, id: &SessionId) -> Result<Session> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.session(scope, id).await
    }

    /// A page of the sessions that the caller may see, in the filter's order.
    ///
    /// # Errors
    /// `invalid` for a bad cursor, `integrity_error`, and the ledger's errors.
    pub async fn list(
        &self,
        caller: &Caller,
        filter: SessionFilter,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<SessionPage> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.sessions(scope, filter, cursor, limit).await
    }

    /// As [`Self::list`], with the sessions' agents; but leaves out damaged sessions and agents, and returns what was
    /// found.
    ///
    /// # Errors
    /// As [`Self::list`], if more than these sessions could be missing.
    pub async fn list_with_findings(
        &self,
        caller: &Caller,
        filter: SessionFilter,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(SessionPage, Vec<Finding>)> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .list_sessions(scope, filter, cursor, limit)
            .await
    }

    /// Verifies that nothing in a session was changed since it was written. The report lists the findings.
    ///
    /// # Errors
    /// `session_not_found`, `session_ephemeral`, and the store's errors if it does not answer.
    pub async fn verify(&self, caller: &Caller, id: SessionId) -> Result<VerificationReport> {
        let scope = caller.scope(Permission::Read)?;
        self.check_in_ledger(&scope, &id).await?;
        self.ledger.verify(Some((scope, id))).await
    }

    /// Generates a session token for a session that the caller is about to create, and adds it to `caller`; later
    /// access to the session then requires the token. `None` if the session needs no token, or the caller has sent one.
    ///
    /// # Errors
    /// `internal` when the system provides no randomness.
    pub fn generate_token(&self, caller: &mut Caller) -> Result<Option<SecretString>> {
        // A session that an operator creates is anonymous as well, because it has no owner.
        let anonymous = caller.identity().is_none();
        if !self.settings.require_session_token || !anonymous || caller.token().is_some() {
            return Ok(None);
        }
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes)?;
        let text = SecretString::from(hex::encode(bytes));
        self.add_token(caller, text.expose_secret());
        Ok(Some(text))
    }

    /// Adds to `caller` the session token that it has presented.
    pub fn add_token(&self, caller: &mut Caller, text: &str) {
        let token = self.ledger.keyring().session_token(text);
        *caller = caller.clone().with_token(Some(token));
    }

    /// Whether an anonymous caller can see the session only with this caller's token. The result is the same if this
    /// caller is an operator, who needs no token.
    pub async fn needs_token(&self, caller: &Caller, id: &SessionId) -> bool {
        let without_token = Scope::new(caller.tenant().clone(), Viewer::EndUser(None));
        let with_token = Scope {
            token: caller.token(),
            ..without_token.clone()
        };
        // If the ledger does not answer, the result is true: a superfluous token does no harm, while a missing one
        // would make the session inaccessible.
        self.ledger.session(&without_token, id).await.is_err()
            && match self.ledger.session(&with_token, id).await {
                Ok(_) => true,
                Err(failure) => failure.code != ErrorCode::SessionNotFound,
            }
    }

    async fn write_session(
        &self,
        scope: &Scope,
        write: Write,
        masked: &Masked,
    ) -> Result<Written<Session>> {
        let stored = self.write(scope, write).await?;
        match stored.outcome {
            Outcome::Session { session, .. } => {
                let written = Written::new(*session, false, stored.durability);
                Ok(self.count_masked(written, masked))
            }
            _ => Err(unexpected_outcome()),
        }
    }
}
