//! Sessions as a whole: made, changed, linked, ended, erased; and their events.

use filrouge_store::command::{
    CloseSession, Erase, Erased, Link, NewEvent, NewSession, Outcome, Patch, Scope, SessionFilter,
    SessionPatch, Viewer, Write,
};
use filrouge_types::{
    ErrorCode, EventKey, Failure, IdentityId, OWN_EVENTS, RawJson, Session, SessionEvent,
    SessionId, Timestamp, TurnId,
};

use serde::Serialize;

use crate::calls::held;
use crate::engine::{Engine, unexpected};
use crate::requests::{CloseSession as CloseRequest, CreateSession, PatchSession, RecordEvent};
use crate::scopes::HotReceipt;
use crate::written::Written;

/// Sessions erased by one look at a list.
const ERASED_AT_ONCE: usize = 100;

/// What was erased, for whoever asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErasureReceipt {
    /// The session.
    pub session_id: SessionId,
    /// When.
    pub erased_at: Timestamp,
    /// How many items it had.
    pub items: u64,
    /// How many turns it had.
    pub turns: u64,
    /// Where it was erased.
    pub stores: Vec<StoreReceipt>,
}

/// One store's part in an erasure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoreReceipt {
    /// Which store.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "ledger"))]
    pub store: &'static str,
    /// What became of the session in it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "erased"))]
    pub status: &'static str,
}

impl ErasureReceipt {
    fn new(session_id: SessionId, erased: Erased, hot: Option<HotReceipt>) -> Self {
        let mut stores = vec![StoreReceipt {
            store: "ledger",
            status: "erased",
        }];
        stores.extend(hot.map(|receipt| StoreReceipt {
            store: "hot",
            status: receipt.as_str(),
        }));
        Self {
            session_id,
            erased_at: erased.at,
            items: erased.items,
            turns: erased.turns,
            stores,
        }
    }
}

impl Engine {
    /// Makes a session; one that is the caller's already is given back as a replay.
    ///
    /// # Errors
    /// `session_conflict` when the id is somebody else's, `invalid`, and the ledger's.
    pub async fn create_session(
        &self,
        scope: &Scope,
        request: CreateSession,
    ) -> Result<Written<Session>, Failure> {
        self.settings
            .limits
            .metadata(request.metadata.as_ref(), "metadata")?;
        self.settings
            .limits
            .label(request.title.as_deref(), "title")?;
        self.settings
            .limits
            .label(request.team_id.as_deref(), "team_id")?;
        let session_id = match request.session_id {
            Some(id) => id,
            None => self.random_session_id()?,
        };
        let new = NewSession {
            session_id,
            parent_session_id: request.parent_session_id,
            project_id: request.project_id,
            team_id: request.team_id,
            title: request.title,
            metadata: self
                .hashed(&scope.tenant, request.metadata)
                .unwrap_or_else(|| RawJson::from_checked("{}")),
        };
        let stored = self.write(scope, Write::CreateSession(new)).await?;
        match stored.outcome {
            Outcome::Session {
                session, created, ..
            } => Ok(Written::new(*session, !created, stored.durability)),
            _ => Err(unexpected()),
        }
    }

