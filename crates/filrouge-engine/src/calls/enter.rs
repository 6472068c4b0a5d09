//! Admits the webhooks of a live call (DESIGN §6). Webhooks of one call are handled one at a time. If a webhook is
//! delivered several times, at most one delivery does the work.

use filrouge_store::command::Scope;
use filrouge_types::{ErrorCode, Failure, RequestId, Result, SessionId, Turn, TurnId, TurnStatus};
use tokio::time::Instant;

use super::lease::warn_if_down;
use super::requests::ResumeSession;
use super::resume::Resumed;
use super::unclaimed::UnclaimedLease;
use super::words::log_word;
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
pub enum WebhookAdmission {
    /// The caller has the session's lease and must work on the webhook. The value contains all that it needs to resume.
    /// The caller starts the turn under the lease's fence, and releases the lease with its last write.
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
    pub async fn enter(&self, caller: &Caller, webhook: Webhook) -> Result<WebhookAdmission> {
        let scope = &caller.scope(Permission::Write)?;
        let Webhook {
            session,
            request,
            mut resume,
            on_busy,
        } = webhook;
        let waited = !self.lease_wait(resume.wait_ms)?.is_zero();
        let mut deadline = None;
        loop {
            // A repeated delivery acquires no lease, and does not count as a resume.
            if let Some(turn) = self.answered_turn(scope, &session, &request).await? {
                return Ok(WebhookAdmission::Answered(Box::new(turn)));
            }
            let failure = match self.resume_unclaimed(scope, &session, &resume).await {
                Ok(acquired) => {
                    return self
                        .admit_with_lease(scope, &session, &request, acquired)
                        .await;
                }
                // The session exists but its lease cannot be acquired: the webhook may already have been answered.
                Err(failure) => match failure.code {
                    ErrorCode::LeaseTimeout
                    | ErrorCode::SessionTerminated
                    | ErrorCode::SessionClosed => failure,
                    _ => return Err(failure),
                },
            };
            // The webhook may have been answered by now, or the lease's holder may be working on it.
            let turn = match self.turn_of_request(scope, &session, &request).await? {
                Some(turn) if turn.status.is_closed() => {
                    return Ok(WebhookAdmission::Answered(Box::new(turn)));
                }
                Some(turn) if failure.code == ErrorCode::LeaseTimeout => turn,
                _ => {
                    let waited = waited || deadline.is_some();
                    let refused = (&*resume.holder, waited, &failure);
                    self.report_refused(scope, &session, refused).await;
                    return Err(failure);
                }
            };
            let wait = match on_busy {
                OnBusy::NoContent => return Ok(WebhookAdmission::Busy),
                OnBusy::Reject => return Err(busy(&turn)),
                OnBusy::Wait(wait) => wait,
            };
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + wait);
            let id = turn.turn_id;
            match self
                .wait_until_ended_or_free(scope, (&session, id), deadline)
                .await?
            {
                Some(turn) if turn.status.is_closed() => {
                    return Ok(WebhookAdmission::Answered(Box::new(turn)));
                }
                Some(turn) => return Err(busy(&turn)),
                // The session has no holder, but the turn is still open: its caller has disappeared. So this caller
                // tries to acquire the lease and do the work.
                None => resume.wait_ms = Some(self.remaining_wait_ms(deadline)),
            }
        }
    }

    /// Decides how a caller proceeds that has acquired the lease. It does the work, unless the previous holder answered
    /// the webhook in the meantime. A turn that is still open was abandoned by a former holder, so its webhook is not
    /// answered.
    async fn admit_with_lease(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
        (resumed, unclaimed): (Written<Resumed>, UnclaimedLease),
    ) -> Result<WebhookAdmission> {
        let Some(turn) = self.answered_turn(scope, session, request).await? else {
            unclaimed.claim();
            return Ok(WebhookAdmission::Work(Box::new(resumed.into_value())));
        };
        if unclaimed.has_lease() {
            let Resumed { holder, fence, .. } = &resumed.value;
            match self.release_lease(scope, session, holder, *fence).await {
                Ok(_) => unclaimed.claim(),
                // The turn has its answer, so the failure is only logged. Dropping `unclaimed` tries to release the
                // lease once more; if that fails as well, the lease expires.
                Err(failure) => {
                    let err = failure.code;
                    tracing::warn!(%err, tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), "[CALL_LOCK_WARN]");
                }
            }
        }
        Ok(WebhookAdmission::Answered(Box::new(turn)))
    }

    /// Waits until a turn has ended, and returns it. Returns `None` if the session's lease becomes free first. At
    /// `deadline`, returns the turn in its present state.
    async fn wait_until_ended_or_free(
        &self,
        scope: &Scope,
        (session, id): (&SessionId, TurnId),
        deadline: Instant,
    ) -> Result<Option<Turn>> {
        let mut commits = self.ledger.commits();
        let closed = self.wait_for_status(scope, session, id, deadline, TurnStatus::is_closed);
        tokio::select! {
            turn = closed => return turn.map(Some),
            free = self.wait_while_held(scope, session, &mut commits, deadline) => {
                free.inspect_err(|failure| warn_if_down(scope, session, failure))?;
            }
        }
        if Instant::now() < deadline {
            return Ok(None);
        }
        self.ledger.turn(scope, session, id).await.map(Some)
    }

    /// The remaining wait for a lease, in milliseconds.
    fn remaining_wait_ms(&self, deadline: Instant) -> u64 {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let remaining = remaining.min(self.settings.calls.lease_wait_max);
        u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)
    }

    /// The turn of a request, if it has ended; otherwise `None`, also if the session does not exist yet or the ledger
    /// does not answer.
    async fn answered_turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Turn>> {
        match self.turn_of_request(scope, session, request).await {
            Err(Failure {
                code: ErrorCode::SessionNotFound | ErrorCode::StoreUnavailable,
                ..
            }) => Ok(None),
            turn => Ok(turn?.filter(|turn| turn.status.is_closed())),
        }
    }

    /// The turn of a request, if it exists.
    pub(super) async fn turn_of_request(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Turn>> {
        if let Some(spool) = &self.spool
            && self.spooled_state(scope, session).is_some()
        {
            return Ok(spool.spooled_turn(scope, session, request));
        }
        let request = request.clone();
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let session = snapshot.get(scope, id)?;
                let row = snapshot.turn_of_request(&session, &request)?;
                row.map(|row| snapshot.project(&session, &row)).transpose()
            })
            .await
    }
}
