//! Whose request it is, and what its path names.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use filrouge_store::{Scope, Viewer};
use filrouge_types::{ErrorCode, IdError, IdentityId, SessionId, TurnId};

use crate::problem::Problem;
use crate::serve::App;

/// The session of the path.
pub(crate) struct InSession {
    pub(crate) scope: Scope,
    pub(crate) session: SessionId,
}

/// The turn of the path, in its session.
pub(crate) struct InTurn {
    pub(crate) scope: Scope,
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
}

fn path_rejection(e: PathRejection) -> Problem {
    Problem::new(ErrorCode::Invalid, e.body_text())
}

fn id_problem(e: IdError) -> Problem {
    Problem::new(ErrorCode::Invalid, e.to_string())
}

/// An id that is no UUID names no turn.
fn turn_id(text: &str) -> Result<TurnId, Problem> {
    text.parse().map_err(|_| {
        Problem::new(
            ErrorCode::TurnNotFound,
            format!("there is no turn {text:?} in this session"),
        )
    })
}

impl FromRequestParts<App> for InSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let scope = scope(parts, state)?;
        let Path(session) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(path_rejection)?;
        Ok(Self {
            scope,
            session: SessionId::new(session).map_err(id_problem)?,
        })
    }
}

impl FromRequestParts<App> for InTurn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let scope = scope(parts, state)?;
        let Path((session, turn)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(path_rejection)?;
        Ok(Self {
            scope,
            session: SessionId::new(session).map_err(id_problem)?,
            turn: turn_id(&turn)?,
        })
    }
}

/// On whose behalf the request comes: without keys, `Filrouge-Identity` is trusted (DESIGN §8).
pub(crate) struct Caller(pub(crate) Scope);

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        scope(parts, state).map(Self)
    }
}

fn scope(parts: &Parts, state: &App) -> Result<Scope, Problem> {
    let identity = match parts.headers.get("filrouge-identity") {
        None => None,
        Some(value) => {
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Problem::new(ErrorCode::Invalid, "Filrouge-Identity is not UTF-8"))?;
            let id = IdentityId::new(text)
                .map_err(|e| Problem::new(ErrorCode::Invalid, format!("Filrouge-Identity: {e}")))?;
            Some(id)
        }
    };
    Ok(Scope {
        tenant: state.tenant().clone(),
        viewer: Viewer::EndUser(identity),
    })
}
