//! What is said of sessions and turns that are not there, or not for the caller.

use filrouge_types::{ErrorCode, Failure, SessionId, TurnId};

use super::{Loaded, Sight};
use crate::command::{Scope, Viewer};
use crate::hot::turn_expired;
use crate::rows::View;

/// Erased: only its owner is told (DESIGN §9).
#[must_use]
pub fn session_erased(id: &SessionId) -> Failure {
    let what = format!("session {:?} was erased", id.as_str());
    Failure::new(ErrorCode::SessionErased, what)
        .with_hint("its id is not used again: begin a session with another one")
}

/// Somebody else's, where creating tells (P6).
#[must_use]
pub fn session_conflict() -> Failure {
    Failure::new(
        ErrorCode::SessionConflict,
        "a session with this id belongs to somebody else",
    )
    .with_hint("choose another session_id")
}

/// Absent, or not the caller's: the two look alike (P6).
#[must_use]
pub fn session_not_found(id: &SessionId) -> Failure {
    Failure::new(
        ErrorCode::SessionNotFound,
        format!("there is no session {:?}", id.as_str()),
    )
}

/// Absent, or not the caller's.
#[must_use]
pub fn turn_not_found(id: &TurnId) -> Failure {
    Failure::new(
        ErrorCode::TurnNotFound,
        format!("there is no turn {id} in this session"),
    )
}

impl<V: View + ?Sized> Sight<'_, V> {
    /// What is said of a turn that a session has not got: where the oldest turns are let go, it may have been one.
    pub(crate) fn no_turn(&self, session: &Loaded, id: &TurnId) -> Failure {
        match self.view.first_ordinal(session.pk) {
            Ok(1) => turn_not_found(id),
            Ok(_) => turn_expired(id),
            Err(failure) => failure,
        }
    }

    /// What is said of a turn in a session that is absent: nobody's sessions may have been let go whole.
    pub(crate) fn no_session(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: &TurnId,
    ) -> Result<Failure, Failure> {
        let nobody = scope.viewer == Viewer::EndUser(None);
        let forgotten = nobody && self.view.forgets();
        let absent = forgotten && self.view.session(&scope.tenant, session, None)?.is_none();
        Ok(if absent {
            turn_expired(id)
        } else {
            session_not_found(session)
        })
    }
}
