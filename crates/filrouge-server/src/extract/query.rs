//! Queries.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use filrouge_types::ErrorCode;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use crate::problem::Problem;
use crate::serve::App;

/// A query; unknown parameters are refused.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + IntoParams> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri)
            .map(|q| Self(q.0))
            .map_err(|e| {
                let mut problem = Problem::new(ErrorCode::Invalid, e.body_text());
                problem.0.hint = Some(known::<T>());
                problem
            })
    }
}

/// The parameters that a route knows.
fn known<T: IntoParams>() -> String {
    let known: Vec<String> = T::into_params(|| None)
        .into_iter()
        .map(|p| p.name)
        .collect();
    if known.is_empty() {
        "this route takes no parameters".to_owned()
    } else {
        format!("known parameters, each at most once: {}", known.join(", "))
    }
}

/// A route without parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

impl IntoParams for NoParameters {
    fn into_params(
        _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
    ) -> Vec<utoipa::openapi::path::Parameter> {
        Vec::new()
    }
}

/// A `next_cursor` as it was given: 1 to 19 digits.
pub(crate) struct Cursor(u64);

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.0.to_string()
    }
}

impl From<Cursor> for u64 {
    fn from(cursor: Cursor) -> Self {
        cursor.0
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let digits = text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| digits).map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is no cursor; pass a next_cursor as it came, or leave it out for the first page"
            ))
        })
    }
}

/// Longest long poll in milliseconds: well below what an answer may take to begin.
pub(crate) const WAIT_MAX_MS: u64 = 60_000;

/// How long a long poll may take.
pub(crate) fn wait(asked: Option<u64>) -> Result<Duration, Problem> {
    match asked {
        None => Ok(Duration::ZERO),
        Some(ms @ 0..=WAIT_MAX_MS) => Ok(Duration::from_millis(ms)),
        Some(ms) => Err(Problem::new(
            ErrorCode::Invalid,
            format!("wait is {ms}; it must be 0 to {WAIT_MAX_MS} milliseconds"),
        )),
    }
}

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
