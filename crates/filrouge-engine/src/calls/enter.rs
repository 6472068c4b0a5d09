//! The way into a webhook of a live call: at most one of those that carry the same request does the work, and of those of one
//! call one at a time (DESIGN §6).

use std::time::Duration;

use filrouge_store::command::Scope;
use filrouge_types::{ErrorCode, Failure, RequestId, SessionId, Turn};

use super::busy::{OnBusy, busy};
use super::requests::ResumeSession;
use super::resume::Resumed;
use crate::engine::Engine;
use crate::live::Live;

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

impl Engine {
    /// Enters a webhook: takes the session's lease and gives what it takes to go on, unless the same webhook was answered
    /// or is being worked at.
    ///
    /// # Errors
    /// `lease_timeout` when another webhook of the call has held the session all the time, `turn_busy`,
    /// `session_terminated`, and as [`Self::resume`].
    pub async fn enter(
        &self,
        live: &Live,
        scope: &Scope,
        webhook: Webhook,
    ) -> Result<Entered, Failure> {
        let Webhook {
            session,
            request,
            resume,
            on_busy,
        } = webhook;
        // A delivery that comes again takes no lease, and counts as no resume.
        if let Some(turn) = self.answered(scope, &session, &request).await? {
            return Ok(Entered::Answered(Box::new(turn)));
        }
        let resumed = match self.resume(scope, &session, resume).await {
            Err(failure) if is_taken(failure.code) => {
                let taken = Taken { failure, on_busy };
                return self
                    .while_taken(live, scope, &session, &request, taken)
                    .await;
            }
            resumed => resumed?,
        };
        // Whoever worked at it may have ended it while the lease was waited for. A turn that is open was begun by somebody
        // who does not hold the session any more.
        let answered = self.answered(scope, &session, &request).await;
        if let Ok(None) = answered {
            return Ok(Entered::Work(Box::new(resumed)));
        }
        let Resumed { holder, fence, .. } = &resumed;
        let freed = self.release_lease(scope, &session, holder, *fence).await;
        match answered? {
            Some(turn) => freed.map(|_| Entered::Answered(Box::new(turn))),
            None => Ok(Entered::Work(Box::new(resumed))),
        }
    }

    /// The session is not to be had: the webhook may have been answered, or be worked at by whoever holds it.
    async fn while_taken(
        &self,
        live: &Live,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
        taken: Taken,
    ) -> Result<Entered, Failure> {
        match self.turn_of(scope, session, request).await? {
            Some(turn) if turn.status.is_closed() => Ok(Entered::Answered(Box::new(turn))),
            Some(turn) if taken.failure.code == ErrorCode::LeaseTimeout => {
                self.while_busy(live, scope, session, turn, taken.on_busy)
                    .await
            }
            _ => Err(taken.failure),
        }
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

    async fn while_busy(
        &self,
        live: &Live,
        scope: &Scope,
        session: &SessionId,
        turn: Turn,
        on_busy: OnBusy,
    ) -> Result<Entered, Failure> {
        let wait = match on_busy {
            OnBusy::NoContent => return Ok(Entered::Busy),
            OnBusy::Reject => Duration::ZERO,
            OnBusy::Wait(wait) => wait,
        };
        let id = turn.turn_id;
        let turn = self.wait_for_turn(live, scope, session, id, wait).await?;
        if turn.status.is_closed() {
            return Ok(Entered::Answered(Box::new(turn)));
        }
        Err(busy(&turn))
    }

    /// The turn of a request, if it was begun.
    pub(super) async fn turn_of(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &RequestId,
    ) -> Result<Option<Turn>, Failure> {
        if let Some(waiting) = self.ledger.waiting(scope, session).filter(|w| w.down) {
            let mut turns = waiting.turns.into_iter();
            return Ok(turns.find(|turn| turn.request_id == *request));
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

/// A session that is not to be had.
struct Taken {
    failure: Failure,
    on_busy: OnBusy,
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
