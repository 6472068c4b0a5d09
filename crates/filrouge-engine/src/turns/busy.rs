//! Handles a request to start a turn that another request is already answering (DESIGN §6).

use std::time::Duration;

use filrouge_store::Scope;
use filrouge_types::{ErrorCode, Failure, SessionId, Turn, TurnId, TurnStatus};
use tokio::time::Instant;

use crate::caller::{Caller, Permission};
use crate::calls::fenced_scope;
use crate::engine::Turns;
use crate::requests::StartTurn;
use crate::written::Written;

/// The handling of a request for a turn that another request is already answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBusy {
    /// Wait for the turn to end, at most this long, and return the turn.
    Wait(Duration),
    /// Refuse the request.
    Reject,
    /// Return nothing: the HTTP status is 204.
    NoContent,
}

impl Turns {
    /// Starts a turn, or records a complete one. If the turn exists and is open, another request is answering it, and
    /// `on_busy` selects the handling. Returns `None` only for [`OnBusy::NoContent`].
    ///
    /// Two exceptions: if the caller holds the session's lease, it gets an open turn that an earlier holder started. If
    /// the turn is interrupted during the wait, it is reopened for one of the waiting callers.
    ///
    /// # Errors
    /// `turn_busy` for [`OnBusy::Reject`], or if the turn is still open after the wait; and the errors of
    /// [`Self::start`].
    pub async fn start_unless_busy(
        &self,
        caller: &Caller,
        session: SessionId,
        request: StartTurn,
        on_busy: OnBusy,
    ) -> Result<Option<Written<Turn>>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let deadline = match on_busy {
            OnBusy::Wait(wait) => Instant::now() + wait,
            OnBusy::Reject | OnBusy::NoContent => Instant::now(),
        };
        loop {
            let attempt = request.clone();
            let (mut turn, must_answer) =
                self.start_or_find(scope, session.clone(), attempt).await?;
            if must_answer || turn.status != TurnStatus::Open {
                return Ok(Some(turn));
            }
            let id = turn.turn_id;
            if self
                .is_inherited(scope, &session, id, request.fence)
                .await?
            {
                return Ok(Some(turn));
            }
            match on_busy {
                OnBusy::NoContent => return Ok(None),
                OnBusy::Reject => return Err(busy(&turn.value)),
                OnBusy::Wait(_) => {}
            }
            let has_ended = |status: TurnStatus| status != TurnStatus::Open;
            let ended = self
                .wait_for_status(scope, &session, id, deadline, has_ended)
                .await?;
            // The turn was abandoned. The first waiting caller that starts it again reopens it.
            if ended.status == TurnStatus::Interrupted {
                continue;
            }
            if !ended.status.is_closed() {
                return Err(busy(&ended));
            }
            turn.replayed = true;
            turn.value = Turn {
                replayed: true,
                differs: turn.value.differs,
                ..ended
            };
            return Ok(Some(turn));
        }
    }

    /// Whether the caller holds the session's lease, and an earlier holder started the turn.
    async fn is_inherited(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: TurnId,
        fence: Option<u64>,
    ) -> Result<bool, Failure> {
        let scope = fenced_scope(scope, fence, false)?;
        // While writes are in the spool, it is unknown whether another holder has worked on the turn.
        let is_spooled = self.spooled_state(&scope, session).is_some();
        if scope.fence.is_none() || is_spooled {
            return Ok(false);
        }
        let now = self.clock.lease_now();
        self.ledger
            .query_session(&scope, session, move |snapshot, scope, id| {
                snapshot.is_inherited_turn(scope, id, &turn, now)
            })
            .await
    }
}

pub(crate) fn busy(turn: &Turn) -> Failure {
    let what = format!("request {:?} is being worked on", turn.request_id.as_str());
    Failure::new(ErrorCode::TurnBusy, what).with_hint(
        "get the turn with `wait`, or send the request again: it is answered once the turn has ended",
    )
}
