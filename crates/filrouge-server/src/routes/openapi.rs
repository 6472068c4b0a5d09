//! `/openapi.json`.

use std::sync::LazyLock;

use axum::body::{Body as HttpBody, Bytes};
use axum::http::{HeaderValue, Response, header};

use crate::openapi::finish;
use filrouge_http::answer::Answer;
use filrouge_http::extract::{NoParameters, Query};

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let document = finish(super::api().into_openapi());
    format!("{document:#}\n").into()
});

/// Gives this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = "server",
    responses(
        (
            status = 200,
            description = "The document.",
            content((crate::openapi::Document = "application/json")),
            headers(("Cache-Control" = String, description = "It may be kept for an hour.")),
        )
    )
)]
pub(super) async fn show(_: Query<NoParameters>) -> Answer {
    let mut response = Response::new(HttpBody::from(DOCUMENT.clone()));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=3600"),
    );
    Ok(response)
}
