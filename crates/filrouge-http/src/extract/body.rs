//! Reads request bodies as JSON, within the limits of DESIGN §8 on size, time and decompressed size.

use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{HeaderMap, Method, header};
use filrouge_types::{ErrorCode, Object};
use serde::de::DeserializeOwned;

use crate::layer::HttpLayer;
use crate::problem::Problem;

mod gzip;
mod raw;
mod receive;
mod refusal;

pub use raw::RawBody;

/// The body of a request: one JSON object, deserialized as `T`.
pub struct Body<T>(pub T);

impl<S, T> FromRequest<S> for Body<T>
where
    S: Send + Sync,
    HttpLayer: FromRef<S>,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        check_content_type(request.method(), request.headers())?;
        let bytes = receive::read_body(request, &HttpLayer::from_ref(state)).await?;
        parse(&bytes).map(Self)
    }
}

/// Like [`Body`], but the request may have no body; then this is `T`'s default.
pub struct OptionalBody<T>(pub T);

impl<S, T> FromRequest<S> for OptionalBody<T>
where
    S: Send + Sync,
    HttpLayer: FromRef<S>,
    T: DeserializeOwned + Default,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let type_check = check_content_type(request.method(), request.headers());
        let bytes = receive::read_body(request, &HttpLayer::from_ref(state)).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        type_check?;
        parse(&bytes).map(Self)
    }
}

/// The complete body of a request with any content type, such as a form with a file. The limits are those of [`Body`].
pub struct UploadBody {
    /// The content type; empty if the request has none.
    pub content_type: String,
    /// The body, decompressed.
    pub bytes: Vec<u8>,
}

impl<S> FromRequest<S> for UploadBody
where
    S: Send + Sync,
    HttpLayer: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let bytes = receive::read_body(request, &HttpLayer::from_ref(state)).await?;
        Ok(Self {
            content_type,
            bytes,
        })
    }
}

/// Checks that the content type is JSON in UTF-8. A browser cannot post a form of that type, so a form on another
/// site's page cannot write (DESIGN §8). For PATCH, the type of a merge patch is accepted as well.
fn check_content_type(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("");
    let mut parts = given.split(';').map(str::trim);
    let essence = parts.next().unwrap_or("");
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || method == Method::PATCH && essence.eq_ignore_ascii_case("application/merge-patch+json");
    let mut charsets = parts.filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches('"'))
    });
    let hint = if !is_json {
        "send the header content-type: application/json"
    } else if charsets.any(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
        "send JSON in UTF-8; the header content-type needs no charset"
    } else {
        return Ok(());
    };
    let detail = format!("content-type is {given:?}");
    Err(Problem::new(ErrorCode::UnsupportedMediaType, detail).with_hint(hint))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice::<Object<T>>(bytes)
        .map(|body| body.0)
        .map_err(|_| refusal::describe::<T>(bytes))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_json_in_utf_8_is_accepted() {
        let hint = |method: Method, given: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(given));
            let refused = check_content_type(&method, &headers).err();
            refused.and_then(|problem| problem.0.hint)
        };
        for given in [
            "application/json",
            "Application/JSON; Charset=UTF-8",
            "application/json;charset=\"utf-8\"; x=y",
        ] {
            assert_eq!(hint(Method::POST, given), None, "{given}");
        }
        let merge = "application/merge-patch+json; charset=utf-8";
        assert_eq!(hint(Method::PATCH, merge), None);
        for (method, given, word) in [
            (Method::POST, merge, "application/json"),
            (Method::PATCH, "text/plain", "application/json"),
            (Method::POST, "application/json; charset=latin1", "UTF-8"),
            (
                Method::POST,
                "application/json; charset=utf-8; charset=utf-16",
                "UTF-8",
            ),
        ] {
            assert!(
                hint(method, given).is_some_and(|hint| hint.contains(word)),
                "{given}"
            );
        }
    }
}
