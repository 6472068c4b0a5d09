//! Reads the fields of a submitted form.

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use filrouge_http::problem::Problem;
use filrouge_types::ErrorCode;
use serde::de::DeserializeOwned;

use crate::visit::language_of;
use crate::words::FormWords;

/// The maximum size of a submitted form in bytes.
const FORM_MAX: usize = 64 << 10;

/// The fields of a form that a page has submitted. Unknown fields are refused if `T` denies them.
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let words = FormWords::of(language_of(request.headers()));
        let media_type = request.headers().get(header::CONTENT_TYPE);
        let is_form = media_type.is_some_and(|value| {
            let essence = value.as_bytes().split(|byte| *byte == b';').next();
            essence.is_some_and(|text| {
                text.trim_ascii()
                    .eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
            })
        });
        if !is_form {
            let code = ErrorCode::UnsupportedMediaType;
            return Err(Problem::new(code, words.no_form));
        }
        let bytes = to_bytes(request.into_body(), FORM_MAX).await.map_err(|_| {
            let detail = format!("{} {FORM_MAX}", words.too_large);
            Problem::new(ErrorCode::BadRequest, detail)
        })?;
        serde_urlencoded::from_bytes(&bytes)
            .map(Self)
            .map_err(|error| {
                Problem::new(ErrorCode::Invalid, words.unreadable).with_hint(error.to_string())
            })
    }
}
