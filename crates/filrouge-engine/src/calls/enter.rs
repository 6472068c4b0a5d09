//! The way into a webhook of a live call: at most one of those that carry the same request does the work, and of those of one
//! call one at a time (DESIGN §6).

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
    /// The call.
    pub session: SessionId,
    /// The webhook's own key: the same for each delivery of it.
    pub request: RequestId,
    /// How the session is gone on with.
    pub resume: ResumeSession,
    /// What to do when somebody else works at this very webhook.
    pub on_busy: OnBusy,
}

/// What is to be done with a webhook.
#[derive(Debug)]
pub enum Entered {
    /// To work at it: the session is held, and this is what it takes to go on. Start the turn under the fence, and give the
    /// session free with the last write.
    Work(Box<Resumed>),
    /// It was answered before, by this turn.
    Answered(Box<Turn>),
    /// Somebody works at it, and no answer is wanted.
    Busy,
}

impl Calls {
    /// Enters a webhook: takes the session's lease and gives what it takes to go on, unless the same webhook was answered
    /// or is being worked at.
    ///
    /// # Errors
    /// `lease_timeout` when another webhook of the call has held the session all the time, `turn_busy`,
    /// `session_terminated`, and as [`Self::resume`].
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
            // A delivery that comes again takes no lease, and counts as no resume.
            if let Some(turn) = self.answered(scope, &session, &request).await? {
                return Ok(Entered::Answered(Box::new(turn)));
            }
            let failure = match self.resume_unclaimed(scope, &session, &resume).await {
                Ok(held) => return self.entered(scope, &session, &request, held).await,
                Err(failure) if is_taken(failure.code) => failure,
                Err(failure) => return Err(failure),
            };
            // The webhook may have been answered, or be worked at by whoever holds the session.
            let turn = match self.turn_of(scope, &session, &request).await? {
                Some(turn) if turn.status.is_closed() => {
                    return Ok(Entered::Answered(Box::new(turn)));
                }
                Some(turn) if failure.code == ErrorCode::LeaseTimeout => turn,
                _ => {
                    let waited = waited || until.is_some();
                    let refused = (&*resume.holder, waited, &failure);
                    self.tell_refused(scope, &session, refused).await;
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
                // Whoever worked at it is gone: the work is to be done here.
                None => resume.wait_ms = Some(self.wait_left(until)),
            }
        }
    }

    /// The session is held: the work is to be done, unless whoever held it before has ended it while the lease was waited
    /// for. A turn that is open was begun by somebody who does not hold the session any more.
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
            match self.free(scope, session, holder, *fence).await {
                Ok(_) => unclaimed.claim(),
                // The answer is there. The lease is tried once more, and ends by itself when its time is up.
                Err(failure) => {
                    let err = failure.code;
                    tracing::warn!(%err, tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), "[CALL_LOCK_WARN]");
                }
            }
        }
        Ok(Entered::Answered(Box::new(turn)))
    }

    /// Waits until a turn has ended, or the session that it is worked at in is free: then none is given. When time is over,
    /// the turn as it stands.
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

    /// How many milliseconds a lease may still be waited for.
    fn wait_left(&self, until: Instant) -> u64 {
        let left = until.saturating_duration_since(Instant::now());
        let left = left.min(self.settings.calls.lease_wait_max);
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// The turn of a request, if it has ended; none of a session that is not there yet. While the ledger does not answer,
    /// it is not known of any.
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

    /// The turn of a request, if it was begun.
    pub(super) async fn turn_of(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Turn>, Failure> {
        if let Some(spool) = &self.spool
            && self.away(scope, session).is_some()
        {
            return Ok(spool.waiting_turn(scope, session, request));
        }
        let (viewer, id, request) = (scope.clone(), session.clone(), request.clone());
        self.ledger
            .ask_in(scope, session, move |sight| {
                let session = sight.get(&viewer, &id)?;
                let row = sight.turn_of_request(&session, &request)?;
                row.map(|row| sight.project(&session, &row)).transpose()
            })
            .await
    }
}

/// Whether a turn cannot be looked for: its session is not there, or nobody can tell.
const fn is_unknown(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SessionNotFound | ErrorCode::StoreUnavailable
    )
}

/// Whether a session is there and not to be had: then the webhook may have been answered.
const fn is_taken(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::LeaseTimeout | ErrorCode::SessionTerminated | ErrorCode::SessionClosed
    )
}
