//! What is done with a request that somebody works at already (DESIGN §6).

use std::time::Duration;

use filrouge_store::Scope;
use filrouge_types::{ErrorCode, Failure, SessionId, Turn, TurnId, TurnStatus};
use tokio::time::Instant;

use crate::caller::{Caller, Permission};
use crate::calls::held;
use crate::engine::Turns;
use crate::requests::StartTurn;
use crate::written::Written;

/// What a caller wants when its request is being worked at already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBusy {
    /// To wait for the turn to end, so long at most, and to get its answer.
    Wait(Duration),
    /// To be refused.
    Reject,
    /// To get no answer at all: 204.
    NoContent,
}

impl Turns {
    /// Starts a turn, or records a whole one; when it is there already and open, somebody works at it: then as `on_busy`
    /// says. `None` when no answer is wanted. Who holds the session is given the open turn that was left behind by who held
    /// it before, and one that is interrupted meanwhile is opened again.
    ///
    /// # Errors
    /// `turn_busy` when it is refused, or is open still when the waiting is over; and as [`Self::start`].
    pub async fn start_unless_busy(
        &self,
        caller: &Caller,
        session: SessionId,
        request: StartTurn,
        on_busy: OnBusy,
    ) -> Result<Option<Written<Turn>>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let until = match on_busy {
            OnBusy::Wait(wait) => Instant::now() + wait,
            OnBusy::Reject | OnBusy::NoContent => Instant::now(),
        };
        loop {
            let again = request.clone();
            let (mut turn, mine) = self.start_or_find(scope, session.clone(), again).await?;
            if mine || turn.status != TurnStatus::Open {
                return Ok(Some(turn));
            }
            let id = turn.turn_id;
            if self.is_left(scope, &session, id, request.fence).await? {
                return Ok(Some(turn));
            }
            match on_busy {
                OnBusy::NoContent => return Ok(None),
                OnBusy::Reject => return Err(busy(&turn.value)),
                OnBusy::Wait(_) => {}
            }
            let wanted = |status: TurnStatus| status != TurnStatus::Open;
            let ended = self
                .wait_for_status(scope, &session, id, until, wanted)
                .await?;
            // Whoever had it is gone: it is opened again, for one of those who wait.
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

    /// Whether who asks holds the session, and the turn was left behind by who held it before.
    async fn is_left(
        &self,
        scope: &Scope,
        session: &SessionId,
        turn: TurnId,
        fence: Option<u64>,
    ) -> Result<bool, Failure> {
        let scope = held(scope, fence, false)?;
        // Of what waits for the ledger it is not known who else was at it.
        let away = self.away(&scope, session).is_some();
        if scope.hold.is_none() || away {
            return Ok(false);
        }
        let (viewer, id, now) = (scope.clone(), session.clone(), self.clock.now());
        self.ledger
            .ask_in(&scope, session, move |sight| {
                sight.is_left_turn(&viewer, &id, &turn, now)
            })
            .await
    }
}

pub(crate) fn busy(turn: &Turn) -> Failure {
    let what = format!("request {:?} is being worked at", turn.request_id.as_str());
    Failure::new(ErrorCode::TurnBusy, what).with_hint(
        "get the turn with `wait`, or send the request again: it is answered once the turn has ended",
    )
}