    fn random_session_id(&self) -> Result<SessionId, Failure> {
        let internal = |e: String| Failure::new(ErrorCode::Internal, e);
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes).map_err(internal)?;
        // Sortable by time, so that ids made one after the other lie together in an index.
        let millis = self.clock.now().as_millis().to_be_bytes();
        bytes[..6].copy_from_slice(&millis[2..]);
        SessionId::new(TurnId::from_bytes(bytes).to_string()).map_err(|e| internal(e.to_string()))
    }

    /// Changes what is listed of a session. With `versions` only if it is in one of them.
    ///
    /// # Errors
    /// `precondition_failed`, `session_not_found`, `session_erased`, `invalid`, `limit_exceeded`, and the ledger's.
    pub async fn patch_session(
        &self,
        scope: &Scope,
        session_id: SessionId,
        request: PatchSession,
        versions: Option<Vec<[u8; 16]>>,
    ) -> Result<Written<Session>, Failure> {
        let limits = &self.settings.limits;
        let text = |field: &Option<Option<Box<str>>>| field.clone().flatten();
        let scope = &held(scope, request.fence, request.release)?;
        limits.label(text(&request.title).as_deref(), "title")?;
        limits.label(text(&request.state).as_deref(), "state")?;
        let metadata = request.metadata;
        limits.metadata(metadata.iter().flatten().next(), "metadata")?;
        let metadata = metadata.map(|all| all.map(|patch| self.hashed_patch(&scope.tenant, patch)));
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
        self.write_session(scope, Write::Patch(Box::new(patch)))
            .await
    }

    /// Ends a session: no turn begins in it any more, those that are open may end. Doing it again changes nothing.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `limit_exceeded`, those of fences, and the ledger's.
    pub async fn close_session(
        &self,
        scope: &Scope,
        session_id: SessionId,
        request: CloseRequest,
    ) -> Result<Written<Session>, Failure> {
        let reason = request.reason;
        self.settings.limits.label(reason.as_deref(), "reason")?;
        let scope = &held(scope, request.fence, request.release)?;
        let close = CloseSession { session_id, reason };
        self.write_session(scope, Write::CloseSession(close)).await
    }

    /// Gives an anonymous session its owner (DESIGN §7). The owner it has already is given again.
    ///
    /// # Errors
    /// `session_linked` when it has another owner, `session_not_found`, and the ledger's.
    pub async fn link_session(
        &self,
        scope: &Scope,
        session_id: SessionId,
        identity_id: IdentityId,
    ) -> Result<Written<Session>, Failure> {
        let link = Link {
            session_id,
            identity_id,
        };
        self.write_session(scope, Write::Link(link)).await
    }

    /// Erases a session: nothing stays of it but its name, under which no session is made again. Doing it again
    /// gives the first receipt (DESIGN §9).
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's.
    pub async fn erase_session(
        &self,
        scope: &Scope,
        session_id: SessionId,
    ) -> Result<Written<ErasureReceipt>, Failure> {
        let erase = Erase {
            session_id: session_id.clone(),
        };
        let stored = self.write(scope, Write::Erase(erase)).await?;
        match stored.outcome {
            Outcome::Erased(erased) => {
                let (items, turns) = (erased.items, erased.turns);
                tracing::info!(%session_id, items, turns, "[SESSIONS][ERASE]");
                let hot = self.tiers().map(|tiers| tiers.receipt(scope, &session_id));
                let receipt = ErasureReceipt::new(session_id, erased, hot);
                Ok(Written::new(receipt, false, stored.durability))
            }
            _ => Err(unexpected()),
        }
    }

    /// Erases all sessions of an identity, or of the whole tenant, one after the other; `each` is told of every
    /// one. After a failure, doing it again goes on with those that are left.
    ///
    /// # Errors
    /// `forbidden` when it is not the operator who asks, those of `each`, and the ledger's.
    pub async fn erase_sessions(
        &self,
        scope: &Scope,
        identity_id: Option<IdentityId>,
        mut each: impl FnMut(&ErasureReceipt) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        if scope.viewer != Viewer::Operator {
            return Err(Failure::new(
                ErrorCode::Forbidden,
                "only the operator erases many sessions at once",
            ));
        }
        let filter = SessionFilter {
            identity_id,
            ..SessionFilter::default()
        };
        let mut count = 0;
        loop {
            // What was erased is not listed any more, so the first page is always the next one.
            let ledger = self.ledger();
            let page = ledger.sessions(scope, filter.clone(), None, ERASED_AT_ONCE);
            let (sessions, _) = page.await?;
            if sessions.is_empty() {
                return Ok(count);
            }
            for session in sessions {
                let receipt = self.erase_session(scope, session.session_id).await?;
                each(&receipt)?;
                count += 1;
            }
        }
    }

    /// Records an event of a session, once for each key.
    ///
    /// # Errors
    /// `idempotency_mismatch`, `session_not_found`, `invalid`, also for a key that filrouge's own events have,
    /// `limit_exceeded`, and the ledger's.
    pub async fn record_event(
        &self,
        scope: &Scope,
        session_id: SessionId,
        request: RecordEvent,
    ) -> Result<Written<SessionEvent>, Failure> {
        if request.key.is_own() {
            let what = format!("keys that begin with {OWN_EVENTS:?} are filrouge's own");
            return Err(Failure::new(ErrorCode::Invalid, what).with_hint("give it another key"));
        }
        self.record_any_event(scope, session_id, request).await
    }

    /// Tells of something that filrouge itself has seen: once for each `of` of this kind in a session.
    pub(crate) async fn record_own_event(
        &self,
        scope: &Scope,
        session: &SessionId,
        kind: &str,
        of: &str,
        detail: Option<RawJson>,
    ) -> Result<(), Failure> {
        let key = EventKey::own(kind, of)
            .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
        let event = RecordEvent {
            key,
            kind: kind.into(),
            at: None,
            detail,
        };
        self.record_any_event(scope, session.clone(), event).await?;
        Ok(())
    }

    /// As [`Self::record_event`], also for filrouge's own events, which are told whoever holds the session.
    async fn record_any_event(
        &self,
        scope: &Scope,
        session_id: SessionId,
        request: RecordEvent,
    ) -> Result<Written<SessionEvent>, Failure> {
        let own = request.key.is_own();
        let scope = &match own {
            true => scope.clone().with_hold(None),
            false => scope.clone(),
        };
        let limits = &self.settings.limits;
        limits.label(Some(&request.kind), "kind")?;
        if request.kind.is_empty() {
            return Err(Failure::new(ErrorCode::Invalid, "kind must not be empty"));
        }
        limits.metadata(request.detail.as_ref(), "detail")?;
        let event = NewEvent {
            session_id,
            key: request.key,
            kind: request.kind,
            at: request.at,
            detail: self.hashed(&scope.tenant, request.detail),
        };
        let stored = self
            .write(scope, Write::RecordEvent(Box::new(event)))
            .await?;
        match stored.outcome {
            Outcome::Event { event, created } => {
                Ok(Written::new(*event, !created, stored.durability))
            }
            _ => Err(unexpected()),
        }
    }

    async fn write_session(
        &self,
        scope: &Scope,
        write: Write,
    ) -> Result<Written<Session>, Failure> {
        let stored = self.write(scope, write).await?;
        match stored.outcome {
            Outcome::Session { session, .. } => {
                Ok(Written::new(*session, false, stored.durability))
            }
            _ => Err(unexpected()),
        }
    }
}
