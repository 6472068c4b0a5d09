//! Admits the webhooks of a live call (DESIGN §6). Webhooks of one call are handled one at a time. If a webhook is
//! delivered several times, at most one delivery does the work.

use filrouge_store::command::Scope;
use filrouge_types::{ErrorCode, Failure, RequestId, SessionId, Turn, TurnId};
use tokio::time::Instant;

use super::lease::warn_if_down;
use super::requests::ResumeSession;
use super::resume::Resumed;
use super::unclaimed::Unclaimed;
use super::words::word;
use crate::caller::{Caller, Permission};
use crate::engine::Calls;
use crate::turns::{OnBusy, busy};
use crate::written::Written;

/// A webhook of a call.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The call's session.
    pub session: SessionId,
    /// The webhook's idempotency key: the same for each delivery of the webhook.
    pub request: RequestId,
    /// The request with which the session is resumed.
    pub resume: ResumeSession,
    /// The reaction if another caller works on the same webhook.
    pub on_busy: OnBusy,
}

/// How the caller proceeds with a webhook.
#[derive(Debug)]
pub enum Entered {
    /// The caller has the session's lease and must work on the webhook. The value is all that it needs to resume. The
    /// caller starts the turn under the lease's fence, and releases the lease with the last write of its work.
    Work(Box<Resumed>),
    /// The webhook was already answered, by this turn.
    Answered(Box<Turn>),
    /// Another caller works on the webhook, and this caller does not wait for the answer.
    Busy,
}

impl Calls {
    /// Enters a webhook: acquires the session's lease and returns all that is needed to resume, unless the same webhook
    /// was already answered or another caller works on it.
    ///
    /// # Errors
    /// `lease_timeout` if another webhook of the call had the lease for the entire wait; `turn_busy` if another caller
    /// works on this webhook, and `on_busy` is `Reject` or its wait was too short; `session_terminated`, and those of
    /// [`Self::resume`].
    pub async fn enter(&self, caller: &Caller, webhook: Webhook) -> Result<Entered, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let Webhook {
            session,
            request,
            mut resume,
            on_busy,
        } = webhook;
        let waited = !self.lease_wait(resume.wait_ms)?.is_zero();
        let mut until = None;
        loop {
            // A repeated delivery acquires no lease, and does not count as a resume.
            if let Some(turn) = self.answered(scope, &session, &request).await? {
                return Ok(Entered::Answered(Box::new(turn)));
            }
            let failure = match self.resume_unclaimed(scope, &session, &resume).await {
                Ok(held) => return self.entered(scope, &session, &request, held).await,
                Err(failure) if cannot_acquire(failure.code) => failure,
                Err(failure) => return Err(failure),
            };
            // The webhook may have been answered by now, or the lease's holder may be working on it.
            let turn = match self.turn_of(scope, &session, &request).await? {
                Some(turn) if turn.status.is_closed() => {
                    return Ok(Entered::Answered(Box::new(turn)));
                }
                Some(turn) if failure.code == ErrorCode::LeaseTimeout => turn,
                _ => {
                    let waited = waited || until.is_some();
                    let refused = (&*resume.holder, waited, &failure);
                    self.report_refused(scope, &session, refused).await;
                    return Err(failure);
                }
            };
            let wait = match on_busy {
                OnBusy::NoContent => return Ok(Entered::Busy),
                OnBusy::Reject => return Err(busy(&turn)),
                OnBusy::Wait(wait) => wait,
            };
            let until = *until.get_or_insert_with(|| Instant::now() + wait);
            let id = turn.turn_id;
            match self.ended_or_free(scope, (&session, id), until).await? {
                Some(turn) if turn.status.is_closed() => {
                    return Ok(Entered::Answered(Box::new(turn)));
                }
                Some(turn) => return Err(busy(&turn)),
                // The session is free, but the turn is still open: its caller is gone, so this caller tries to do the
                // work.
                None => resume.wait_ms = Some(self.wait_left(until)),
            }
        }
    }

    /// Decides what a caller does that has acquired the lease. It does the work, unless the previous holder answered
    /// the webhook while this caller waited. A turn that is still open was abandoned by a former holder, so the webhook
    /// is unanswered.
    async fn entered(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
        (resumed, unclaimed): (Written<Resumed>, Unclaimed),
    ) -> Result<Entered, Failure> {
        let Some(turn) = self.answered(scope, session, request).await? else {
            unclaimed.claim();
            return Ok(Entered::Work(Box::new(resumed.into_value())));
        };
        if unclaimed.is_new() {
            let Resumed { holder, fence, .. } = &resumed.value;
            match self.release_lease(scope, session, holder, *fence).await {
                Ok(_) => unclaimed.claim(),
                // The turn has its answer, so the failure is only logged. Dropping `unclaimed` tries to release the
                // lease once more; if that fails as well, the lease expires.
                Err(failure) => {
                    let err = failure.code;
                    tracing::warn!(%err, tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), "[CALL_LOCK_WARN]");
                }
            }
        }
        Ok(Entered::Answered(Box::new(turn)))
    }

    /// Waits until a turn has ended, and returns it. Returns `None` if the session's lease becomes free first. At the
    /// deadline `until`, returns the turn in its present state.
    async fn ended_or_free(
        &self,
        scope: &Scope,
        (session, id): (&SessionId, TurnId),
        until: Instant,
    ) -> Result<Option<Turn>, Failure> {
        let mut commits = self.ledger.commits();
        tokio::select! {
            turn = self.closed_turn(scope, session, id, until) => return turn.map(Some),
            free = self.wait_while_held(scope, session, &mut commits, until) => {
                free.inspect_err(|failure| warn_if_down(scope, session, failure))?;
            }
        }
        if Instant::now() < until {
            return Ok(None);
        }
        self.ledger.turn(scope, session, id).await.map(Some)
    }

    /// The remaining wait for a lease, in milliseconds.
    fn wait_left(&self, until: Instant) -> u64 {
        let left = until.saturating_duration_since(Instant::now());
        let left = left.min(self.settings.calls.lease_wait_max);
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// The turn of a request, if it has ended; otherwise `None`, also if the session does not exist yet or the ledger
    /// does not answer.
    async fn answered(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Turn>, Failure> {
        match self.turn_of(scope, session, request).await {
            Err(failure) if is_unknown(failure.code) => Ok(None),
            turn => Ok(turn?.filter(|turn| turn.status.is_closed())),
        }
    }

    /// The turn of a request, if it exists.
    pub(super) async fn turn_of(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Turn>, Failure> {
        if let Some(spool) = &self.spool
            && self.spooled_state(scope, session).is_some()
        {
            return Ok(spool.waiting_turn(scope, session, request));
        }
        let (viewer, id, request) = (scope.clone(), session.clone(), request.clone());
        self.ledger
            .query_session(scope, session, move |snapshot| {
                let session = snapshot.get(&viewer, &id)?;
                let row = snapshot.turn_of_request(&session, &request)?;
                row.map(|row| snapshot.project(&session, &row)).transpose()
            })
            .await
    }
}

/// Whether the turn cannot be looked up: its session does not exist, or the ledger does not answer.
const fn is_unknown(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SessionNotFound | ErrorCode::StoreUnavailable
    )
}

/// Whether the session exists but its lease cannot be acquired: then the webhook may already have been answered.
const fn cannot_acquire(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::LeaseTimeout | ErrorCode::SessionTerminated | ErrorCode::SessionClosed
    )
}
