//! Request bodies: JSON, within the bounds of DESIGN §8 on bytes, time and what a compressed one unfolds to.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use filrouge_types::{ErrorCode, Object};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::problem::Problem;
use crate::serve::App;

mod gzip;
mod receive;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &App) -> Result<Self, Problem> {
        content_type(request.headers())?;
        let bytes = receive::whole(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &App) -> Result<Self, Problem> {
        let typed = content_type(request.headers());
        let bytes = receive::whole(request, state).await?;
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
