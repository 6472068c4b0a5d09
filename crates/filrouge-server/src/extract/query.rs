//! Queries.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use filrouge_types::ErrorCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::serve::App;

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
