//! Failures for sessions and turns that are absent, or hidden from the caller.

use filrouge_types::{ErrorCode, Failure, SessionId, TurnId};

use super::{VerifiedSession, VerifiedSnapshot};
use crate::command::{Scope, Viewer};
use crate::hot::turn_expired;
use crate::rows::View;

/// The failure for an erased session. Only a caller who could see the session before receives it (DESIGN §9).
pub fn session_erased(id: &SessionId) -> Failure {
    let detail = format!("session {:?} was erased", id.as_str());
    Failure::new(ErrorCode::SessionErased, detail)
        .with_hint("its id is not used again: begin a session with another one")
}

/// The failure for creating a session whose id another owner uses. No other operation reveals that an id is in use
/// (P6).
pub fn session_conflict() -> Failure {
    ErrorCode::SessionConflict
        .failure("a session with this id belongs to another owner")
        .with_hint("choose another session_id")
}

/// The failure for a session that is absent or hidden from the caller; the caller cannot distinguish the two (P6).
pub fn session_not_found(id: &SessionId) -> Failure {
    ErrorCode::SessionNotFound.failure(format!("there is no session {:?}", id.as_str()))
}

/// The failure for a turn that is absent or hidden from the caller.
pub fn turn_not_found(id: &TurnId) -> Failure {
    ErrorCode::TurnNotFound.failure(format!("there is no turn {id} in this session"))
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The failure for a turn that the session does not have: `turn_expired` if the session's oldest turns were
    /// trimmed, since the turn may have been one of them; otherwise `turn_not_found`.
    pub(crate) fn absent_turn_failure(&self, session: &VerifiedSession, id: &TurnId) -> Failure {
        match self.view.first_ordinal(session.pk) {
            Ok(1) => turn_not_found(id),
            Ok(_) => turn_expired(id),
            Err(failure) => failure,
        }
    }

    /// The failure for a turn of an absent session: `turn_expired` if the session may have expired with all its turns,
    /// which only an anonymous one does; otherwise `session_not_found`.
    pub(crate) fn absent_session_failure(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: &TurnId,
    ) -> Result<Failure, Failure> {
        let is_anonymous = scope.viewer == Viewer::EndUser(None);
        let may_have_expired = is_anonymous && self.view.can_expire();
        let is_absent =
            may_have_expired && self.view.session(&scope.tenant, session, None)?.is_none();
        Ok(if is_absent {
            turn_expired(id)
        } else {
            session_not_found(session)
        })
    }
}
