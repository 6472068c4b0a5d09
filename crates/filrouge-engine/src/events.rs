//! Events of sessions: counted facts, each recorded once per key.

use filrouge_store::Scope;
use filrouge_store::command::{NewEvent, Outcome, Write};
use filrouge_types::{EventKey, Failure, INTERNAL_EVENT_PREFIX, RawJson, SessionEvent, SessionId};

use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Events;
use crate::requests::RecordEvent;
use crate::shared::{internal, invalid, unexpected_outcome};
use crate::written::Written;

impl Events {
    /// Records an event of a session, once per key.
    ///
    /// # Errors
    /// `idempotency_mismatch`, `session_not_found`, `limit_exceeded`, `invalid` (for example for a key that is reserved
    /// for filrouge's own events), and the ledger's errors.
    pub async fn record(
        &self,
        caller: &Caller,
        session_id: SessionId,
        request: RecordEvent,
    ) -> Result<Written<SessionEvent>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        if request.key.is_internal() {
            let detail =
                format!("keys that begin with {INTERNAL_EVENT_PREFIX:?} are filrouge's own");
            return Err(invalid(detail).with_hint("give it another key"));
        }
        self.record_unchecked_event(scope, session_id, request)
            .await
    }

    /// A page of a session's events after event number `after`, in the order in which they were recorded; and the next
    /// page's cursor, `None` if this is the last page.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub async fn list(
        &self,
        caller: &Caller,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<SessionEvent>, Option<String>), Failure> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger.events(scope, session, after, limit).await
    }
}

impl Core {
    /// Records an event of filrouge itself: at most one per session for each pair of `kind` and `instance`.
    pub(crate) async fn record_engine_event(
        &self,
        scope: &Scope,
        session: &SessionId,
        kind: &str,
        instance: &str,
        detail: Option<RawJson>,
    ) -> Result<(), Failure> {
        let key = EventKey::internal(kind, instance).map_err(|e| internal(e.to_string()))?;
        let event = RecordEvent {
            key,
            kind: kind.into(),
            at: None,
            detail,
        };
        self.record_unchecked_event(scope, session.clone(), event)
            .await
            .map(drop)
    }

    /// As [`Events::record`], but also accepts events of filrouge itself, and writes these without the caller's fence.
    async fn record_unchecked_event(
        &self,
        scope: &Scope,
        session_id: SessionId,
        request: RecordEvent,
    ) -> Result<Written<SessionEvent>, Failure> {
        let scope = &match request.key.is_internal() {
            true => scope.clone().with_fence(None),
            false => scope.clone(),
        };
        let limits = self.limits();
        limits.check_label(Some(&request.kind), "kind")?;
        if request.kind.is_empty() {
            return Err(invalid("kind must not be empty"));
        }
        limits.check_metadata(request.detail.as_ref(), "detail")?;
        let mut kind = Some(request.kind);
        let mut detail = self.hash_addresses(&scope.tenant, request.detail);
        let ((), masked) = self.mask_with(self.masker(None), |masker| {
            masker.mask_label(&mut kind, "kind")?;
            masker.mask_data(&mut detail, "detail")
        })?;
        let event = NewEvent {
            session_id,
            key: request.key,
            kind: kind.unwrap_or_default(),
            at: request.at,
            detail,
        };
        let stored = self
            .write(scope, Write::RecordEvent(Box::new(event)))
            .await?;
        let Outcome::Event { event, created } = stored.outcome else {
            return Err(unexpected_outcome());
        };
        let written = Written::new(*event, !created, stored.durability);
        Ok(self.count_masked(written, &masked))
    }
}
