//! What is done with a request that somebody works at already (DESIGN §6).

use std::time::Duration;

use filrouge_store::Scope;
use filrouge_types::{ErrorCode, Failure, SessionId, Turn, TurnStatus};

use crate::engine::Engine;
use crate::live::Live;
use crate::requests::StartTurn;
use crate::secrets::Recorded;

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

impl Engine {
    /// Starts a turn, or records a whole one; when it is there already and open, somebody works at it: then as `on_busy`
    /// says. `None` when no answer is wanted.
    ///
    /// # Errors
    /// `turn_busy` when it is refused, or is open still when the waiting is over; and as [`Self::start_turn`].
    pub async fn start_turn_unless_busy(
        &self,
        live: &Live,
        scope: &Scope,
        session: SessionId,
        request: StartTurn,
        on_busy: OnBusy,
    ) -> Result<Option<Recorded<Turn>>, Failure> {
        let (mut turn, mine) = self.start_or_find(scope, session.clone(), request).await?;
        if mine || turn.status != TurnStatus::Open {
            return Ok(Some(turn));
        }
        match on_busy {
            OnBusy::NoContent => Ok(None),
            OnBusy::Reject => Err(busy(&turn.value)),
            OnBusy::Wait(wait) => {
                let id = turn.turn_id;
                let ended = self.wait_for_turn(live, scope, &session, id, wait).await?;
                if !ended.status.is_closed() {
                    return Err(busy(&ended));
                }
                turn.value = Turn {
                    replayed: true,
                    differs: turn.value.differs,
                    ..ended
                };
                Ok(Some(turn))
            }
        }
    }
}

pub(super) fn busy(turn: &Turn) -> Failure {
    let what = format!("request {:?} is being worked at", turn.request_id.as_str());
    Failure::new(ErrorCode::TurnBusy, what).with_hint(
        "get the turn with `wait`, or send the request again: it is answered once the turn has ended",
    )
}
