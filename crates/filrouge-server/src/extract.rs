//! Bodies, queries and path ids: what cannot be read is 400, what is read and not acceptable 422.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::{HeaderMap, header, request::Parts};
use filrouge_store::{Scope, Viewer};
use filrouge_types::{ErrorCode, IdError, IdentityId, Object, SessionId, TurnId};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::problem::Problem;
use crate::serve::App;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &App) -> Result<Self, Problem> {
        content_type(request.headers())?;
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(body_rejection)?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &App) -> Result<Self, Problem> {
        let typed = content_type(request.headers());
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(body_rejection)?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        typed?;
        parse(&bytes).map(Self)
    }
}

/// Only JSON: a form posted by some page in a browser must not write (DESIGN §8).
fn content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("");
    let essence = given.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let mut problem = Problem::new(
        ErrorCode::UnsupportedMediaType,
        format!("content-type is {given:?}"),
    );
    problem.0.hint = Some("send the header content-type: application/json".to_owned());
    Err(problem)
}

fn body_rejection(rejection: BytesRejection) -> Problem {
    if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        let mut problem =
            Problem::new(ErrorCode::PayloadTooLarge, "the body is larger than 32 MiB");
        problem.0.hint = Some("send fewer items at once".to_owned());
        problem
    } else {
        Problem::new(ErrorCode::BadRequest, rejection.body_text())
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice::<Object<T>>(bytes)
        .map(|body| body.0)
        .map_err(|e| {
            // What is no JSON at all may have met something unacceptable first.
            match serde_json::from_slice::<IgnoredAny>(bytes) {
                Ok(_) if e.is_data() => Problem::new(ErrorCode::Invalid, e.to_string()),
                Ok(_) => Problem::new(ErrorCode::BadRequest, e.to_string()),
                Err(syntax) => Problem::new(ErrorCode::BadRequest, syntax.to_string()),
            }
        })
}

/// A query; unknown parameters are refused.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri)
            .map(|q| Self(q.0))
            .map_err(|e| Problem::new(ErrorCode::Invalid, e.body_text()))
    }
}

/// A route without parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

/// How many rows a list gives: 50 unless asked, at most 500 (DESIGN §12).
pub(crate) fn limit(asked: Option<i64>) -> Result<usize, Problem> {
    match asked {
        None => Ok(50),
        Some(n @ 1..=500) => Ok(usize::try_from(n).unwrap_or(50)),
        Some(n) => Err(Problem::new(
            ErrorCode::Invalid,
            format!("limit is {n}; it must be 1 to 500"),
        )),
    }
}

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
